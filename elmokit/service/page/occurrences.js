// The sentences and chosen words that Compare and Layers share.
import { ask } from "./api.js";
import { placeOf } from "./examples.js";

export const occurrences = {
  texts: [], // until the model is known, or an address names some
  words: [], // of each text
  positions: [],
  word: "", // of the examples: the one to choose
};

export function beginWith({ sentences, word }) {
  if (occurrences.texts.length) return;
  occurrences.texts = [...sentences];
  occurrences.word = word;
}

export function restore(values) {
  const texts = values.getAll("sentence");
  if (texts.length < 2) return;
  occurrences.texts = texts;
  occurrences.words = [];
  occurrences.positions = texts.map((_, n) => Number(values.getAll("at")[n]) || 0);
}

export const address = () => [
  ...occurrences.texts.map((sentence) => ["sentence", sentence]),
  ...occurrences.positions.map((position) => ["at", position]),
];

// Split the texts; a chosen word that has moved is found again.
export async function split() {
  const { texts } = await ask("/split", { texts: occurrences.texts });
  const before = occurrences.words;
  const first = before[0]?.[occurrences.positions[0]];
  const words = texts.map((sentences) => sentences.flat());
  occurrences.positions = words.map((list, n) =>
    placeNow(list, occurrences.positions[n] ?? placeOf(occurrences.word, list), before[n], first),
  );
  occurrences.words = words;
}

function placeNow(words, kept, before, first) {
  const nearest = Math.max(0, Math.min(kept, words.length - 1));
  if (!before || words[kept] === before[kept]) return nearest;
  const find = (word) => words.findIndex((other) => other.toLowerCase() === word?.toLowerCase());
  return [find(before[kept]), find(first), nearest].find((place) => place >= 0);
}

// Which sentences have words; the others are left out.
export const written = () => occurrences.words.flatMap((words, n) => (words.length ? [n] : []));

export const usable = () => written().length >= 2;

export function forgetEmpty() {
  const kept = written();
  for (const key of ["texts", "words", "positions"]) occurrences[key] = kept.map((n) => occurrences[key][n]);
}

export function pairs() {
  const found = [];
  for (let a = 0; a < occurrences.words.length; a += 1)
    for (let b = a + 1; b < occurrences.words.length; b += 1) found.push([a, b]);
  return found;
}
