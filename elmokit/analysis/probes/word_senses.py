"""Which sense a word has: the one whose mean vector in SemCor is nearest, layer by layer.

The set-up of the paper's Table 5. A lemma that SemCor does not have gets WordNet's first sense.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of
from elmokit.analysis.probes.files.semcor import read_semcor
from elmokit.analysis.probes.files.sense_index import SenseIndex, read_sense_index
from elmokit.analysis.probes.files.sense_tests import ALL, find_sense_tests, read_sense_test
from elmokit.analysis.probes.files.senses import Occurrence, SenseSentence
from elmokit.analysis.probes.occurrences import occurrence_vectors
from elmokit.analysis.probes.report import ProbeReport, Scores, joined
from elmokit.analysis.probes.sources import Source, layer_names
from elmokit.analysis.probes.stages import SENTENCES_AT_A_TIME, Progress, Stages
from elmokit.static.angles import unit
from elmokit.text.corpus import find_files

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
    def asked(self) -> list[Occurrence]:
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


def occurrences_of(sentences: Iterable[SenseSentence]) -> list[Occurrence]:
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
