// Sliders for a mix: weights that both directions share, or weights of each, and γ.
import { choices, element, slider } from "./elements.js";
import { evenWeights, onlyLayer, softmax } from "./mixing.js";
import { number, percent, text } from "./texts.js";

// A node that changes `mix` in place, and calls `onchange` whenever it has.
export function mixSliders(mix, layers, onchange) {
  const weights = element("div");

  function changed() {
    weights.replaceChildren(...(mix.directions ? apartSliders() : sharedSliders()), gammaSlider());
    onchange();
  }

  const kind = () =>
    choices({
      legend: text("mixKind"),
      look: "segments",
      options: [["shared", text("mixShared")], ["apart", text("mixDirections")]],
      chosen: mix.directions ? "apart" : "shared",
      onchoose: (chosen) => { mix.directions = chosen === "apart"; changed(); },
    });

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
          onchange();
        },
      }),
    );
    return all.map((one) => one.node);
  }

  function apartSliders() {
    const each = (name) => Array.from({ length: layers - 1 }, (_, n) => text(name, { n: n + 1 }));
    const names = [text("weightToken"), ...each("weightForward"), ...each("weightBackward")];
    return names.map((label, n) =>
      plainSlider({ label, value: mix.apart[n], least: -1, most: 1, step: 0.01, digits: 2 }, (value) => { mix.apart[n] = value; }),
    );
  }

  const gammaSlider = () =>
    plainSlider({ label: text("gamma"), value: mix.gamma, least: 0.1, most: 3, step: 0.1, digits: 1 }, (value) => { mix.gamma = value; });

  function plainSlider({ digits, ...settings }, set) {
    const one = slider({
      ...settings,
      shown: (value) => number(value, digits),
      onslide: (value) => { set(value); one.show(value); onchange(); },
    });
    return one.node;
  }

  function presets() {
    const button = (label, give) =>
      element("button", { type: "button", onclick: () => { Object.assign(mix, give()); changed(); } }, label);
    return element(
      "div",
      { class: "actions" },
      button(text("evenly"), () => evenWeights(layers)),
      Array.from({ length: layers }, (_, n) => button(text("onlyLayer", { n }), () => onlyLayer(layers, n))),
    );
  }

  changed();
  return element("div", {}, kind(), weights, presets());
}
