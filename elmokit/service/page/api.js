// Calls to the service. A later call for the same purpose ends the one before.
import { TEXTS, currentLanguage, number, text } from "./texts.js";

// Where the service is, also behind a proxy that has it under a prefix.
export const urlOf = (path) => new URL(`..${path}`, import.meta.url).href;

const running = new Map();
let key = sessionStorage.getItem("elmo-key") ?? "";

// A request without its answer: why, in the language of the page, or as the service says it.
export class Refused extends Error {
  constructor({ code, message, values = {} }) {
    super(message);
    this.code = code;
    const name = `error_${code}`;
    if (!(name in TEXTS[currentLanguage()])) return;
    const shown = Object.entries(values).map(([of, value]) => [of, shownValue(value)]);
    this.message = text(name, Object.fromEntries(shown));
  }
}

const shownValue = (value) =>
  typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 1) : value || "–";

export const hasKey = () => key !== "";

export async function ask(path, body, { purpose = path, accept } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const answer = await send(path, body, accept, control.signal);
  if (!answer.ok) throw new Refused(await problem(answer));
  return accept ? answer.arrayBuffer() : answer.json();
}

async function send(path, body, accept, signal) {
  const sent = key;
  const headers = { ...(accept && { accept }), ...(sent && { authorization: `Bearer ${sent}` }) };
  const request = { headers, signal };
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  const answer = await fetch(urlOf(path), request).catch((problem) => {
    throw problem.name === "AbortError" ? problem : new Refused({ code: "unreachable", message: problem.message });
  });
  if (answer.status !== 401) return answer;
  if (sent === key) await askForKey(); // else it was asked for while this one waited
  return send(path, body, accept, signal);
}

async function problem(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return { message: `${answer.status} ${answer.statusText}` };
  }
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

// Arrays of a safetensors answer: { name: { data, shape } }.
export function readArrays(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  for (const [name, { shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [start, end] = offsets.map((offset) => 8 + length + offset);
    arrays[name] = { shape, data: new Float32Array(buffer.slice(start, end)) };
  }
  return arrays;
}
