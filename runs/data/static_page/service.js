// Responses of the service that this browser computes itself: the model's graph, by ONNX Runtime.
import * as onnx from "../onnxruntime/ort.js";
import { average, cosine, mixed } from "./mixing.js";
import { TEXTS } from "./texts.js";

export const urlOf = null;
export const hasKey = () => false;

Object.assign(TEXTS.en, {
  privacy:
    "Everything on this page is computed in your browser. Nothing leaves it. Words are found by the rules of the library, sentences by those of the browser, so a text of several may be split otherwise.",
  error_unreachable: "Your browser could not compute this. Write less text, or load the page again.",
  error_no_graph: "The model cannot be used in this browser: {why}",
});
Object.assign(TEXTS.ko, {
  privacy:
    "모든 계산은 이 브라우저 안에서 이루어지며, 어떤 데이터도 밖으로 나가지 않습니다. 단어는 라이브러리의 규칙으로, 문장은 브라우저의 규칙으로 나누므로 여러 문장으로 된 텍스트는 다르게 나뉠 수 있습니다.",
  error_unreachable: "브라우저에서 계산하지 못했습니다. 텍스트를 줄이거나 페이지를 새로 고침하세요.",
  error_no_graph: "이 브라우저에서는 모델을 쓸 수 없습니다: {why}",
});

const MARKERS = { "<S>": 257, "</S>": 258 };
const [BEGIN, END, PADDING] = [259, 260, 261];
const KEPT = 64; // sentences whose layers are remembered
const TITLE = /(?:^|[\s("'“‘])(?:Mr|Mrs|Ms|Dr|Prof|Capt|Inc|Sept|St|vs|No|(?:[A-Z]\.)*[A-Z])\.\s*$/u;
const WITHOUT_WHITESPACE = /[\p{Unified_Ideograph}\uF900-\uFAFF\p{Script=Hiragana}]/u;

let facts = null; // what runs/static_page.py wrote
let session = null;
let failure = null; // why there are no facts and never will be
let turn = Promise.resolve(); // a session computes one sentence at a time
const remembered = new Map();

async function load() {
  onnx.env.wasm.numThreads = 1; // more would need headers that a plain server does not send
  onnx.env.wasm.wasmPaths = { wasm: new URL("../onnxruntime/ort-wasm-simd-threaded.wasm", import.meta.url).href };
  const response = await fetch(new URL("../model/facts.json", import.meta.url));
  const found = await response.json();
  session = await onnx.InferenceSession.create(new URL("../model/model.onnx", import.meta.url).href);
  facts = found;
}

load().catch((problem) => { failure = problem; });

// The words of each sentence of a text.
function split(written) {
  const { rules, stand_ins } = facts;
  if (!rules) return written.split("\n").map((line) => line.split(/\s+/u).filter(Boolean)).filter((words) => words.length);
  const patterns = (facts.patterns ??= rules.map(([source, flags, by]) => [new RegExp(source, flags), by]));
  const shownAs = (point) => (WITHOUT_WHITESPACE.test(point) ? "*" : stand_ins[point] ?? point);
  const sentences = [];
  for (const { segment } of new Intl.Segmenter("en", { granularity: "sentence" }).segment(written))
    if (TITLE.test(sentences.at(-1) ?? "")) sentences.push(sentences.pop() + segment);
    else sentences.push(segment);
  return sentences.map((sentence) => {
    const points = [...sentence.trim()];
    const shown = patterns.reduce((line, [pattern, by]) => line.replace(pattern, by), points.map(shownAs).join(""));
    const rest = points.filter((point) => !/\s/u.test(point));
    return shown.split(/\s+/u).filter(Boolean).map((word) => rest.splice(0, [...word].length).join(""));
  }).filter((words) => words.length);
}

function wordIds(word, ids) {
  const bytes = new TextEncoder().encode(word.replace(/\p{Surrogate}/gu, "")).slice(0, ids.length - 2);
  const inner = Object.hasOwn(MARKERS, word) ? [MARKERS[word]] : Array.from(bytes, (byte) => byte + 1);
  ids.fill(BigInt(PADDING)).set([BEGIN, ...inner, END].map(BigInt));
}

// The layers of a sentence: { data, shape: (layers, words, size) }.
export function layersOf(words) {
  const name = words.join("\0");
  if (!remembered.has(name)) {
    turn = turn.then(() => compute(words));
    remembered.set(name, turn);
    turn = turn.catch(() => remembered.delete(name));
    if (remembered.size > KEPT) remembered.delete(remembered.keys().next().value);
  }
  return remembered.get(name);
}

async function compute(words) {
  const size = facts.max_characters;
  const ids = new BigInt64Array(words.length * size);
  words.forEach((word, n) => wordIds(word, ids.subarray(n * size, (n + 1) * size)));
  const { layers } = await session.run({ ids: new onnx.Tensor("int64", ids, [1, words.length, size]) });
  const [count, , length, width] = layers.dims;
  return { data: layers.data, shape: [count, length, width] };
}

async function compare({ sentences, positions, maps }) {
  const words = sentences.map((sentence) => split(sentence).flat());
  const found = await Promise.all(words.map(layersOf));
  const count = facts.model.layers;
  const only = (layer) => found.map(({ data, shape: [, length, size] }) =>
    Array.from({ length }, (_, word) => data.subarray((layer * length + word) * size, (layer * length + word + 1) * size)));
  const end = (layer) => (layer === count - 1 ? " (top)" : layer === 0 ? " (static)" : "");
  const rows = Array.from({ length: count }, (_, layer) => [`layer ${layer}${end(layer)}`, only(layer)]);
  rows.push(["average", found.map((layers) => mixed(layers, average(count)))]);
  const pairs = words.flatMap((_, a) => words.slice(a + 1).map((_, n) => [a, a + 1 + n]));
  const nearness = ([a, b], vectors) => cosine(vectors[a][positions[a]], vectors[b][positions[b]]);
  const map = ([a, b], vectors) => vectors[a].map((one) => vectors[b].map((other) => cosine(one, other)));
  return {
    sentences: words,
    positions,
    pairs,
    cosines: Object.fromEntries(rows.map(([name, vectors]) => [name, pairs.map((pair) => nearness(pair, vectors))])),
    maps: maps ? pairs.map((pair) => Object.fromEntries(rows.map(([name, vectors]) => [name, map(pair, vectors)]))) : [],
  };
}

// Layers of each sentence as safetensors.
async function embed({ sentences }) {
  const header = {};
  let end = 0;
  const found = await Promise.all(sentences.map(layersOf));
  found.forEach(({ data, shape }, n) => {
    header[n] = { dtype: "F32", shape, data_offsets: [end, (end += data.byteLength)] };
  });
  const names = new TextEncoder().encode(JSON.stringify(header));
  return new Response(new Blob([new BigUint64Array([BigInt(names.length)]), names, ...found.map(({ data }) => data)]));
}

const responses = {
  "/model": () => facts.model,
  "/split": ({ texts }) => ({ texts: texts.map(split) }),
  "/compare": compare,
  "/embed": embed,
};

export async function send(path, body, accept, signal) {
  if (failure) return Response.json({ error: { code: "no_graph", values: { why: failure.message } } }, { status: 500 });
  if (!facts) return Response.json({ error: { code: "loading" } }, { status: 503 });
  const response = await responses[path](body);
  signal.throwIfAborted();
  return response instanceof Response ? response : Response.json(response);
}
