// Try your task: what a trained task says of a text, as marks in it, words below it, or bars.
import { ask } from "./api.js";
import { bars, choices, element, later, lead, sentenceField } from "./elements.js";
import { examplesOf } from "./examples.js";
import { curl, pythonRequest, shareButtons, writeAddress } from "./sharing.js";
import { number, percent, text } from "./texts.js";

const HUES = 16;
const OF_PAIRS = ["pair", "reading"];

export function tasksPanel({ model, panel, values, guard }) {
  const examples = examplesOf(model).tasks;
  const state = { name: values.get("task"), texts: values.getAll("text") };
  const shown = element("div");
  const answers = element("section", { "aria-live": "polite" });
  const { error, guarded } = guard(answers);
  const soon = later(300, () => guarded(answer));
  let tasks = [];
  let task = null;

  const path = () => `/tasks/${encodeURIComponent(task.name)}`;

  function body() {
    if (OF_PAIRS.includes(task.kind)) return { pairs: [state.texts] };
    return task.kind === "text" ? { texts: state.texts, probabilities: true } : { texts: state.texts };
  }

  async function list() {
    ({ tasks } = await ask("/tasks"));
    task = tasks.find(({ name }) => name === state.name) ?? tasks[0];
    if (!task) { shown.replaceChildren(...noTask()); return; }
    draw();
    await answer();
  }

  function draw() {
    const count = OF_PAIRS.includes(task.kind) ? 2 : 1;
    state.texts = Array.from({ length: count }, (_, n) => state.texts[n] || examples[task.kind][n]);
    const labels = { reading: ["theQuestion", "aboutText"], pair: ["firstText", "secondText"] }[task.kind] ?? ["aText"];
    shown.replaceChildren(
      tasks.length > 1
        ? element(
            "div",
            { class: "choosers" },
            choices({
              legend: text("whichTask"),
              look: "segments",
              options: tasks.map(({ name }) => [name, name]),
              chosen: task.name,
              onchoose: choose,
            }),
          )
        : "",
      element("p", { class: "soft about" }, about()),
      element(
        "div",
        { class: "fields" },
        state.texts.map((value, n) =>
          sentenceField(text(labels[n]), value, (changed) => { state.texts[n] = changed; soon(); }),
        ),
      ),
      error,
      answers,
      shareButtons(() => pythonRequest(path(), body()), () => curl(path(), body())),
    );
  }

  function choose(name) {
    const before = task.kind;
    task = tasks.find((each) => each.name === name);
    if (task.kind !== before) state.texts = [];
    answers.replaceChildren();
    draw();
    shown.querySelector("input:checked").focus();
    guarded(answer);
  }

  // What it was trained as, its labels, and its scores.
  function about() {
    const scores = Object.entries(task.scores).flatMap(([part, score]) =>
      ["f1", "accuracy"].filter((name) => name in score).slice(0, 1)
        .map((name) => `${text(name)} ${percent(score[name])} (${part})`),
    );
    const named = task.labels.length ? text("labels", { labels: task.labels.slice(0, 12).join(", ") + (task.labels.length > 12 ? ", …" : "") }) : null;
    return [task.task, named, ...scores].filter(Boolean).join(" · ");
  }

  async function answer() {
    writeAddress("tasks", [["task", task.name], ...state.texts.map((each) => ["text", each])]);
    const asked = task;
    const body_ = body();
    const found = (await ask(path(), body_, { purpose: "tasks" })).answers[0];
    if (asked === task) answers.replaceChildren(element("h3", {}, text("taskAnswer")), element("br"), ...drawAnswer(found));
  }

  function drawAnswer(found) {
    const hues = new Map(task.labels.map((label, n) => [label, n % HUES]));
    const raw = state.texts.at(-1);
    if (found.entities) return drawEntities(found.entities, raw, hues);
    if (found.clusters) return drawClusters(found.clusters, raw);
    if (found.predicates) return drawRoles(found.predicates, raw, hues);
    if (found.tags) return [drawTags(found, hues)];
    if (found.answer !== undefined) return [marked(raw, [{ ...found, label: text("answerHere"), hue: 0 }])];
    return [drawClasses(found.probabilities ?? { [found.label]: 1 })];
  }

  const nothing = () => element("p", { class: "soft" }, text("nothingInText"));

  function drawEntities(entities, raw, hues) {
    const marks = entities.map(({ type, start, end }) => ({ start, end, label: type, hue: hues.get(type) ?? 0 }));
    return [marked(raw, marks), marks.length ? "" : nothing()];
  }

  function drawClusters(clusters, raw) {
    const marks = clusters.flatMap((cluster, n) =>
      cluster.map(({ start, end }) => ({ start, end, label: number(n + 1), hue: n % HUES })),
    );
    return [marked(raw, marks), marks.length ? "" : nothing()];
  }

  function drawRoles(predicates, raw, hues) {
    if (!predicates.length) return [marked(raw, []), nothing()];
    return predicates.map((predicate) =>
      marked(raw, [
        { start: predicate.start, end: predicate.end, label: "V", hue: "verb" },
        ...predicate.arguments.map(({ role, start, end }) => ({ start, end, label: role, hue: hues.get(role) ?? 0 })),
      ]),
    );
  }

  const drawTags = ({ words, tags }, hues) =>
    element(
      "ul",
      { class: "surprise" },
      words.map((word, n) => element("li", { class: `hue-${hues.get(tags[n]) ?? 0}` }, word, element("small", {}, tags[n]))),
    );

  function drawClasses(probabilities) {
    const rows = Object.entries(probabilities).sort(([, one], [, other]) => other - one);
    return bars(rows.map(([name, value], n) => ({ name, value, muted: n > 0 })), { shown: percent });
  }

  function noTask() {
    const commands = "elmo task train spam --train messages.csv -o my-spam\nelmo serve --task my-spam";
    return [element("p", { class: "soft" }, text("noTask")), element("pre", { tabindex: "0" }, commands), error];
  }

  panel.append(lead("tasksTitle", "tasksLead"), shown);
  shown.append(error);
  guarded(list);
}

// A text with marks around spans, which may be in one another; one that crosses another is left out.
// Places count characters as people do, not the halves that JavaScript has for an emoji.
function marked(raw, spans) {
  const characters = Array.from(raw);
  const sorted = [...spans].sort((one, other) => one.start - other.start || other.end - one.end);
  let next = 0;

  function pieces(start, end) {
    const found = [];
    let done = start;
    while (next < sorted.length && sorted[next].start < end) {
      const span = sorted[next++];
      if (span.start < done || span.end > end) continue;
      found.push(characters.slice(done, span.start).join(""));
      found.push(element("mark", { class: `span hue-${span.hue}` }, pieces(span.start, span.end), element("small", {}, span.label)));
      done = span.end;
    }
    return [...found, characters.slice(done, end).join("")];
  }

  return element("p", { class: "marked" }, pieces(0, characters.length));
}
