// The explorer: which panel, in which language, about which model.
import { Refused, ask } from "./api.js";
import { element } from "./elements.js";
import { examplesOf } from "./examples.js";
import { beginWith, restore } from "./occurrences.js";
import { PANELS } from "./panels.js";
import { openAddress, readAddress } from "./sharing.js";
import { LANGUAGES, currentLanguage, number, text, useLanguage } from "./texts.js";

const MISSING = ["missing_library", "unknown_word", "word_not_in_index", "empty_text"];
const kept = {}; // the address of each panel that was left
let model = null;
let refusal = null; // why there is no model yet
let current = null;
let turn = 0;

const panelOf = (name) => (Object.hasOwn(PANELS, name) ? name : "compare");

function startLanguage() {
  const asked = new URLSearchParams(location.search).get("lang");
  const language = asked ?? localStorage.getItem("elmo-language") ?? navigator.language.slice(0, 2);
  useLanguage(language);
  if (asked) localStorage.setItem("elmo-language", currentLanguage());
}

function changeLanguage(language) {
  useLanguage(language);
  localStorage.setItem("elmo-language", language);
  const address = new URL(location.href);
  address.searchParams.set("lang", language);
  history.replaceState(null, "", address);
  const { values } = readAddress();
  drawFrame();
  show(current, values);
  document.querySelector("#language [aria-pressed=true]").focus();
}

// The drawing is of two layers that read characters, through a highway.
function isDrawn(model) {
  const encoder = model?.config.encoder;
  return model?.layers === 3 && Boolean(encoder.filters && encoder.highways && !encoder.words);
}

function drawFrame() {
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = text(node.dataset.text);
  const group = document.getElementById("language");
  group.setAttribute("aria-label", text("language"));
  group.replaceChildren(
    ...Object.entries(LANGUAGES).map(([name, label]) =>
      element("button", { type: "button", lang: name, "aria-pressed": String(name === currentLanguage()), onclick: () => changeLanguage(name) }, label),
    ),
  );
  drawModel();
  const architecture = document.getElementById("architecture");
  architecture.src = `page/architecture-${currentLanguage()}.svg`;
  architecture.alt = text("architecture");
  architecture.parentNode.hidden = !isDrawn(model);
  drawTabs();
}

function drawModel() {
  document.getElementById("model").textContent = model
    ? text("model", { name: model.version || model.id, parameters: number(model.parameters), layers: model.layers, size: model.vector_size })
    : refusal?.code === "loading" ? text("loading") : refusal?.message ?? "";
}

function drawTabs() {
  const tabs = document.getElementById("tabs");
  tabs.setAttribute("aria-label", text("tabs"));
  tabs.replaceChildren(
    ...Object.keys(PANELS).map((name) =>
      element(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": "panel",
          "aria-selected": String(name === current),
          tabindex: name === current ? "0" : "-1",
          onclick: () => open(name),
          onkeydown: moveTab,
        },
        text(name),
      ),
    ),
  );
}

function moveTab(event) {
  const names = Object.keys(PANELS);
  const place = names.indexOf(current);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: names.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  open(names[(next + names.length) % names.length]);
  document.getElementById(`tab-${current}`).focus();
}

function open(name) {
  if (current) kept[current] = readAddress().values;
  openAddress(name, kept[name] ?? "");
  show(name, kept[name] ?? new URLSearchParams());
}

function show(name, values) {
  current = panelOf(name);
  turn += 1;
  drawTabs();
  const shell = document.getElementById("panel");
  shell.setAttribute("aria-labelledby", `tab-${current}`);
  shell.replaceChildren();
  const mine = turn;
  if (model) PANELS[current]({ model, panel: shell, values, guard: (...results) => guard(results, mine) });
  document.title = `${text(current)} · elmokit`;
}

// Runs a panel's work, if that is still shown. What goes wrong is said in `error`, which the panel
// has above the results; they are of an earlier question then, and go. What this service does not
// have is nobody's mistake, and is said quietly.
function guard(results, mine) {
  const error = element("p", { class: "error", role: "alert" });
  const guarded = async (work) => {
    if (mine !== turn) return;
    try {
      await work();
      if (mine === turn) error.textContent = "";
    } catch (problem) {
      if (problem.name === "AbortError" || mine !== turn) return;
      results.forEach((node) => node.replaceChildren());
      error.className = MISSING.includes(problem.code) ? "error quiet" : "error";
      error.textContent = problem.message;
      if (!(problem instanceof Refused) && !(problem.constructor === Error)) throw problem;
    }
  };
  return { error, guarded };
}

async function start() {
  startLanguage();
  const { panel, values } = readAddress();
  if (panel === "compare" || panel === "layers") restore(values);
  current = panelOf(panel);
  openAddress(current, values);
  drawFrame();
  while (!model) {
    try {
      model = await ask("/model");
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      refusal = problem;
      drawModel();
      await new Promise((done) => setTimeout(done, 500));
    }
  }
  beginWith(examplesOf(model));
  drawFrame();
  show(current, values);
}

window.addEventListener("hashchange", () => {
  const { panel, values } = readAddress();
  if (panel === "compare" || panel === "layers") restore(values);
  if (model && Object.hasOwn(PANELS, panel)) show(panel, values);
});
start();
