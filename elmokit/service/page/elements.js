// Pieces that every panel is made of.
import { number, text } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "share") node.style.setProperty("--share", value);
    else if (name === "checked" || name === "value") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const element = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const drawn = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

let names = 0;

// One of several: radio buttons, which keyboards and screen readers know.
export function choices({ legend, options, chosen, look, onchoose }) {
  const name = `choice-${(names += 1)}`;
  return element(
    "fieldset",
    {},
    element("legend", { class: "hidden" }, legend),
    element(
      "div",
      { class: look },
      options.map(([value, label]) =>
        element(
          "label",
          {},
          element("input", {
            type: "radio",
            name,
            value,
            checked: value === chosen,
            onchange: () => onchoose(value),
          }),
          element("span", {}, label),
        ),
      ),
    ),
  );
}

// Rows of a name, a bar and a number; `muted` bars are there for comparison.
export function bars(rows, { digits = 2, shown = (value) => number(value, digits), scale = 1 } = {}) {
  return element(
    "dl",
    { class: "bars" },
    rows.flatMap(({ name, value, muted, word }) => [
      element("dt", { class: word ? "word" : undefined }, name),
      element(
        "dd",
        { class: muted ? "muted" : undefined, "aria-hidden": "true" },
        element(
          "div",
          { class: "track" },
          element("div", {
            class: value < 0 ? "fill negative" : "fill",
            share: Math.min(Math.abs(value) / scale, 1),
          }),
        ),
      ),
      element("dd", { class: "number" }, value === null ? "-" : shown(value)),
    ]),
  );
}

export function slider({ label, value, least, most, step, shown, onslide }) {
  const output = element("output", {}, shown(value));
  const input = element("input", {
    type: "range",
    min: least,
    max: most,
    step,
    value,
    oninput: () => onslide(Number(input.value)),
  });
  const node = element("label", { class: "slider" }, element("span", {}, label), output, input);
  return { node, show: (next) => { input.value = next; output.value = shown(next); } };
}

// A box for a sentence, which goes on in the next line where it is long.
export function sentenceField(label, value, onchange) {
  const input = element("textarea", { rows: "1", value, oninput: () => onchange(input.value) });
  return element("label", {}, element("span", {}, label), input);
}

export const lead = (title, words) =>
  element("div", { class: "lead" }, element("h2", {}, text(title)), element("p", {}, text(words)));

export const section = (title, why, ...children) =>
  element(
    "section",
    {},
    element("h3", {}, title),
    why ? element("p", { class: "soft" }, why) : null,
    children,
  );

export const wordsWith = (words, position) => [
  words.slice(0, position).join(" ") + " ",
  element("mark", {}, words[position]),
  " " + words.slice(position + 1).join(" "),
];

// Occurrences of words in their sentences, and how near each is where that is known.
export const found = (places) =>
  element(
    "ol",
    { class: "found" },
    places.map(({ words, position, cosine }) =>
      element(
        "li",
        {},
        element("span", {}, wordsWith(words, position)),
        cosine === undefined ? null : element("span", { class: "number" }, number(cosine, 3)),
      ),
    ),
  );

export function later(milliseconds, action) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}
