"""Which sense a word has: the one whose mean vector in SemCor is nearest, layer by layer.

The set-up of the paper's Table 5. A lemma that SemCor does not have gets WordNet's first sense.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of
from elmokit.analysis.probes.files import (
    ALL,
    SenseIndex,
    SenseOccurrence,
    SenseSentence,
    find_sense_tests,
    read_semcor,
    read_sense_index,
    read_sense_test,
)
from elmokit.analysis.probes.report import (
    SENTENCES_AT_A_TIME,
    ProbeReport,
    Progress,
    Scores,
    Source,
    Stages,
    joined,
    layer_count,
    layer_names,
    occurrence_vectors,
)
from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.io.text_files import find_files
from elmokit.static.vectors import unit

BASELINE = "first sense of WordNet"
COSINE_DIGITS = 6
"""Beyond these, cosines differ by float noise."""

SenseSums = dict[str, dict[str, NDArray[np.float64]]]
"""Lemma → sense key → the sum (layers, size) of the vectors of its occurrences."""
Answers = list[str | None]
"""A sense key for each question; None where there is no answer."""


@dataclass(frozen=True)
class SenseData:
    """Sentences to learn senses from, test sets by name, and WordNet's senses."""

    train: list[SenseSentence]
    tests: dict[str, list[SenseSentence]]
    index: SenseIndex

    @property
    def asked(self) -> list[SenseOccurrence]:
        """What is asked in all test sets, one after another."""
        return [one for sentences in self.tests.values() for one in occurrences_of(sentences)]


class SenseScore(NamedTuple):
    """How many answers are right."""

    right: int
    answered: int
    asked: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.answered + self.asked)


def read_sense_data(
    semcor: Sequence[str | Path],
    tests: str | Path,
    senses: str | Path,
    sentences: int | None = None,
) -> SenseData:
    """Read files of SemCor, a folder of test sets, and WordNet's `index.sense`.

    Of each file of SemCor no more than so many sentences are kept.
    """
    files = find_sense_tests(tests)
    index = read_sense_index(senses)
    read = {name: read_sense_test(one) for name, one in files.items()}
    return SenseData(read_semcor(find_files(semcor), sentences), read, index)


def occurrences_of(sentences: Iterable[SenseSentence]) -> list[SenseOccurrence]:
    """The occurrences of some sentences, one after another."""
    return [one for sentence in sentences for one in sentence.occurrences]


def probe_word_senses(
    sources: Sequence[Source], data: SenseData, progress: Progress | None = None
) -> ProbeReport:
    """F1 of each layer of each source on each test set, and on all of them.

    Of the vectors only the sum of each sense's is kept, and sentences without a lemma that is asked
    are not read.
    """
    asked = data.asked
    lemmas = {one.lemma for one in asked}
    train = with_lemmas(data.train, lemmas)
    test = [sentence for sentences in data.tests.values() for sentence in sentences]
    total = len(sources) * (len(train) + len(test))
    stages = Stages(progress, total, SENTENCES_AT_A_TIME)
    first = [data.index.first.get(one.lemma) for one in asked]
    rows: dict[str, Scores] = {BASELINE: scores_of(first, data)}
    for source in sources:
        sums = add_up_senses(source, train, stages)
        stages.next(len(train))
        given = nearest_senses(source, test, sums, data.index, stages)
        stages.next(len(test))
        rows = joined(rows, {name: scores_of(one, data) for name, one in given.items()})
    seen = {one.lemma for one in occurrences_of(train)}
    unseen = [[one.lemma not in seen for one in occurrences_of(s)] for s in data.tests.values()]
    return ProbeReport(
        probe="word sense",
        measure="F1",
        columns=columns_of(data),
        scores=rows,
        layers=layer_names(*sources),
        counts={
            "words": with_total([len(one) for one in unseen], data),
            "lemma not in SemCor": with_total([sum(one) for one in unseen], data),
        },
        details={"training occurrences": sum(len(one.occurrences) for one in train)},
    )


def with_lemmas(sentences: Iterable[SenseSentence], lemmas: set[str]) -> list[SenseSentence]:
    """The sentences that have one of some lemmas, and only these occurrences in them."""
    kept = (
        SenseSentence(
            sentence.words, tuple(one for one in sentence.occurrences if one.lemma in lemmas)
        )
        for sentence in sentences
    )
    return [sentence for sentence in kept if sentence.occurrences]


def add_up_senses(
    source: Source,
    sentences: Sequence[SenseSentence],
    progress: Progress | None = None,
) -> SenseSums:
    """The sum of each sense's vectors; to a cosine it is as good as the mean."""
    sums: SenseSums = defaultdict(dict)
    for occurrence, vectors in occurrence_vectors(source, sentences, progress):
        of_lemma = sums[occurrence.lemma]
        for sense in occurrence.senses:
            of_lemma[sense] = of_lemma.get(sense, 0.0) + vectors.astype(np.float64)
    return sums


