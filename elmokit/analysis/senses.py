"""The senses of a word: its occurrences, parted by their vectors in context."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import log, sqrt
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_choice, check_size
from elmokit.errors import InputError
from elmokit.io.files import write_atomically
from elmokit.io.pictures import check_picture_name, new_figure, write_figure
from elmokit.static.vectors import cosine as cosine
from elmokit.static.vectors import unit
from elmokit.system import counted

Vectors = NDArray[np.float32]
Layout = Literal["pca", "umap"]

MOST_SENSES = 6
"""The most that are tried where nobody says how many there are."""
OCCURRENCES_PER_SENSE = 4
"""With fewer of them a sense could not be told from chance."""
TYPICAL_WORDS = 8
LEAST_TYPICAL = 1.5
"""Standard errors above none at all."""
SEED = 0
STARTS = 8


class Point(NamedTuple):
    """An occurrence on the map."""

    words: tuple[str, ...]
    position: int
    sense: int  # its number, from 1
    x: float
    y: float


@dataclass(frozen=True)
class Sense:
    """Occurrences that lie together.

    Attributes:
        number: From 1, the most frequent first.
        occurrences: How many there are.
        examples: Those nearest to the centre.
        typical: Words of their sentences that are rarer in those of other senses.
    """

    number: int
    occurrences: int
    examples: tuple[Occurrence, ...]
    typical: tuple[str, ...]


@dataclass(frozen=True)
class Senses:
    """The senses of a word, and the map of its occurrences.

    Attributes:
        word: The word, in lower case.
        layer: Whose vectors were compared.
        occurrences: How many the index has; the map is of some of them if they are many.
        silhouette: How clearly senses lie apart: 1 clearly, 0 not at all; None if there is one.
        layout: What made the map.
        senses: Each of them.
        points: The occurrences on the map.
    """

    word: str
    layer: str
    occurrences: int
    silhouette: float | None
    layout: str
    senses: tuple[Sense, ...]
    points: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in ("word", "layer", "occurrences")},
            "silhouette": self.silhouette,
            "layout": self.layout,
            "senses": [
                asdict(sense) | {"examples": [example._asdict() for example in sense.examples]}
                for sense in self.senses
            ],
            "points": [point._asdict() for point in self.points],
        }


def find_senses(
    word: str,
    sentences: Sequence[Sequence[str]],
    positions: Sequence[int],
    vectors: Vectors,
    *,
    count: int | None = None,
    layer: str = "",
    senses: int | None = None,
    examples: int = 3,
    layout: Layout = "pca",
) -> Senses:
    """Part the occurrences of a word by their vectors (occurrences, size).

    Args:
        word: The word.
        sentences: The sentence of each occurrence.
        positions: Where the word is in it.
        vectors: The vector of each.
        count: How many occurrences there are in all, where these are but some.
        layer: Whose vectors they are.
        senses: How many senses there are to be; else as many as lie apart most clearly.
        examples: How many sentences stand for each.
        layout: What makes the map.
    """
    check_size("examples", examples)
    check_choice("layout", layout, get_args(Layout))
    directions = unit(vectors)
    labels, silhouette = parted(directions, senses, word)
    places = laid_out(directions, layout)
    found = tuple(
        Sense(
            number,
            int((labels == number).sum()),
            nearest_to_centre(directions, labels == number, sentences, positions, examples),
            typical_words(sentences, positions, labels == number),
        )
        for number in range(1, int(labels.max()) + 1)
    )
    points = tuple(
        Point(tuple(sentence), int(position), int(label), float(x), float(y))
        for sentence, position, label, (x, y) in zip(
            sentences, positions, labels, places, strict=True
        )
    )
    everything = len(points) if count is None else count
    return Senses(word, layer, everything, silhouette, layout, found, points)


def parted(
    directions: Vectors, senses: int | None, word: str
) -> tuple[NDArray[np.int64], float | None]:
    """The sense (occurrences,) of each occurrence, from 1 on by falling size; and how clear it is.

    Without a number of senses, those from 2 to `MOST_SENSES` are tried, and the one taken whose
    silhouette is largest.
    """
    different = len(np.unique(directions, axis=0))
    if senses is not None:
        check_size("senses", senses)
        if senses > different:
            raise InputError(
                f"{word!r} has {different} different occurrences, too few for {senses} senses; ask "
                "for fewer"
            )
        return clusters(directions, senses)
    most = min(MOST_SENSES, different // OCCURRENCES_PER_SENSE)
    if most < 2:
        return clusters(directions, 1)
    tried = [clusters(directions, number) for number in range(2, most + 1)]
    return max(tried, key=lambda found: found[1] or 0.0)


def clusters(directions: Vectors, number: int) -> tuple[NDArray[np.int64], float | None]:
    """So many clusters by k-means: the label of each occurrence, and the silhouette."""
    if number == 1:
        return np.ones(len(directions), np.int64), None
    cluster, metrics = scikit_learn()
    means = cluster.KMeans(number, n_init=STARTS, random_state=SEED).fit(directions)
    order = np.argsort(-np.bincount(means.labels_, minlength=number), kind="stable")
    names = np.empty(number, np.int64)
    names[order] = np.arange(1, number + 1)
    labels = names[means.labels_]
    if number >= len(directions):  # each has its own: nothing to compare it with
        return labels, None
    return labels, float(metrics.silhouette_score(directions, labels, metric="cosine"))


def scikit_learn() -> tuple[Any, Any]:
    """What parts vectors, and says how well, where it is installed."""
    try:
        from sklearn import cluster, metrics  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError(
            'scikit-learn is not installed; run: pip install "elmokit[analysis]"'
        ) from error
    return cluster, metrics


def nearest_to_centre(
    directions: Vectors,
    inside: NDArray[np.bool_],
    sentences: Sequence[Sequence[str]],
    positions: Sequence[int],
    examples: int,
) -> tuple[Occurrence, ...]:
    """The occurrences of a cluster that are nearest to its centre, the nearest first."""
    members = np.flatnonzero(inside)
    cosines = directions[members] @ unit(directions[members].mean(0))
    nearest = members[np.argsort(-cosines, kind="stable")[:examples]]
    return tuple(Occurrence(tuple(sentences[n]), int(positions[n])) for n in nearest)


def typical_words(
    sentences: Sequence[Sequence[str]], positions: Sequence[int], inside: NDArray[np.bool_]
) -> tuple[str, ...]:
    """Words that stand in sentences of a cluster more often than in others.

    By the log odds of a sentence to have the word, inside against outside, in units of their
    standard error: what is frequent on one side counts more than what is there once.
    """
    if inside.all():
        return ()
    counts = (Counter[str](), Counter[str]())  # outside, inside
    for sentence, position, is_inside in zip(sentences, positions, inside, strict=True):
        others = {word.lower() for word in sentence} - {sentence[position].lower()}
        counts[int(is_inside)].update(word for word in others if any(map(str.isalpha, word)))
    sizes = int((~inside).sum()), int(inside.sum())

    def score(word: str) -> float:
        odds, variance = 0.0, 0.0
        for sign, count, size in zip((-1, 1), (one[word] for one in counts), sizes, strict=True):
            odds += sign * log((count + 0.5) / (size - count + 0.5))
            variance += 1 / (count + 0.5) + 1 / (size - count + 0.5)
        return odds / sqrt(variance)

    repeated = [word for word, count in counts[1].items() if count > 1]
    scored = sorted(((score(word), word) for word in repeated), key=lambda one: (-one[0], one[1]))
    return tuple(word for value, word in scored[:TYPICAL_WORDS] if value > LEAST_TYPICAL)


def laid_out(directions: Vectors, layout: Layout) -> NDArray[np.float64]:
    """Places on a map (occurrences, 2)."""
    if layout == "umap" and len(directions) > 4:  # it needs more vectors than dimensions
        return umap_places(directions)
    return principal_components(directions)


def principal_components(vectors: Vectors) -> NDArray[np.float64]:
    """The two directions in which vectors differ most (occurrences, 2); the same on any machine."""
    centred = (vectors - vectors.mean(0)).astype(np.float64)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    kept = axes[:2]
    # An axis may point either way: let its largest value be positive.
    kept = kept * np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(1)])[:, None]
    places = np.zeros((len(vectors), 2))
    places[:, : len(kept)] = centred @ kept.T
    return places


def umap_places(directions: Vectors) -> NDArray[np.float64]:
    """A map on which near vectors stay near (occurrences, 2)."""
    try:
        from umap import UMAP  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError(
            'umap-learn is not installed; run: pip install "elmokit[analysis]"'
        ) from error
    neighbours = min(15, len(directions) - 1)
    layout = UMAP(
        n_neighbors=neighbours, metric="cosine", random_state=SEED, n_jobs=1, init="random"
    )
    return np.asarray(layout.fit_transform(directions), np.float64)


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


STARS = ("*", "*")


BRACKETS = ("[", "]")


class Occurrence(NamedTuple):
    """A word at a position of a sentence."""

    words: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        """The word as it stands there."""
        return self.words[self.position]

    def __str__(self) -> str:
        return with_mark(self.words, self.position)


def with_mark(words: Sequence[str], position: int, marks: tuple[str, str] = STARS) -> str:
    """A sentence with one word marked; with stars, as a question marks it.

    >>> with_mark(["the", "river", "bank"], 2)
    'the river *bank*'
    """
    before, after = words[:position], words[position + 1 :]
    first, last = marks
    return " ".join([*before, f"{first}{words[position]}{last}", *after])
