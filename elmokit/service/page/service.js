// Requests to the service, with its key where it wants one.

// Where the service is, also behind a proxy that has it under a prefix.
export const urlOf = (path) => new URL(`..${path}`, import.meta.url).href;

let key = sessionStorage.getItem("elmo-key") ?? "";

export const hasKey = () => key !== "";

export async function send(path, body, accept, signal) {
  const sent = key;
  const headers = { ...(accept && { accept }), ...(sent && { authorization: `Bearer ${sent}` }) };
  const request = { headers, signal };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  const response = await fetch(urlOf(path), request);
  if (response.status !== 401) return response;
  if (sent === key) await askForKey(); // else it was asked for while this one waited
  return send(path, body, accept, signal);
}

let asking = null;

function askForKey() {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("key");
    document.getElementById("key-refused").hidden = !key;
    dialog.showModal();
    dialog.onclose = () => {
      key = document.getElementById("key-value").value.trim();
      sessionStorage.setItem("elmo-key", key);
      asking = null;
      done();
    };
  });
  return asking;
}
