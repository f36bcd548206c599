"""Senses of a word: clusters of its occurrences, by their vectors in context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.io.pictures import new_figure, write_figure
from elmokit.static.vectors import unit
from elmokit.system import counted, import_extra

Vectors = NDArray[np.float32]
Item = TypeVar("Item")

MOST_SENSES = 6  # the most that are tried where nobody says how many there are
OCCURRENCES_PER_SENSE = 4  # with fewer of them a sense could not be told from chance
TYPICAL_WORDS = 8
LEAST_TYPICAL = 1.5  # standard errors above none at all
FUNCTION_WORDS = frozenset(
    """
    a about after all also an and any are as at be because been before but by can could did do does
    for from had has have he her him his i if in into is it its may me might more most must my no
    not of on or other our out over she should so some such than that the their them then there
    these they this those through to under up upon was we were what when where which while who whom
    whose why will with would you your n't 's 're 've 'll 'd 'm
    가 같 거 것 게 겠 고 과 그 기 까지 는 는데 니 다 대하 던 도 되 들 라 라고 로 를 만 면 며
    면서 보다 부터 수 습니다 시 아 안 않 어 어서 었 았 였 에 에게 에서 와 요 위하 으로 은
    을 의 이 있 없 적 지 지만 하 하고 ㄴ ㄴ다 ㄹ ᆫ ᆫ다 ᆯ ᆸ니다
    """.split()  # noqa: SIM905
)
"""Which say nothing of a sense, however typical of it: they are not shown."""
STARS, BRACKETS = ("*", "*"), ("[", "]")


@dataclass(frozen=True)
class Occurrence:
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


@dataclass(frozen=True)
class Point(Occurrence):
    """An occurrence on the map."""

    sense: int  # its number, from 1
    x: float
    y: float


@dataclass(frozen=True)
class Sense:
    """Occurrences that lie together."""

    number: int  # from 1, the most frequent first
    occurrences: int  # how many there are
    examples: tuple[Occurrence, ...]  # those nearest to the centre
    typical: tuple[str, ...]  # words of their sentences, rarer in those of other senses


@dataclass(frozen=True)
class Senses:
    """The senses of a word, and the map of its occurrences."""

    word: str  # in lower case
    layer: str  # whose vectors were compared
    occurrences: int  # how many the index has; the map is of some of them if they are many
    silhouette: float | None  # 1 where senses lie apart clearly, 0 not at all; None of one sense
    senses: tuple[Sense, ...]
    points: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def find_senses(
    word: str,
    occurrences: Sequence[Occurrence],
    vectors: Vectors,
    *,
    count: int | None = None,
    layer: str = "",
    senses: int | None = None,
    examples: int = 3,
) -> Senses:
    """Part the occurrences of a word by their vectors (occurrences, size) of a layer.

    There are `count` in all, where these are but some. Arguments are those of
    `NeighbourIndex.senses`.
    """
    checked("examples", examples, Count)
    directions = unit(vectors)
    labels, silhouette = parted(directions, senses, word)
    found = []
    for number in range(1, int(labels.max()) + 1):
        inside = labels == number
        members = np.flatnonzero(inside)
        cosines = directions[members] @ unit(directions[members].mean(0))
        nearest = members[np.argsort(-cosines, kind="stable")][:examples]
        shown = tuple(occurrences[place] for place in nearest)
        found.append(Sense(number, len(members), shown, typical_words(occurrences, inside)))
    places = zip(occurrences, labels, principal_components(directions), strict=True)
    points = tuple(
        Point(one.words, one.position, int(label), float(x), float(y))
        for one, label, (x, y) in places
    )
    everything = len(points) if count is None else count
    return Senses(word, layer, everything, silhouette, tuple(found), points)


def parted(
    directions: Vectors, senses: int | None, word: str
) -> tuple[NDArray[np.int64], float | None]:
    """The sense (occurrences,) of each occurrence, from 1 on by falling size; and how clear it is.

    Without a number of senses, those from 2 to `MOST_SENSES` are tried, and the one taken whose
    silhouette is largest.
    """
    different = len(np.unique(directions, axis=0))
    if senses is not None:
        checked("senses", senses, Count)
        if senses > different:
            raise InputError(
                f"{word!r} has {different} different occurrences, too few for {senses} senses; ask "
                "for fewer"
            )
    most = min(MOST_SENSES, different // OCCURRENCES_PER_SENSE)
    numbers = (range(2, most + 1) or [1]) if senses is None else [senses]
    tried = [clusters(directions, number) for number in numbers]
    return max(tried, key=lambda found: found[1] or 0.0)


def clusters(directions: Vectors, number: int) -> tuple[NDArray[np.int64], float | None]:
    """So many clusters by k-means: the label of each occurrence, and the silhouette."""
    if number == 1:
        return np.ones(len(directions), np.int64), None
    cluster, metrics = (
        import_extra(f"sklearn.{name}", "analysis", "scikit-learn")
        for name in ("cluster", "metrics")
    )
    means = cluster.KMeans(number, n_init=8, random_state=0).fit(directions)
    order = np.argsort(-np.bincount(means.labels_, minlength=number), kind="stable")
    names = np.empty(number, np.int64)
    names[order] = np.arange(1, number + 1)
    labels = names[means.labels_]
    if number >= len(directions):  # each has its own: nothing to compare it with
        return labels, None
    return labels, float(metrics.silhouette_score(directions, labels, metric="cosine"))


def typical_words(occurrences: Sequence[Occurrence], inside: NDArray[np.bool_]) -> tuple[str, ...]:
    """Words that stand in sentences of a cluster more often than in others.

    By the log odds of a sentence to have the word, inside against outside, in units of their
    standard error: what is frequent on one side counts more than what is there once.
    """
    if inside.all():
        return ()
    counts = (Counter[str](), Counter[str]())  # outside, inside
    for one, is_inside in zip(occurrences, inside, strict=True):
        others = {word.lower() for word in one.words} - {one.word.lower()} - FUNCTION_WORDS
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


def label_of(sense: Sense) -> str:
    """What a sense is called: its number, its size, its most typical words."""
    typical = f": {', '.join(sense.typical[:TYPICAL_SHOWN])}" if sense.typical else ""
    return f"{sense.number} ({sense.occurrences:,}){typical}"


def title_of(found: Senses) -> str:
    """What the map shows."""
    shown = f" ({len(found.points):,} shown)" if len(found.points) < found.occurrences else ""
    return f"{found.word}: {counted(found.occurrences, 'occurrence')}{shown}, layer {found.layer}"


def draw_map(found: Senses, path: str | Path, data: str = "") -> None:
    """Draw the map as a .png or .svg file; `data` is what it is of."""
    figure = new_figure(8, 6, extra="analysis")
    axes = figure.subplots()
    for sense in found.senses:
        points = [point for point in found.points if point.sense == sense.number]
        axes.scatter(
            [point.x for point in points],
            [point.y for point in points],
            s=14 if len(found.points) > 100 else 50,
            color=COLOURS[(sense.number - 1) % len(COLOURS)],
            label=plain_text(label_of(sense)),
            alpha=0.7,
            linewidths=0,
        )
    axes.set(
        title=plain_text(", ".join(filter(None, (data, title_of(found))))),
        xlabel="PCA 1",
        ylabel="PCA 2",
    )
    axes.set(xticks=[], yticks=[])
    axes.legend(fontsize=8, loc="best", framealpha=0.8)
    write_figure(figure, path)


def plain_text(text: str) -> str:
    """A text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """No more than `most` of some items, from all over them.

    >>> evenly("abcde", 9), evenly("abcdefghij", 4)
    (['a', 'b', 'c', 'd', 'e'], ['a', 'c', 'f', 'h'])
    """
    count = min(len(items), most)
    return [items[number * len(items) // count] for number in range(count)]
