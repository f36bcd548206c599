"""How often the nearest occurrence of the same word has the same sense, against chance.

Within SemCor, for words that have several senses there. A word is what is written, in capitals or
not, so the noun *play* and the verb are one. Occurrences in the same sentence are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of
from elmokit.analysis.probes.files.senses import Occurrence, SenseSentence
from elmokit.analysis.probes.occurrences import occurrence_vectors
from elmokit.analysis.probes.report import ProbeReport, Scores, joined
from elmokit.analysis.probes.sources import Source, layer_count, layer_names
from elmokit.analysis.probes.stages import SENTENCES_AT_A_TIME, Progress, Stages
from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.static.angles import unit

CHANCE = "chance"
MOST_OF_A_WORD = 200
"""Occurrences of a word that are compared: more would let a few words decide, and fill memory."""
TIE = 1e-5
"""Cosines no farther apart than this are equal: layer 0 differs by float noise."""

Item = TypeVar("Item")
Truth = NDArray[np.bool_]
Shares = NDArray[np.float64]


class Word(NamedTuple):
    """A word with several senses: which of the kept occurrences are its own, and what they are."""

    rows: list[int]  # among all kept occurrences
    sentences: list[int]  # those of the same number have the same words
    senses: list[tuple[str, ...]]


class Kept(NamedTuple):
    """The occurrences that are compared."""

    sentences: list[SenseSentence]  # with no other occurrences in them
    words: list[Word]

    @property
    def occurrences(self) -> int:
        """How many there are."""
        return sum(len(sentence.occurrences) for sentence in self.sentences)


class Place(NamedTuple):
    """An occurrence in one of some sentences."""

    sentence: int
    alike: int  # the first sentence that has the same words
    occurrence: Occurrence


def probe_nearest_sense(
    sources: Sequence[Source],
    sentences: Sequence[SenseSentence],
    most: int = MOST_OF_A_WORD,
    progress: Progress | None = None,
) -> ProbeReport:
    """Compare the occurrences of each word with each other, in each layer of each source.

    Of several that are equally near, each counts by its part; so vectors that do not depend on
    the sentence are as good as chance. Of a word with more than `most` occurrences, so many are
    taken evenly over the text.
    """
    check_size("most", most)
    kept = kept_occurrences(sentences, most)
    if not kept.words:
        raise InputError("no word has two senses in these sentences of SemCor; give more of them")
    rows: dict[str, Scores] = {CHANCE: averages([chance(word) for word in kept.words])}
    stages = Stages(progress, len(sources) * len(kept.sentences), SENTENCES_AT_A_TIME)
    for source in sources:
        vectors = kept_vectors(source, kept, stages)
        stages.next(len(kept.sentences))
        rows = joined(rows, shares_of(source, vectors, kept.words))
    return ProbeReport(
        probe="nearest occurrence",
        measure="same sense",
        columns=("mean over words", "over occurrences"),
        scores=rows,
        layers=layer_names(*sources),
        counts={"compared": (len(kept.words), kept.occurrences)},
        details={"most of a word": most},
    )


def kept_occurrences(sentences: Sequence[SenseSentence], most: int) -> Kept:
    """The occurrences of words with several senses, no more than `most` of each."""
    chosen = [evenly(places, most) for places in places_by_word(sentences).values()]
    chosen = [places for places in chosen if is_ambiguous(places)]
    by_sentence: defaultdict[int, list[Place]] = defaultdict(list)
    for places in chosen:
        for place in places:
            by_sentence[place.sentence].append(place)
    order = [place for places in by_sentence.values() for place in places]
    rows = {place: row for row, place in enumerate(order)}
    return Kept(
        [
            SenseSentence(sentences[number].words, tuple(place.occurrence for place in places))
            for number, places in by_sentence.items()
        ],
        [
            Word(
                [rows[place] for place in places],
                [place.alike for place in places],
                [place.occurrence.senses for place in places],
            )
            for places in chosen
        ],
    )


def places_by_word(sentences: Sequence[SenseSentence]) -> dict[str, list[Place]]:
    """The places of each word, in capitals or not."""
    first: dict[tuple[str, ...], int] = {}
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        words = folded(sentence.words)
        alike = first.setdefault(words, number)
        for one in sentence.occurrences:
            places[" ".join(words[one.start : one.end])].append(Place(number, alike, one))
    return places


def folded(words: Sequence[str]) -> tuple[str, ...]:
    """Words in which capitals do not count."""
    return tuple(word.casefold() for word in words)


def evenly(items: list[Item], most: int) -> list[Item]:
    """No more than `most` of some items, from all over them."""
    if len(items) <= most:
        return items
    return [items[number * len(items) // most] for number in range(most)]


def is_ambiguous(places: Sequence[Place]) -> bool:
    """Whether occurrences have no sense in common, and stand in several sentences."""
    common = set.intersection(*({*place.occurrence.senses} for place in places))
    return not common and len({place.alike for place in places}) > 1


def kept_vectors(
    source: Source, kept: Kept, progress: Progress | None = None
) -> NDArray[np.float16]:
    """The vectors (layers, occurrences, size); in half precision, since all are held at a time."""
    shape = (layer_count(source), kept.occurrences, source.vector_size)
    vectors = np.empty(shape, np.float16)
    found = occurrence_vectors(source, kept.sentences, progress)
    for row, (_, of_occurrence) in enumerate(found):
        vectors[:, row] = of_occurrence
    return vectors


def shares_of(
    source: Source, vectors: NDArray[np.float16], words: Sequence[Word]
) -> dict[str, Scores]:
    """For each layer by name: how often the nearest occurrence has the same sense."""
    found: dict[str, list[Shares]] = {name: [] for name, _ in layers_of(source)}
    for word in words:
        of_word = vectors[:, word.rows].astype(np.float32)
        for name, of_layer in layers_of(source):
            units = unit(of_layer(of_word))
            found[name].append(nearest_share(units @ units.T, word))
    return {name: averages(shares) for name, shares in found.items()}


def nearest_share(cosines: NDArray[np.float32], word: Word) -> Shares:
    """For each occurrence the share of the nearest others that have its sense.

    `cosines` are (occurrences, occurrences).
    """
    others = comparable(word)
    highest = np.where(others, cosines, -np.inf).max(axis=1, keepdims=True)
    return same_sense_share(others & (cosines >= highest - TIE), word)


def chance(word: Word) -> Shares:
    """For each occurrence the share of all others that have its sense."""
    return same_sense_share(comparable(word), word)


def comparable(word: Word) -> Truth:
    """Which occurrences (occurrences, occurrences) stand in different sentences."""
    sentences = np.array(word.sentences)
    return sentences[:, None] != sentences


def same_sense_share(chosen: Truth, word: Word) -> Shares:
    """For each occurrence (row) the share of those chosen for it that have one of its senses."""
    senses = [{*one} for one in word.senses]
    same = np.array([[bool(one & other) for other in senses] for one in senses])
    return (chosen & same).sum(1) / chosen.sum(1)


def averages(shares: Sequence[Shares]) -> Scores:
    """The mean of the words' means, and the mean over all occurrences."""
    means = [float(one.mean()) for one in shares]
    return float(np.mean(means)), float(np.concatenate(shares).mean())
