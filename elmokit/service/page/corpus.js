// Neighbours and Senses: what an index of occurrences knows, or how to make one.
import { ask } from "./api.js";
import { choices, drawn, element, found, later, lead, section, sentenceField } from "./elements.js";
import { examplesOf, placeOf } from "./examples.js";
import { curl, pythonRequest, shareButtons, writeAddress } from "./sharing.js";
import { number, text } from "./texts.js";

const SIZE = 420;

function noIndex(model) {
  const chosen = model.id === "english-small" ? "" : ` --model ${model.id}`;
  const commands = `elmo neighbours build corpus.txt${chosen} --split -o corpus.index\nelmo serve${chosen} --index corpus.index`;
  return [element("p", { class: "soft" }, text("noIndex")), element("pre", { tabindex: "0" }, commands)];
}

export function neighboursPanel({ model, panel, values, guard }) {
  panel.append(lead("neighboursTitle", "neighboursLead"));
  if (!model.has_index) { panel.append(...noIndex(model)); return; }
  const { asked, word } = examplesOf(model);
  const state = {
    sentence: values.get("sentence") ?? asked,
    position: values.has("at") ? Number(values.get("at")) || 0 : null,
    same: values.get("same") === "1",
  };
  const chips = element("div");
  const nearest = element("div");
  const { error, guarded } = guard(nearest);
  const soon = later(300, () => guarded(read));
  const body = () => ({ sentence: state.sentence, position: state.position, top: 20, same_word: state.same });
  const which = choices({
    legend: text("whichWords"),
    look: "segments",
    options: [["any", text("anyWord")], ["same", text("sameWord")]],
    chosen: state.same ? "same" : "any",
    onchoose: (chosen) => { state.same = chosen === "same"; guarded(compute); },
  });

  async function read() {
    const words = (await ask("/split", { texts: [state.sentence] })).texts[0].flat();
    state.position = Math.max(0, Math.min(state.position ?? placeOf(word, words), words.length - 1));
    chips.replaceChildren(
      choices({
        legend: text("chooseWord", { n: 1 }),
        look: "chips",
        options: words.map((word, position) => [position, word]),
        chosen: state.position,
        onchoose: (position) => { state.position = position; guarded(compute); },
      }),
    );
    if (words.length) await compute();
    else nearest.replaceChildren();
  }

  async function compute() {
    writeAddress("neighbours", { sentence: state.sentence, at: state.position, same: Number(state.same) });
    const { neighbours } = await ask("/neighbours", body());
    nearest.replaceChildren(neighbours.length ? found(neighbours) : text("nothingFound"));
  }

  panel.append(
    element(
      "div",
      { class: "fields" },
      sentenceField(text("oneSentence"), state.sentence, (value) => { state.sentence = value; soon(); }),
    ),
    chips,
    element("section", {}, element("div", { class: "choosers" }, which), error, nearest),
    shareButtons(() => pythonRequest("/neighbours", body()), () => curl("/neighbours", body())),
  );
  guarded(read);
}

export function sensesPanel({ model, panel, values, guard }) {
  panel.append(lead("sensesTitle", "sensesLead"));
  if (!model.has_index) { panel.append(...noIndex(model)); return; }
  const state = { word: values.get("word") ?? examplesOf(model).word };
  const senseMap = element("div");
  const { error, guarded } = guard(senseMap);
  const soon = later(300, () => guarded(compute));
  const input = element("input", { type: "text", value: state.word, oninput: () => { state.word = input.value.trim(); if (state.word) soon(); } });
  const body = () => ({ word: state.word });

  async function compute() {
    writeAddress("senses", body());
    senseMap.replaceChildren(element("p", { class: "soft", role: "status" }, text("finding")));
    const { senses, points, silhouette, occurrences = points.length } = await ask("/senses", body());
    const facts = [text("sensesFound", { senses: senses.length, occurrences: number(occurrences) })];
    if (Number.isFinite(silhouette)) facts.push(text("silhouette", { silhouette: number(silhouette, 2) }));
    senseMap.replaceChildren(
      element("p", { class: "soft" }, [...facts, text("sensesMapWhy")].join(" ")),
      map(points),
      ...senses.map(senseSection),
    );
  }

  function senseSection({ number: n, occurrences, typical, examples }) {
    return section(
      [drawn("svg", { class: "mark", viewBox: "0 0 12 12", "aria-hidden": "true" }, mark(n, 6, 6)), text("sense", { n })],
      [number(occurrences), typical.join(", ")].filter(Boolean).join(" · "),
      found(examples),
    );
  }

  function map(points) {
    const scale = (key) => {
      const all = points.map((point) => point[key]);
      const [least, most] = [Math.min(...all), Math.max(...all)];
      return (point) => 20 + ((point[key] - least) / (most - least || 1)) * (SIZE - 40);
    };
    const [x, y] = [scale("x"), scale("y")];
    return drawn(
      "svg",
      { class: "drawing", role: "img", viewBox: `0 0 ${SIZE} ${SIZE}`, "aria-label": text("sensesMap", { word: state.word }) },
      points.map((point) => mark(point.sense, x(point), y(point), point.words.join(" "))),
    );
  }

  panel.append(
    element("div", { class: "fields" }, element("label", {}, element("span", {}, text("wordOf")), input)),
    element("section", {}, error, senseMap),
    shareButtons(() => pythonRequest("/senses", body()), () => curl("/senses", body())),
  );
  guarded(compute);
}

// Senses differ by shape, so that colour need not tell them apart.
function mark(sense, x, y, title) {
  const paths = [
    `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`,
    `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
    `M${x} ${y - 5}l5 5l-5 5l-5 -5z`,
    `M${x} ${y - 5}l5 9h-10z`,
  ];
  const n = sense - 1;
  const filled = (n + Math.floor(n / paths.length)) % 2 === 0;
  const shape = drawn("path", { d: paths[n % paths.length], class: filled ? "filter" : "box key" });
  if (title) shape.append(drawn("title", {}, title));
  return shape;
}
