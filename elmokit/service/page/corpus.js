// Neighbours and Senses: what an index of occurrences knows, or how to make one.
import { ask } from "./api.js";
import { choices, drawn, element, later, lead, section, wordsWith } from "./elements.js";
import { curl, python, shareButtons, writeAddress } from "./sharing.js";
import { number, text } from "./texts.js";

const SIZE = 420;

const noIndex = () => [
  element("p", {}, text("noIndex")),
  element("pre", { tabindex: "0" }, "elmo neighbours build corpus.txt --split -o corpus.index\nelmo serve --index corpus.index"),
];

export function neighboursPanel({ model, panel, values, guarded }) {
  panel.append(lead("neighboursTitle", "neighboursLead"));
  if (!model.has_index) { panel.append(...noIndex()); return; }
  const state = { sentence: values.get("sentence") ?? "She opened a bank account.", position: Number(values.get("at") ?? 3), words: [] };
  const chips = element("div");
  const found = element("div");
  const input = element("input", { type: "text", value: state.sentence, oninput: () => { state.sentence = input.value; soon(); } });
  const soon = later(300, () => guarded(read));
  const body = () => ({ sentence: state.sentence, position: state.position, top: 20 });

  async function read() {
    state.words = (await ask("/split", { texts: [state.sentence] })).texts[0].flat();
    state.position = Math.max(0, Math.min(state.position, state.words.length - 1));
    chips.replaceChildren(
      choices({
        legend: text("chooseWord", { n: 1 }),
        look: "chips",
        options: state.words.map((word, position) => [position, word]),
        chosen: state.position,
        onchoose: (position) => { state.position = position; guarded(compute); },
      }),
    );
    if (state.words.length) await compute();
  }

  async function compute() {
    writeAddress("neighbours", { sentence: state.sentence, at: state.position });
    const { neighbours } = await ask("/neighbours", body());
    const rows = neighbours.map(({ words, position, cosine }) =>
      element("li", {}, element("span", {}, wordsWith(words, position)), element("span", { class: "number" }, number(cosine, 3))),
    );
    found.replaceChildren(rows.length ? element("ol", { class: "found" }, rows) : text("nothingFound"));
  }

  panel.append(
    element("div", { class: "fields" }, element("label", {}, element("span", {}, text("sentence", { n: 1 })), input)),
    chips,
    element("section", {}, found),
    shareButtons(() => `import httpx\n\nprint(httpx.post(${python(location.origin + "/neighbours")}, json=${python(body())}).json())\n`, () => curl("/neighbours", body())),
  );
  guarded(read);
}

export function sensesPanel({ model, panel, values, guarded }) {
  panel.append(lead("sensesTitle", "sensesLead"));
  if (!model.has_index) { panel.append(...noIndex()); return; }
  const state = { word: values.get("word") ?? "bank" };
  const found = element("div");
  const soon = later(300, () => guarded(compute));
  const input = element("input", { type: "text", value: state.word, oninput: () => { state.word = input.value.trim(); if (state.word) soon(); } });
  const body = () => ({ word: state.word });

  async function compute() {
    writeAddress("senses", body());
    const { senses, points } = await ask("/senses", body());
    found.replaceChildren(map(points), ...senses.map(senseSection));
  }

  function senseSection({ number: n, occurrences, typical, examples }) {
    const rows = examples.map(({ words, position }) =>
      element("li", {}, element("span", {}, wordsWith(words, position))),
    );
    return section(
      [drawn("svg", { class: "mark", viewBox: "0 0 12 12", "aria-hidden": "true" }, mark(n, 6, 6)), text("sense", { n })],
      `${number(occurrences)} · ${typical.join(", ")}`,
      element("ol", { class: "found" }, rows),
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
    element("section", {}, found),
    shareButtons(() => `import httpx\n\nprint(httpx.post(${python(location.origin + "/senses")}, json=${python(body())}).json())\n`, () => curl("/senses", body())),
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
  const shape = drawn("path", { d: paths[(sense - 1) % 4], class: sense % 2 ? "filter" : "box key" });
  if (title) shape.append(drawn("title", {}, title));
  return shape;
}
