"""The senses of a word: its occurrences, parted by their vectors in context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.occurrence import Occurrence
from elmokit.config import check_choice, check_size
from elmokit.errors import InputError
from elmokit.static.angles import unit

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
