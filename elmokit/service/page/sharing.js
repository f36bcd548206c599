// The state of a panel as an address, as Python and as curl.
import { element } from "./elements.js";
import { text } from "./texts.js";

export function readAddress() {
  const [panel, query = ""] = location.hash.slice(1).split("?");
  return { panel, values: new URLSearchParams(query) };
}

export function writeAddress(panel, values) {
  const query = new URLSearchParams(values).toString();
  history.replaceState(null, "", `${location.pathname}${location.search}#${panel}${query && "?" + query}`);
}

export const python = (value) => JSON.stringify(value);

export const loading = (model) =>
  model.id === "english-small" ? "load()" : `load(${python(model.id)})`;

export function curl(path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", `'\\''`);
  return `curl ${location.origin}${path} -H 'content-type: application/json' \\\n  -d '${quoted}'`;
}

// Buttons that copy; `asPython` and `asCurl` give what they copy when pressed.
export function shareButtons(asPython, asCurl) {
  const button = (label, give) =>
    element("button", { type: "button", class: "plain", onclick: () => copy(give()) }, text(label));
  return element(
    "div",
    { class: "share" },
    button("copyLink", () => location.href),
    button("copyPython", asPython),
    button("copyCurl", asCurl),
  );
}

let clearing;

async function copy(words) {
  const notice = document.getElementById("notice");
  try {
    await navigator.clipboard.writeText(words);
    notice.textContent = text("copied");
  } catch {
    notice.textContent = text("copyFailed");
  }
  clearTimeout(clearing);
  clearing = setTimeout(() => (notice.textContent = ""), 2500);
}
