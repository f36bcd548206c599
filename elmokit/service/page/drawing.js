// The loaded model, drawn with its real shapes: letters at the bottom, the mix at the top.
import { drawn } from "./elements.js";
import { number, text } from "./texts.js";

const WIDTH = 460;
const STEP = 74;
const MIDDLE = 232;

const label = (x, y, words, kind = "") => drawn("text", { x, y, class: kind }, words);
const box = (x, y, width, height, kind = "box") =>
  drawn("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 7, class: kind });
const wire = (x1, y1, x2, y2) => drawn("path", { d: `M${x1} ${y1}L${x2} ${y2}`, class: "wire" });
const head = (x, y) => drawn("path", { d: `M${x} ${y}l-4 7h8z`, class: "head" });
const arrow = (x, from, to) => [wire(x, from, x, to + 5), head(x, to)];

// A byte as the character it is, or as a number where it is a part of one.
const shownByte = (byte) => (byte < 128 ? String.fromCharCode(byte) : byte.toString(16).toUpperCase());

function characterPart(config, bottom, word) {
  const { encoder, token_size: size } = config;
  const filters = encoder.filters.reduce((sum, [, count]) => sum + count, 0);
  const widths = `${encoder.filters[0][0]}–${encoder.filters.at(-1)[0]}`;
  const most = Math.max(...encoder.filters.map(([, count]) => count));
  const place = (n) => MIDDLE + (n - (encoder.filters.length - 1) / 2) * 34;
  const bytes = [...new TextEncoder().encode(word)];
  const parts = bytes.flatMap((byte, n) => {
    const x = MIDDLE + (n - (bytes.length - 1) / 2) * 34;
    return [box(x, bottom, 28, 28), label(x, bottom, shownByte(byte), "letter")];
  });
  parts.push(
    label(MIDDLE, bottom + 28, text("drawCharacters", { word, positions: encoder.max_characters, size: encoder.character_size }), "note"),
    ...arrow(MIDDLE, bottom - 17, bottom - 38),
  );
  encoder.filters.forEach(([width, count], n) => {
    const height = 6 + 30 * Math.sqrt(count / most);
    parts.push(
      drawn("rect", { x: place(n) - 9, y: bottom - 76 - height / 2, width: 18, height, rx: 3, class: "filter" }),
    );
  });
  parts.push(
    label(MIDDLE, bottom - 48, text("drawFilters", { count: number(filters), widths }), "note"),
    ...arrow(MIDDLE, bottom - 100, bottom - 118),
    box(MIDDLE, bottom - 134, 210, 30),
    label(MIDDLE, bottom - 134, text("drawHighway", { count: encoder.highways, size: number(filters) })),
    ...arrow(MIDDLE, bottom - 149, bottom - 166),
    box(MIDDLE, bottom - 182, 210, 30),
    label(MIDDLE, bottom - 182, text("drawProjection", { from: number(filters), to: size })),
    ...arrow(MIDDLE, bottom - 197, bottom - 214),
  );
  return { parts, top: bottom - 232 };
}

function tablePart(config, bottom) {
  const parts = [
    box(MIDDLE, bottom, 210, 32),
    label(MIDDLE, bottom, text("drawTable", { count: number(config.encoder.words) })),
    ...arrow(MIDDLE, bottom - 16, bottom - 36),
  ];
  return { parts, top: bottom - 54 };
}

function layerPart(config, n, y) {
  const cells = text("drawCells", { cells: number(config.cell_size), size: config.token_size });
  const parts = [];
  for (const [side, name] of [[-1, "drawForward"], [1, "drawBackward"]]) {
    const x = MIDDLE + side * 92;
    parts.push(
      ...arrow(x, y + STEP - 23, y + 25),
      box(x, y, 166, 44),
      label(x, y - 9, text(name)),
      label(x, y + 10, cells, "note"),
    );
  }
  parts.push(label(24, y, text("drawLayer", { n }), "note"));
  return parts;
}

// The drawing, and `show`: given what each layer counts in each direction, it sets how thick the
// line from that layer to the mix is.
export function drawModel(config, word) {
  const height = 330 + 40 + config.lstm_layers * STEP + 72;
  const bottom = height - 52;
  const { parts, top } = (config.encoder.filters ? characterPart : tablePart)(config, bottom, word);
  const rows = [top];
  parts.push(
    box(MIDDLE, top, 350, 34, "box key"),
    label(MIDDLE, top, text("drawToken", { size: config.token_size })),
  );
  for (let n = 1; n <= config.lstm_layers; n += 1) {
    const y = top - n * STEP;
    rows.push(y);
    parts.push(...layerPart(config, n, y));
  }
  const mix = rows.at(-1) - 66;
  const lines = rows.map((y, n) => {
    const x = MIDDLE + 189 + n * (24 / config.lstm_layers);
    return drawn("path", { d: `M${MIDDLE + 175} ${y}H${x}V${mix}H${MIDDLE + 120}`, class: "weight" });
  });
  const svg = drawn(
    "svg",
    {
      class: "drawing",
      role: "img",
      viewBox: `0 ${mix - 34} ${WIDTH} ${height - mix + 34}`,
      "aria-label": text("drawLabel", { layers: config.lstm_layers }),
    },
    lines,
    parts,
    box(MIDDLE, mix, 240, 38, "box key"),
    label(MIDDLE, mix, text("drawMix", { size: 2 * config.token_size })),
  );
  const show = (weights) =>
    lines.forEach((line, n) => {
      const share = Math.max(...weights[n].map(Math.abs));
      line.setAttribute("stroke-width", 0.5 + 6 * Math.min(share, 1.5));
      line.setAttribute("opacity", 0.25 + 0.75 * Math.min(share, 1));
    });
  return { svg, show };
}
