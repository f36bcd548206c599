// Layers: sliders for a mix, what it does to the chosen words, and the model drawn.
import { ask, readArrays } from "./api.js";
import { drawModel } from "./drawing.js";
import { bars, choices, element, lead, section, slider, wordsWith } from "./elements.js";
import { cosine, halves, length, mixed, softmax } from "./mixing.js";
import { address, occurrences, pairs, split, usable } from "./occurrences.js";
import { curl, loading, python, shareButtons, writeAddress } from "./sharing.js";
import { number, percent, text } from "./texts.js";

const NEAREST = 10;

export function layersPanel({ model, panel, values, guarded }) {
  const count = model.layers;
  const mix = restoreMix(values, count);
  const controls = element("div");
  const effect = element("div");
  const drawing = drawModel(model.config);
  let arrays = null;

  function drawControls() {
    const kind = choices({
      legend: text("mixKind"),
      look: "segments",
      options: [["shared", text("mixShared")], ["apart", text("mixDirections")]],
      chosen: mix.directions ? "apart" : "shared",
      onchoose: (chosen) => { mix.directions = chosen === "apart"; drawControls(); update(); },
    });
    const sliders = mix.directions ? apartSliders() : sharedSliders();
    controls.replaceChildren(kind, ...sliders.map(({ node }) => node), presets());
  }

  function sharedSliders() {
    const all = mix.shared.map((weight, n) =>
      slider({
        label: text("weightOf", { n }),
        value: weight,
        least: -5,
        most: 5,
        step: 0.1,
        shown: () => text("share", { share: percent(softmax(mix.shared)[n]) }),
        onslide: (value) => {
          mix.shared[n] = value;
          all.forEach((one, other) => one.show(mix.shared[other]));
          update();
        },
      }),
    );
    return [...all, gammaSlider()];
  }

  function apartSliders() {
    const names = [
      text("weightToken"),
      ...range(1, count).map((n) => text("weightForward", { n })),
      ...range(1, count).map((n) => text("weightBackward", { n })),
    ];
    const all = mix.apart.map((weight, n) => {
      const one = slider({
        label: names[n],
        value: weight,
        least: -1,
        most: 1,
        step: 0.01,
        shown: (value) => number(value, 2),
        onslide: (value) => { mix.apart[n] = value; one.show(value); update(); },
      });
      return one;
    });
    return [...all, gammaSlider()];
  }

  function gammaSlider() {
    const one = slider({
      label: text("gamma"),
      value: mix.gamma,
      least: 0.1,
      most: 3,
      step: 0.1,
      shown: (value) => number(value, 1),
      onslide: (value) => { mix.gamma = value; one.show(value); update(); },
    });
    return one;
  }

  function presets() {
    const button = (label, set) =>
      element("button", { type: "button", onclick: () => { set(); drawControls(); update(); } }, label);
    const only = (n) => () => {
      mix.shared = mix.shared.map((_, other) => (other === n ? 5 : -5));
      mix.apart = mix.apart.map((_, other) => (n === 0 ? other === 0 : (other - 1) % (count - 1) === n - 1 && other > 0) ? 1 : 0);
    };
    const even = () => {
      mix.shared = mix.shared.map(() => 0);
      mix.apart = mix.apart.map(() => Math.round(100 / count) / 100);
    };
    return element(
      "div",
      { class: "actions" },
      button(text("evenly"), even),
      range(0, count).map((n) => button(text("onlyLayer", { n }), only(n))),
    );
  }

  function update() {
    drawing.show(halves(mix, count));
    writeAddress("layers", [...address(), ...mixAddress(mix)]);
    if (arrays) drawEffect();
  }

  function drawEffect() {
    const vectors = occurrences.words.map((_, n) => mixed(arrays[n], mix));
    const chosen = vectors.map((list, n) => list[occurrences.positions[n]]);
    const rows = pairs().map(([a, b]) => ({
      name: text("sentences", { a: a + 1, b: b + 1 }),
      value: cosine(chosen[a], chosen[b]),
    }));
    const word = occurrences.words[0][occurrences.positions[0]];
    effect.replaceChildren(
      element("h3", {}, text("whatBecomes")),
      element("p", { class: "soft" }, text("whatBecomesWhy")),
      element("br"),
      ...occurrences.words.map((words, n) =>
        element("p", { class: "context" }, `${n + 1}  `, wordsWith(words, occurrences.positions[n])),
      ),
      element("br"),
      bars(rows),
      element("br"),
      element("p", { class: "soft" }, text("length", { length: number(length(chosen[0]), 2) })),
      section(text("nearest", { word }), text("nearestWhy"), bars(nearest(vectors, chosen[0]))),
    );
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

  async function compute() {
    if (!occurrences.words.length) await split();
    if (!usable()) throw new Error(text("tooFew"));
    const body = { sentences: occurrences.words, layers: "all" };
    arrays = readArrays(await ask("/embed", body, { accept: "application/x-safetensors" }));
    update();
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
      controls,
      effect,
      section(text("drawing"), text("drawingWhy"), drawing.svg),
    ),
    shareButtons(asPython, () => curl("/embed", { sentences: occurrences.words, mix: sent() })),
  );
  drawControls();
  drawing.show(halves(mix, count));
  guarded(compute);
}

const range = (from, to) => Array.from({ length: to - from }, (_, n) => from + n);

function restoreMix(values, count) {
  const numbers = (name, length, plain) => {
    const found = values.getAll(name).map(Number).filter(Number.isFinite);
    return found.length === length ? found : Array(length).fill(plain);
  };
  return {
    directions: values.get("mix") === "apart",
    shared: numbers("w", count, 0),
    apart: numbers("d", 2 * count - 1, Math.round(100 / count) / 100),
    gamma: Number(values.get("gamma")) || 1,
  };
}

const mixAddress = (mix) => [
  ["mix", mix.directions ? "apart" : "shared"],
  ["gamma", mix.gamma],
  ...(mix.directions ? mix.apart.map((weight) => ["d", weight]) : mix.shared.map((weight) => ["w", weight])),
];
