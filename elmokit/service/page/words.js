// Language model: odds of the next or the missing word, and how surprising each word is.
import { ask } from "./api.js";
import { bars, choices, element, later, lead, sentenceField, section } from "./elements.js";
import { examplesOf } from "./examples.js";
import { curl, loading, python, shareButtons, writeAddress } from "./sharing.js";
import { number, percent, text } from "./texts.js";

const MOST_BITS = 18;

export function wordsPanel({ model, panel, values, guard }) {
  const examples = examplesOf(model);
  const state = {
    prefix: values.get("text") ?? examples.gap,
    candidates: values.get("candidates") ?? (values.has("text") ? "" : examples.candidates),
    sentence: values.get("sentence") ?? examples.scored,
    direction: "both",
  };
  const odds = element("div");
  const surprise = element("div");
  const predicting = guard(odds);
  const scoring = guard(surprise);
  let place = null; // where the word is wanted: what is before and after it, or null
  let scored = null;

  const save = () =>
    writeAddress("words", { text: state.prefix, candidates: state.candidates, sentence: state.sentence });
  const predictSoon = later(300, () => predicting.guarded(predict));
  const scoreSoon = later(300, () => scoring.guarded(score));

  function body() {
    const candidates = state.candidates.split(",").map((word) => word.trim()).filter(Boolean);
    return { text: state.prefix, ...(candidates.length ? { candidates: [...new Set(candidates)] } : { top: 10 }) };
  }

  async function predict() {
    save();
    const { words, ...around } = await ask("/predict", body());
    place = around;
    const ranked = words.some((word) => "known" in word);
    odds.replaceChildren(
      element("h3", {}, text(wanted())),
      element("br"),
      ranked ? rankedTable(words) : bars(words.map(row), { shown: percent, scale: words[0]?.probability || 1 }),
    );
  }

  function wanted() {
    if (place?.before && place.after) return "missingWord";
    return place?.after ? "previousWord" : "nextWord";
  }

  const row = ({ word, probability }) => ({ name: named(word), value: probability, word: true });

  function named(word) {
    if (word === "</S>") return `∎ ${text("endOfSentence")}`;
    return word === "<S>" ? `∎ ${text("beginOfSentence")}` : word;
  }

  function rankedTable(words) {
    const columns = ["word", "probability", "forward", "backward", "prior"];
    const value = (given) => (given === null || given === undefined ? "–" : number(given, 2));
    return element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": text(wanted()) },
      element(
        "table",
        { class: "odds" },
        element("thead", {}, element("tr", {}, columns.map((name) => element("th", { scope: "col" }, text(name))))),
        element(
          "tbody",
          {},
          words.map((word) =>
            element(
              "tr",
              {},
              element("td", { class: "word" }, word.word),
              word.known
                ? [percent(word.probability), value(word.forward), value(word.backward), value(word.log_prior)].map((cell) => element("td", {}, cell))
                : element("td", { colspan: "4", class: "soft" }, text("notInVocabulary")),
            ),
          ),
        ),
      ),
    );
  }

  const logOf = (value) => value ?? -Infinity; // which JSON cannot say

  async function score() {
    save();
    scored = (await ask("/score", { texts: [state.sentence] })).sentences;
    if (scored.length) drawSurprise();
    else surprise.replaceChildren();
  }

  function drawSurprise() {
    const items = scored.flatMap((sentence) =>
      sentence.words.map((word, n) => {
        const [forward, backward] = [logOf(sentence.forward[n]), logOf(sentence.backward[n])];
        const logs = { forward, backward, both: (forward + backward) / 2 };
        const bits = -logs[state.direction] / Math.LN2;
        return element(
          "li",
          { class: "heat", share: Math.max(0, Math.min(bits / MOST_BITS, 1)) },
          word,
          element("small", {}, text("bits", { bits: number(bits, 1) }), sentence.unknown[n] ? ` · ${text("unknownWord")}` : ""),
        );
      }),
    );
    const totalOf = { both: "total", forward: "total_forward", backward: "total_backward" }[state.direction];
    const total = scored.reduce((sum, sentence) => sum - logOf(sentence[totalOf]) / Math.LN2, 0);
    const targets = scored.reduce((sum, sentence) => sum + sentence.words.length + 1, 0);
    surprise.replaceChildren(
      element(
        "div",
        { class: "choosers" },
        choices({
          legend: text("direction"),
          look: "segments",
          options: ["both", "forward", "backward"].map((name) => [name, text(name)]),
          chosen: state.direction,
          onchoose: (direction) => { state.direction = direction; redrawWords(); },
        }),
      ),
      element("ul", { class: "surprise" }, items),
      element("br"),
      element("p", { class: "soft" }, inAll(total, targets)),
    );
  }

  function inAll(total, targets) {
    const both = state.direction === "both";
    const each = number(total / targets / (both ? 2 : 1), 1);
    return text(both ? "inAll" : "inOneDirection", { bits: number(total, 1), each });
  }

  function redrawWords() {
    const kept = surprise.firstChild;
    drawSurprise();
    surprise.firstChild.replaceWith(kept);
  }

  const field = (label, key, soon) =>
    sentenceField(text(label), state[key], (value) => { state[key] = value; soon(); });

  function asPython() {
    const load = `lm = LanguageModel.${loading(model)}`;
    const { candidates, top } = body();
    const calls = {
      missingWord: `lm.missing_words(place.before, place.after, ${top})`,
      previousWord: `lm.previous_words(place.after, ${top})`,
      nextWord: `lm.next_words(place.before, ${top})`,
    };
    const call = candidates ? `lm.rank(place.before, ${python(candidates)}, place.after)` : calls[wanted()];
    return [
      "from elmokit import LanguageModel",
      "",
      load,
      `place = lm.find_place(${python(state.prefix)})`,
      `for word in ${call}:`,
      "    print(word)",
      `print(lm.score(lm.split(${python(state.sentence)})))`,
      "",
    ].join("\n");
  }

  panel.append(lead("wordsTitle", "wordsLead"));
  if (!model.predicts_words) {
    panel.append(element("p", { class: "soft" }, text("error_no_words")));
    return;
  }
  panel.append(
    element("div", { class: "fields" }, field("prefix", "prefix", predictSoon), field("candidates", "candidates", predictSoon)),
    element("section", {}, predicting.error, odds),
    section(
      text("surpriseTitle"),
      text("surpriseWhy"),
      element("div", { class: "fields" }, field("surpriseSentence", "sentence", scoreSoon)),
      element("br"),
      scoring.error,
      surprise,
    ),
    shareButtons(asPython, () => curl("/predict", body())),
  );
  predicting.guarded(predict);
  scoring.guarded(score);
}
