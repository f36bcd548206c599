// Compare: a word in several sentences, layer by layer, and every word with every other.
import { ask } from "./api.js";
import { bars, choices, element, later, lead, section, wordsWith } from "./elements.js";
import { address, occurrences, split, usable, written } from "./occurrences.js";
import { curl, loading, python, shareButtons, writeAddress } from "./sharing.js";
import { layerName, number, text } from "./texts.js";

const MOST = 8;

export function comparePanel({ model, panel, guard }) {
  const rows = element("div");
  const near = element("div");
  const map = element("div");
  const { error, guarded } = guard(near, map);
  const shown = { pair: 0, layer: null };
  let compared = null;
  let numbers = []; // of the sentences that are compared

  const changed = later(300, () => guarded(async () => { await split(); drawRows(); await compute(); }));

  function drawRows() {
    const focused = document.activeElement?.id;
    rows.replaceChildren(...occurrences.texts.map(sentenceRow), ...addButton());
    if (focused) document.getElementById(focused)?.focus();
  }

  function sentenceRow(sentence, n) {
    const input = element("textarea", {
      rows: "1",
      id: `sentence-${n}`,
      value: sentence,
      oninput: () => { occurrences.texts[n] = input.value; changed(); },
    });
    const remove = element(
      "button",
      { type: "button", class: "plain", "aria-label": text("removeSentence", { n: n + 1 }), onclick: () => removeRow(n) },
      "×",
    );
    return element(
      "div",
      { class: "sentence" },
      element(
        "div",
        { class: "row" },
        element("label", {}, element("span", {}, text("sentence", { n: n + 1 })), input),
        occurrences.texts.length > 2 ? remove : null,
      ),
      choices({
        legend: text("chooseWord", { n: n + 1 }),
        look: "chips",
        options: (occurrences.words[n] ?? []).map((word, position) => [position, word]),
        chosen: occurrences.positions[n],
        onchoose: (position) => { occurrences.positions[n] = position; guarded(compute); },
      }),
    );
  }

  const addButton = () =>
    occurrences.texts.length >= MOST
      ? []
      : [
          element(
            "div",
            { class: "actions" },
            element("button", { type: "button", onclick: addRow }, text("addSentence")),
          ),
        ];

  function addRow() {
    const word = occurrences.words[0]?.[occurrences.positions[0]] ?? "";
    occurrences.texts.push(word);
    occurrences.words.push([word]);
    occurrences.positions.push(0);
    drawRows();
    document.getElementById(`sentence-${occurrences.texts.length - 1}`).focus();
    changed();
  }

  function removeRow(n) {
    for (const list of [occurrences.texts, occurrences.words, occurrences.positions]) list.splice(n, 1);
    shown.pair = 0;
    drawRows();
    document.getElementById("sentence-0").focus();
    changed();
  }

  const body = (maps) => ({
    sentences: written().map((n) => occurrences.texts[n]),
    positions: written().map((n) => occurrences.positions[n]),
    maps,
  });

  async function compute() {
    writeAddress("compare", address());
    if (!usable()) throw new Error(text("tooFew"));
    const asked = written().map((n) => n + 1);
    compared = await ask("/compare", body(true));
    numbers = asked;
    shown.layer ??= Object.keys(compared.maps[0]).at(-2);
    drawNear();
    drawMap();
  }

  function drawNear() {
    const several = compared.pairs.map(([a, b], n) =>
      element(
        "div",
        { class: "pair" },
        element("p", {}, wordsWith(compared.sentences[a], compared.positions[a])),
        element("p", {}, wordsWith(compared.sentences[b], compared.positions[b])),
        bars(
          Object.entries(compared.cosines)
            .filter(([, cosines]) => cosines.some((cosine) => cosine !== null)) // vectors of another language
            .map(([layer, cosines]) => ({ name: layerName(layer), value: cosines[n], muted: layer.includes("static") })),
        ),
      ),
    );
    near.replaceChildren(...several);
  }

  function drawMap() {
    shown.pair = Math.min(shown.pair, compared.pairs.length - 1);
    const [a, b] = compared.pairs[shown.pair];
    const cells = compared.maps[shown.pair][shown.layer];
    const choosers = element(
      "div",
      { class: "choosers" },
      choices({
        legend: text("whichLayer"),
        look: "segments",
        options: Object.keys(compared.maps[shown.pair]).map((layer) => [layer, layerName(layer)]),
        chosen: shown.layer,
        onchoose: (layer) => { shown.layer = layer; drawCells(); },
      }),
      compared.pairs.length > 1
        ? choices({
            legend: text("whichPair"),
            look: "segments",
            options: compared.pairs.map(([one, other], n) => [n, `${numbers[one]} – ${numbers[other]}`]),
            chosen: shown.pair,
            onchoose: (pair) => { shown.pair = pair; drawCells(); },
          })
        : null,
    );
    map.replaceChildren(choosers, table(a, b, cells));
  }

  function drawCells() {
    const [a, b] = compared.pairs[shown.pair];
    map.lastChild.replaceWith(table(a, b, compared.maps[shown.pair][shown.layer]));
  }

  function table(a, b, cells) {
    const head = (word, chosen, scope) =>
      element("th", { scope, class: chosen ? "chosen" : undefined }, word);
    const label = text("mapOf", { a: numbers[a], b: numbers[b] });
    return element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      element(
        "table",
        { class: "map" },
        element("caption", { class: "hidden" }, label),
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("td"),
            compared.sentences[b].map((word, n) => head(word, n === compared.positions[b], "col")),
          ),
        ),
        element(
          "tbody",
          {},
          compared.sentences[a].map((word, n) =>
            element(
              "tr",
              {},
              head(word, n === compared.positions[a], "row"),
              cells[n].map((value) =>
                element("td", { class: "heat", share: Math.max(0, Math.min(value, 1)) }, number(value, 2)),
              ),
            ),
          ),
        ),
      ),
    );
  }

  function asPython() {
    const [first, second] = written().map((n) => occurrences.positions[n]);
    return [
      "from elmokit import Embedder",
      "from elmokit.analysis.comparison import cosine",
      "",
      `elmo = Embedder.${loading(model)}`,
      `sentences = ${python(written().map((n) => occurrences.words[n]))}`,
      "first, second, *others = elmo.embed_layers(sentences)",
      "for layer in range(len(first)):",
      `    print(layer, cosine(first[layer, ${first}], second[layer, ${second}]))`,
      "",
    ].join("\n");
  }

  panel.append(
    lead("compareTitle", "compareLead"),
    element(
      "div",
      { class: "columns" },
      rows,
      element("div", {}, element("h3", {}, text("howNear")), element("p", { class: "soft" }, text("howNearWhy")), element("br"), error, near),
    ),
    section(text("everyWord"), text("everyWordWhy"), map),
    shareButtons(asPython, () => curl("/compare", body(false))),
  );
  drawRows();
  guarded(async () => { await split(); drawRows(); await compute(); });
}
