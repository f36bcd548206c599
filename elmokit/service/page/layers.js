// Layers: sliders for a mix, what it does to the chosen words, and the model drawn.
import { ask, readArrays } from "./api.js";
import { drawModel } from "./drawing.js";
import { bars, choices, element, found, lead, section } from "./elements.js";
import { examplesOf } from "./examples.js";
import { average, cosine, halves, length, mixAddress, mixed, restoreMix, wordAlone } from "./mixing.js";
import { address, forgetEmpty, occurrences, pairs, split, usable } from "./occurrences.js";
import { curl, loading, python, shareButtons, writeAddress } from "./sharing.js";
import { mixSliders } from "./sliders.js";
import { number, text } from "./texts.js";

const NEAREST = 10;
const FROM_CORPUS = 20;

export function layersPanel({ model, panel, values, guard }) {
  const count = model.layers;
  const mix = restoreMix(values, count);
  const places = element("div");
  const effect = element("div");
  const { error, guarded } = guard(effect);
  const search = guard();
  const drawing = drawModel(model.config, examplesOf(model).word);
  let sentences = null; // the layers of each
  let corpus = []; // occurrences of the index: { words, position, layers }

  function update() {
    drawing.show(halves(mix, count));
    writeAddress("layers", [...address(), ...mixAddress(mix)]);
    if (sentences) drawEffect();
  }

  function drawPlaces() {
    places.replaceChildren(
      ...occurrences.words.map((words, n) =>
        element(
          "div",
          { class: "sentence" },
          element("p", { class: "soft" }, text("sentence", { n: n + 1 })),
          choices({
            legend: text("chooseWord", { n: n + 1 }),
            look: "chips",
            options: words.map((word, position) => [position, word]),
            chosen: occurrences.positions[n],
            onchoose: (position) => choose(n, position),
          }),
        ),
      ),
    );
  }

  function choose(n, position) {
    occurrences.positions[n] = position;
    if (n === 0) corpus = [];
    update();
    if (n === 0) search.guarded(findInCorpus);
  }

  function drawEffect() {
    const vectors = vectorsIn(mix);
    const chosen = chosenOf(vectors);
    const word = occurrences.words[0][occurrences.positions[0]];
    effect.replaceChildren(
      bars(similarities(chosen, chosenOf(vectorsIn(average(count))))),
      element("br"),
      element("p", { class: "soft" }, text("length", { length: number(length(chosen[0]), 2) })),
      section(text("nearest", { word }), text("nearestWhy"), bars(nearest(vectors, chosen[0]))),
      corpus.length
        ? section(text("inCorpus", { word }), text("inCorpusWhy"), found(inCorpus(chosen[0])))
        : "",
    );
  }

  const vectorsIn = (one) => occurrences.words.map((_, n) => mixed(sentences[n], one));
  const chosenOf = (vectors) => vectors.map((list, n) => list[occurrences.positions[n]]);

  // Of each pair of chosen words, now and in the average of the layers.
  function similarities(now, even) {
    return pairs().flatMap(([a, b]) => [
      { name: text("sentences", { a: a + 1, b: b + 1 }), value: cosine(now[a], now[b]) },
      { name: text("evenly"), value: cosine(even[a], even[b]), muted: true },
    ]);
  }

  function nearest(vectors, target) {
    return vectors
      .flatMap((list, n) => list.map((vector, position) => ({ n, position, vector })))
      .filter(({ n, position }) => n > 0 || position !== occurrences.positions[0])
      .map(({ n, position, vector }) => ({
        name: [`${occurrences.words[n][position]} `, element("small", { class: "soft" }, text("inSentence", { n: n + 1 }))],
        value: cosine(target, vector),
      }))
      .sort((one, other) => other.value - one.value)
      .slice(0, NEAREST);
  }

  const inCorpus = (target) =>
    corpus
      .map(({ layers, ...place }) => ({ ...place, cosine: cosine(target, mixed(layers, mix)[0]) }))
      .sort((one, other) => other.cosine - one.cosine)
      .slice(0, NEAREST);

  async function compute() {
    await split();
    if (!usable()) throw new Error(text("tooFew"));
    forgetEmpty();
    drawPlaces();
    sentences = await layersOf(occurrences.words, "sentences");
    update();
    search.guarded(findInCorpus);
  }

  async function findInCorpus() {
    if (!model.has_index) return;
    const body = { sentence: occurrences.texts[0], position: occurrences.positions[0], top: FROM_CORPUS };
    const near = withinLimits((await ask("/neighbours", body)).neighbours);
    const layers = near.length ? await layersOf(near.map(({ words }) => words), "corpus") : {};
    corpus = near.map(({ words, position }, n) => ({ words, position, layers: wordAlone(layers[n], position) }));
    update();
  }

  async function layersOf(words, purpose) {
    const body = { sentences: words, layers: "all" };
    return readArrays(await ask("/embed", body, { purpose, accept: "application/x-safetensors" }));
  }

  // As many of the occurrences found as one answer can hold the layers of.
  function withinLimits(near) {
    let left = model.limits.answer_values / (count * model.vector_size);
    return near.filter(({ words }) => (left -= words.length) >= 0);
  }

  const sent = () => ({
    weights: mix.directions ? mix.apart : mix.shared,
    gamma: mix.gamma,
    directions: mix.directions,
  });

  function asPython() {
    const kind = mix.directions ? "DirectionalMix" : "ScalarMix";
    return [
      "from elmokit import Embedder",
      `from elmokit.model.scalar_mix import ${kind}`,
      "",
      `elmo = Embedder.${loading(model)}`,
      `mix = ${kind}(${count}, weights=${python(sent().weights)}, trainable=False)`,
      `mix.gamma.fill_(${mix.gamma})`,
      `vectors = elmo.embed(${python(occurrences.words)}, mix)`,
      "",
    ].join("\n");
  }

  panel.append(
    lead("layersTitle", "layersLead"),
    element(
      "div",
      { class: "columns mixing" },
      mixSliders(mix, count, update),
      element(
        "div",
        {},
        element("h3", {}, text("whatBecomes")),
        element("p", { class: "soft" }, text("whatBecomesWhy")),
        error,
        places,
        element("br"),
        effect,
        search.error,
      ),
      section(text("drawing"), text("drawingWhy"), drawing.svg),
    ),
    shareButtons(asPython, () => curl("/embed", { sentences: occurrences.words, mix: sent() })),
  );
  guarded(compute);
}