def nearest_senses(
    source: Source,
    sentences: Sequence[SenseSentence],
    sums: SenseSums,
    index: SenseIndex,
    progress: Progress | None = None,
) -> dict[str, Answers]:
    """For each layer by name the nearest sense of each occurrence, or the lemma's first one."""
    rows = layers_of(source)
    answers: dict[str, Answers] = {name: [] for name, _ in rows}
    for occurrence, vectors in occurrence_vectors(source, sentences, progress):
        candidates = sums.get(occurrence.lemma, {})
        # Layer 0 may have one vector for all senses: then the most frequent is chosen.
        keys = sorted(candidates, key=lambda key: (index.numbers.get(key, sys.maxsize), key))
        for name, of_layer in rows:
            if not keys:
                answers[name].append(index.first.get(occurrence.lemma))
                continue
            centroids = np.stack([of_layer(candidates[key]) for key in keys])
            cosines = unit(centroids) @ unit(of_layer(vectors))
            answers[name].append(keys[int(cosines.round(COSINE_DIGITS).argmax())])
    return answers


def columns_of(data: SenseData) -> tuple[str, ...]:
    """The names of the test sets; and that of all together, unless one is that already."""
    return (*data.tests, ALL) if _has_total(data) else (*data.tests,)


def with_total(numbers: Sequence[int], data: SenseData) -> tuple[int, ...]:
    """A number for each test set; and their sum, where all sets together have a column."""
    return (*numbers, sum(numbers)) if _has_total(data) else tuple(numbers)


def scores_of(answers: Answers, data: SenseData) -> Scores:
    """F1 for each column, of answers to all test sets, one after another."""
    given: Iterator[str | None] = iter(answers)
    scores = []
    for sentences in data.tests.values():
        asked = occurrences_of(sentences)
        pairs = [(next(given), one) for one in asked]
        right = sum(answer in one.senses for answer, one in pairs)
        answered = sum(answer is not None for answer, _ in pairs)
        scores.append(SenseScore(right, answered, len(asked)))
    if _has_total(data):
        scores.append(SenseScore(*(sum(values) for values in zip(*scores, strict=True))))
    return tuple(score.f1 for score in scores)


def _has_total(data: SenseData) -> bool:
    return len(data.tests) > 1 and ALL not in data.tests


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


class ComparedOccurrences(NamedTuple):
    """The occurrences that are compared."""

    sentences: list[SenseSentence]  # with no other occurrences in them
    words: list[Word]

    @property
    def occurrences(self) -> int:
        """How many there are."""
        return sum(len(sentence.occurrences) for sentence in self.sentences)


class OccurrencePlace(NamedTuple):
    """An occurrence in one of some sentences."""

    sentence: int
    alike: int  # the first sentence that has the same words
    occurrence: SenseOccurrence


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


def kept_occurrences(sentences: Sequence[SenseSentence], most: int) -> ComparedOccurrences:
    """The occurrences of words with several senses, no more than `most` of each."""
    chosen = [evenly(places, most) for places in places_by_word(sentences).values()]
    chosen = [places for places in chosen if is_ambiguous(places)]
    by_sentence: defaultdict[int, list[OccurrencePlace]] = defaultdict(list)
    for places in chosen:
        for place in places:
            by_sentence[place.sentence].append(place)
    order = [place for places in by_sentence.values() for place in places]
    rows = {place: row for row, place in enumerate(order)}
    return ComparedOccurrences(
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


def places_by_word(sentences: Sequence[SenseSentence]) -> dict[str, list[OccurrencePlace]]:
    """The places of each word, in capitals or not."""
    first: dict[tuple[str, ...], int] = {}
    places: defaultdict[str, list[OccurrencePlace]] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        words = folded(sentence.words)
        alike = first.setdefault(words, number)
        for one in sentence.occurrences:
            places[" ".join(words[one.start : one.end])].append(OccurrencePlace(number, alike, one))
    return places


def folded(words: Sequence[str]) -> tuple[str, ...]:
    """Words in which capitals do not count."""
    return tuple(word.casefold() for word in words)


def evenly(items: list[Item], most: int) -> list[Item]:
    """No more than `most` of some items, from all over them."""
    if len(items) <= most:
        return items
    return [items[number * len(items) // most] for number in range(most)]


def is_ambiguous(places: Sequence[OccurrencePlace]) -> bool:
    """Whether occurrences have no sense in common, and stand in several sentences."""
    common = set.intersection(*({*place.occurrence.senses} for place in places))
    return not common and len({place.alike for place in places}) > 1


def kept_vectors(
    source: Source, kept: ComparedOccurrences, progress: Progress | None = None
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
