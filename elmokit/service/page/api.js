// Questions to the service. A later one for the same purpose ends the one before.
import { send } from "./service.js";
import { TEXTS, currentLanguage, number, text } from "./texts.js";

const running = new Map();

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

export async function ask(path, body, { purpose = path, accept } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const answer = await send(path, body, accept, control.signal).catch((problem) => {
    throw problem.name === "AbortError" ? problem : new Refused({ code: "unreachable", message: problem.message });
  });
  if (!answer.ok) throw new Refused(await problem(answer));
  return accept ? answer.arrayBuffer() : answer.json();
}

async function problem(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return { message: `${answer.status} ${answer.statusText}` };
  }
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
