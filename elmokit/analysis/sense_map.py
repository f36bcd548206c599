"""The map of a word's occurrences: a picture, and a page to look around in."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template

from elmokit.analysis.occurrence import with_mark
from elmokit.analysis.senses import Senses
from elmokit.errors import InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.pictures import check_picture_name, new_figure, write_figure
from elmokit.plurals import counted

COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7F7F00", "#444444",
)  # fmt: skip
"""To be told apart by the colour-blind, too; further senses begin again."""
TYPICAL_SHOWN = 4


def colour_of(sense: int) -> str:
    """The colour of a sense, numbered from 1."""
    return COLOURS[(sense - 1) % len(COLOURS)]


def label_of(found: Senses, number: int) -> str:
    """What a sense is called: its number, its size, its most typical words."""
    sense = found.senses[number - 1]
    typical = f": {', '.join(sense.typical[:TYPICAL_SHOWN])}" if sense.typical else ""
    return f"{number} ({sense.occurrences:,}){typical}"


def title_of(found: Senses) -> str:
    """What the map shows."""
    shown = f" ({len(found.points):,} shown)" if len(found.points) < found.occurrences else ""
    return f"{found.word}: {counted(found.occurrences, 'occurrence')}{shown}, layer {found.layer}"


def draw_map(found: Senses, path: str | Path) -> None:
    """Draw the map as a .png or .svg file."""
    check_picture_name(path)
    figure = new_figure(8, 6, extra="analysis")
    axes = figure.subplots()
    for sense in found.senses:
        points = [point for point in found.points if point.sense == sense.number]
        axes.scatter(
            [point.x for point in points],
            [point.y for point in points],
            s=14,
            color=colour_of(sense.number),
            label=plain_text(label_of(found, sense.number)),
            alpha=0.7,
            linewidths=0,
        )
    axes.set_title(plain_text(title_of(found)))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(f"{found.layout.upper()} 1")
    axes.set_ylabel(f"{found.layout.upper()} 2")
    axes.legend(fontsize=8, loc="best", framealpha=0.8)
    write_figure(figure, path)


def plain_text(text: str) -> str:
    """A text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def check_page_name(path: str | Path) -> None:
    """Refuse a name that no browser would take for a page."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: the page is HTML; give a name that ends in .html")


def write_page(found: Senses, path: str | Path) -> None:
    """Write the map as one .html file that asks for nothing outside itself."""
    check_page_name(path)
    with write_atomically(path) as temporary:
        temporary.write_text(page_of(found), encoding="utf-8")


def page_of(found: Senses) -> str:
    """The page: points to point at, senses to switch on and off, a field to search sentences."""
    values = {
        "points": [
            [round(point.x, 5), round(point.y, 5), point.sense,
             with_mark(point.words, point.position)]
            for point in found.points
        ],
        "senses": [
            {"label": label_of(found, sense.number), "colour": colour_of(sense.number)}
            for sense in found.senses
        ],
    }  # fmt: skip
    # No sentence can end the script that holds it, whatever tags are in it.
    data = json.dumps(values).replace("<", "\\u003c")
    return PAGE.substitute(title=escape(title_of(found)), data=data)


PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>$title</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.2rem; }
svg { width: 100%; height: 60vh; border: 1px solid #bbb; touch-action: none; cursor: grab; }
circle { opacity: .75; }
circle.off { display: none; }
circle.faint { opacity: .08; }
circle:focus, circle:hover, circle.chosen { stroke: #000; stroke-width: 2; opacity: 1;
  vector-effect: non-scaling-stroke; outline: none; }
#sentence { min-height: 3em; padding: .5em 0; }
label { margin-right: 1em; white-space: nowrap; }
.dot { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .3em; }
</style>
</head>
<body>
<h1>$title</h1>
<p><label>Search <input id="search" type="search"></label>
<button id="reset" type="button">Show all of the map</button></p>
<div id="legend"></div>
<svg id="map" role="group" aria-label="$title"></svg>
<p id="sentence" aria-live="polite">Point at a dot to read its sentence. Wheel: nearer or farther.
Drag: move.</p>
<script id="data" type="application/json">$data</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const map = document.getElementById("map"), sentence = document.getElementById("sentence");
const names = "http://www.w3.org/2000/svg";
const xs = data.points.map(p => p[0]), ys = data.points.map(p => -p[1]);
const least = v => v.reduce((a, b) => Math.min(a, b));
const most = v => v.reduce((a, b) => Math.max(a, b));
const width = most(xs) - least(xs) || 1, height = most(ys) - least(ys) || 1;
const all = [least(xs) - width / 20, least(ys) - height / 20, width * 1.1, height * 1.1];
let box = [...all];
const dots = data.points.map((point, number) => {
  const dot = document.createElementNS(names, "circle");
  dot.setAttribute("cx", xs[number]);
  dot.setAttribute("cy", ys[number]);
  dot.setAttribute("fill", data.senses[point[2] - 1].colour);
  dot.setAttribute("tabindex", "0");
  dot.setAttribute("role", "img");
  dot.setAttribute("aria-label", point[3]);
  const show = () => {
    sentence.textContent = "Sense " + point[2] + ": " + point[3];
    map.querySelectorAll(".chosen").forEach(other => other.classList.remove("chosen"));
    dot.classList.add("chosen");
  };
  dot.addEventListener("pointerenter", show);
  dot.addEventListener("focus", show);
  map.appendChild(dot);
  return dot;
});
function look() {
  map.setAttribute("viewBox", box.join(" "));
  const scale = Math.max(box[2] / (map.clientWidth || 1), box[3] / (map.clientHeight || 1));
  dots.forEach(dot => dot.setAttribute("r", 5 * scale));
}
const hidden = new Set();
data.senses.forEach((sense, number) => {
  const label = document.createElement("label"), choice = document.createElement("input");
  const colour = document.createElement("span");
  choice.type = "checkbox";
  choice.checked = true;
  colour.className = "dot";
  colour.style.background = sense.colour;
  choice.addEventListener("change", () => {
    if (choice.checked) hidden.delete(number + 1); else hidden.add(number + 1);
    dots.forEach((dot, n) => dot.classList.toggle("off", hidden.has(data.points[n][2])));
  });
  label.append(choice, colour, sense.label);
  document.getElementById("legend").append(label);
});
document.getElementById("search").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  dots.forEach((dot, n) => dot.classList.toggle("faint",
    !data.points[n][3].toLowerCase().includes(wanted)));
});
document.getElementById("reset").addEventListener("click", () => { box = [...all]; look(); });
function place(event) {
  const corner = map.createSVGPoint();
  corner.x = event.clientX;
  corner.y = event.clientY;
  return corner.matrixTransform(map.getScreenCTM().inverse());
}
map.addEventListener("wheel", event => {
  event.preventDefault();
  const at = place(event), by = Math.exp(event.deltaY / 500);
  box = [at.x + (box[0] - at.x) * by, at.y + (box[1] - at.y) * by, box[2] * by, box[3] * by];
  look();
}, { passive: false });
let held = null;
map.addEventListener("pointerdown", event => { held = place(event); });
map.addEventListener("pointermove", event => {
  if (!held) return;
  const at = place(event);
  box = [box[0] + held.x - at.x, box[1] + held.y - at.y, box[2], box[3]];
  look();
});
["pointerup", "pointerleave"].forEach(name => map.addEventListener(name, () => { held = null; }));
window.addEventListener("resize", look);
look();
</script>
</body>
</html>
""")
