// The state of a panel as an address, as Python and as curl.
import { element } from "./elements.js";
import { hasKey, urlOf } from "./service.js";
import { text } from "./texts.js";

export function readAddress() {
  const [panel, query = ""] = location.hash.slice(1).split("?");
  return { panel, values: new URLSearchParams(query) };
}

// What a panel shows now, unless it was left while it waited for an answer.
export function writeAddress(panel, values) {
  if (readAddress().panel === panel) openAddress(panel, values);
}

export function openAddress(panel, values) {
  const query = new URLSearchParams(values).toString();
  history.replaceState(null, "", `${location.pathname}${location.search}#${panel}${query && "?" + query}`);
}

export function python(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one)}`).join(", ")}}`;
}

export const loading = (model) =>
  model.id === "english-small" ? "load()" : `load(${python(model.id)})`;

export function curl(path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", `'\\''`);
  const key = hasKey() ? ` -H "authorization: Bearer $ELMO_API_KEY"` : "";
  return `curl ${urlOf(path)} -H 'content-type: application/json'${key} \\\n  -d '${quoted}'`;
}

// For what the library cannot do without an index: the same question by HTTP.
export function pythonRequest(path, body) {
  const headers = hasKey() ? `headers = {"authorization": "Bearer " + os.environ["ELMO_API_KEY"]}` : "headers = {}";
  return [
    ...(hasKey() ? ["import os", ""] : []),
    "import httpx",
    "",
    headers,
    `answer = httpx.post(${python(urlOf(path))}, json=${python(body)}, headers=headers)`,
    "print(answer.json())",
    "",
  ].join("\n");
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
    urlOf ? button("copyCurl", asCurl) : null,
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
