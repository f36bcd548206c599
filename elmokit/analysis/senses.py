"""The senses of a word: its occurrences, parted by their vectors in context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.io.pictures import check_picture_name, new_figure, write_figure
from elmokit.static.vectors import cosine as cosine
from elmokit.static.vectors import unit
from elmokit.system import counted, import_extra

Vectors = NDArray[np.float32]

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
        senses: Each of them.
        points: The occurrences on the map.
    """

    word: str
    layer: str
    occurrences: int
    silhouette: float | None
    senses: tuple[Sense, ...]
    points: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in ("word", "layer", "occurrences")},
            "silhouette": self.silhouette,
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
    """
    check_size("examples", examples)
    directions = unit(vectors)
    labels, silhouette = parted(directions, senses, word)
    places = principal_components(directions)
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
    return Senses(word, layer, everything, silhouette, found, points)


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
    cluster, metrics = (
        import_extra(f"sklearn.{name}", "analysis", "scikit-learn")
        for name in ("cluster", "metrics")
    )
    means = cluster.KMeans(number, n_init=STARTS, random_state=SEED).fit(directions)
    order = np.argsort(-np.bincount(means.labels_, minlength=number), kind="stable")
    names = np.empty(number, np.int64)
    names[order] = np.arange(1, number + 1)
    labels = names[means.labels_]
    if number >= len(directions):  # each has its own: nothing to compare it with
        return labels, None
    return labels, float(metrics.silhouette_score(directions, labels, metric="cosine"))


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
    axes.set_xlabel("PCA 1")
    axes.set_ylabel("PCA 2")
    axes.legend(fontsize=8, loc="best", framealpha=0.8)
    write_figure(figure, path)


def plain_text(text: str) -> str:
    """A text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


STARS, BRACKETS = ("*", "*"), ("[", "]")


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
