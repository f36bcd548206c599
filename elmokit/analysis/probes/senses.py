"""Probes of word senses: the nearest mean vector of SemCor's senses, and the nearest occurrence.

The first is the set-up of the paper's Table 5. A lemma that SemCor does not have gets WordNet's
first sense.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import NamedTuple

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
    Scores,
    Source,
    Step,
    counted_stage,
    layer_count,
    layer_names,
    occurrence_vectors,
)
from elmokit.analysis.senses import evenly
from elmokit.errors import InputError
from elmokit.io.text_files import find_files
from elmokit.jobs.progress import Observer
from elmokit.static.vectors import unit

BASELINE = "first sense of WordNet"
COSINE_DIGITS = 6  # beyond these, cosines differ by float noise

SenseSums = dict[str, dict[str, NDArray[np.float64]]]
"""Lemma → sense key → the sum (layers, size) of the vectors of its occurrences."""
Answers = list[str | None]  # a sense key for each question; None where there is no answer


@dataclass(frozen=True)
class SenseData:
    """Sentences to learn senses from, test sets by name, and WordNet's senses."""

    train: list[SenseSentence]
    tests: dict[str, list[SenseSentence]]
    index: SenseIndex


def read_sense_data(
    semcor: Sequence[str | Path],
    tests: str | Path,
    senses: str | Path,
    sentences: int | None = None,
) -> SenseData:
    """Read SemCor, so many sentences of each file, a folder of test sets, and `index.sense`."""
    files = find_sense_tests(tests)
    index = read_sense_index(senses)
    read = {name: read_sense_test(*both) for name, both in files.items()}
    return SenseData(read_semcor(find_files(semcor), sentences), read, index)


def occurrences_of(sentences: Iterable[SenseSentence]) -> list[SenseOccurrence]:
    """The occurrences of some sentences, one after another."""
    return [one for sentence in sentences for one in sentence.occurrences]


def probe_word_senses(
    sources: Sequence[Source], data: SenseData, observer: Observer | None = None
) -> ProbeReport:
    """F1 of each layer of each source on each test set, and on all; only sums are in memory."""
    test = list(chain(*data.tests.values()))
    asked = occurrences_of(test)
    train = with_lemmas(data.train, {one.lemma for one in asked})
    answers: dict[str, Answers] = {BASELINE: [data.index.first.get(one.lemma) for one in asked]}
    total = len(sources) * (len(train) + len(test))
    with counted_stage(observer, "embedding", "sentence", total, SENTENCES_AT_A_TIME) as step:
        for source in sources:
            sums = add_up_senses(source, train, step)
            answers |= nearest_senses(source, test, sums, data.index, step)
    seen = {one.lemma for one in occurrences_of(train)}
    columns = columns_of(data)
    asked_of = [asked[part] for part in columns.values()]
    return ProbeReport(
        probe="word sense",
        measure="F1",
        columns=tuple(columns),
        scores={
            name: tuple(f1(given[part], asked[part]) for part in columns.values())
            for name, given in answers.items()
        },
        layers=layer_names(sources),
        counts={
            "words": tuple(map(len, asked_of)),
            "lemma not in SemCor": tuple(
                sum(one.lemma not in seen for one in part) for part in asked_of
            ),
        },
        details={"training occurrences": len(occurrences_of(train))},
    )


def columns_of(data: SenseData) -> dict[str, slice]:
    """Which of all questions are those of each test set; and of all, unless a set is that."""
    ends = accumulate((len(occurrences_of(test)) for test in data.tests.values()), initial=0)
    columns = {name: slice(*of_it) for name, of_it in zip(data.tests, pairwise(ends), strict=True)}
    if len(columns) > 1:
        columns.setdefault(ALL, slice(None))
    return columns


def f1(answers: Answers, asked: Sequence[SenseOccurrence]) -> float:
    """The harmonic mean of precision and recall."""
    right = sum(answer in one.senses for answer, one in zip(answers, asked, strict=True))
    answered = sum(answer is not None for answer in answers)
    return 2 * right / (answered + len(asked))


def with_lemmas(sentences: Iterable[SenseSentence], lemmas: set[str]) -> list[SenseSentence]:
    """The sentences that have one of some lemmas, and only these occurrences in them."""
    kept = (
        SenseSentence(
            sentence.words, tuple(one for one in sentence.occurrences if one.lemma in lemmas)
        )
        for sentence in sentences
    )
    return [sentence for sentence in kept if sentence.occurrences]


def add_up_senses(source: Source, sentences: Sequence[SenseSentence], step: Step) -> SenseSums:
    """The sum of each sense's vectors; to a cosine it is as good as the mean."""
    sums: SenseSums = defaultdict(dict)
    for occurrence, vectors in occurrence_vectors(source, sentences, step):
        of_lemma = sums[occurrence.lemma]
        for sense in occurrence.senses:
            of_lemma[sense] = of_lemma.get(sense, 0.0) + vectors.astype(np.float64)
    return sums


def nearest_senses(
    source: Source,
    sentences: Sequence[SenseSentence],
    sums: SenseSums,
    index: SenseIndex,
    step: Step,
) -> dict[str, Answers]:
    """For each layer by name the nearest sense of each occurrence, or the lemma's first one."""
    rows = layers_of(source)
    answers: dict[str, Answers] = {name: [] for name, _ in rows}
    for occurrence, vectors in occurrence_vectors(source, sentences, step):
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


CHANCE = "chance"
MOST_OF_A_WORD = 200
"""Occurrences of a word that are compared: more would let a few words decide, and fill memory."""
TIE = 1e-5  # cosines no farther apart than this are equal: layer 0 differs by float noise

Shares = NDArray[np.float64]


class OccurrencePlace(NamedTuple):
    """An occurrence in one of some sentences."""

    sentence: int
    alike: int  # the first sentence that has the same words
    occurrence: SenseOccurrence


Word = list[OccurrencePlace]  # the occurrences of a word that are compared


def probe_nearest_sense(
    sources: Sequence[Source],
    sentences: Sequence[SenseSentence],
    most: int = MOST_OF_A_WORD,
    observer: Observer | None = None,
) -> ProbeReport:
    """Compare the occurrences of each word with each other, in each layer of each source.

    Of several that are equally near, each counts by its part; so vectors that do not depend on
    the sentence are as good as chance. Of a word with more than `most` occurrences, so many are
    taken evenly over the text.
    """
    words = ambiguous_words(sentences, most)
    if not words:
        raise InputError("no word has two senses in these sentences of SemCor; give more of them")
    read = len({place.sentence for word in words for place in word})
    total = len(sources) * read
    scores = {CHANCE: averages([same_sense_share(word) for word in words])}
    with counted_stage(observer, "embedding", "sentence", total, SENTENCES_AT_A_TIME) as step:
        for source in sources:
            scores |= nearest_shares(source, sentences, words, step)
    return ProbeReport(
        probe="nearest occurrence",
        measure="same sense",
        columns=("mean over words", "over occurrences"),
        scores=scores,
        layers=layer_names(sources),
        counts={"compared": (len(words), sum(map(len, words)))},
        details={"most of a word": most},
    )


def ambiguous_words(sentences: Sequence[SenseSentence], most: int) -> list[Word]:
    """The words with several senses, in capitals or not; no more than `most` places of each."""
    first: dict[tuple[str, ...], int] = {}
    places: defaultdict[str, Word] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        words = tuple(word.casefold() for word in sentence.words)
        alike = first.setdefault(words, number)
        for one in sentence.occurrences:
            places[" ".join(words[one.start : one.end])].append(OccurrencePlace(number, alike, one))
    chosen = (evenly(of_word, most) for of_word in places.values())
    return [
        word
        for word in chosen
        if not set.intersection(*({*place.occurrence.senses} for place in word))
        and len({place.alike for place in word}) > 1  # sentences
    ]


def nearest_shares(
    source: Source, sentences: Sequence[SenseSentence], words: Sequence[Word], step: Step
) -> dict[str, Scores]:
    """For each layer by name: how often the nearest occurrence has the same sense."""
    vectors = place_vectors(source, sentences, list(chain(*words)), step)
    ends = list(accumulate(map(len, words)))
    shares: dict[str, list[Shares]] = {name: [] for name, _ in layers_of(source)}
    for word, of_word in zip(words, np.split(vectors, ends[:-1], axis=1), strict=True):
        exact = of_word.astype(np.float32)
        for name, of_layer in layers_of(source):
            units = unit(of_layer(exact))
            shares[name].append(same_sense_share(word, units @ units.T))
    return {name: averages(of_layer) for name, of_layer in shares.items()}


def place_vectors(
    source: Source,
    sentences: Sequence[SenseSentence],
    places: Sequence[OccurrencePlace],
    step: Step,
) -> NDArray[np.float16]:
    """The vectors (layers, places, size); in half precision, since all are held at a time."""
    rows: defaultdict[int, list[int]] = defaultdict(list)  # of each sentence that is read
    for row, place in enumerate(places):
        rows[place.sentence].append(row)
    read = [
        SenseSentence(sentences[number].words, tuple(places[row].occurrence for row in of_it))
        for number, of_it in rows.items()
    ]
    vectors = np.empty((layer_count(source), len(places), source.vector_size), np.float16)
    found = occurrence_vectors(source, read, step)
    for row, (_, of_place) in zip(chain(*rows.values()), found, strict=True):
        vectors[:, row] = of_place
    return vectors


def same_sense_share(word: Word, cosines: NDArray[np.float32] | None = None) -> Shares:
    """For each occurrence the share of the nearest others, or of all, that have one of its senses.

    `cosines` are (occurrences, occurrences). Those in the same sentence are not compared.
    """
    sentences = np.array([place.alike for place in word])
    compared = sentences[:, None] != sentences
    if cosines is not None:
        highest = np.where(compared, cosines, -np.inf).max(axis=1, keepdims=True)
        compared &= cosines >= highest - TIE
    senses = [{*place.occurrence.senses} for place in word]
    same = np.array([[bool(one & other) for other in senses] for one in senses])
    return (compared & same).sum(1) / compared.sum(1)


def averages(shares: Sequence[Shares]) -> Scores:
    """The mean of the words' means, and the mean over all occurrences."""
    means = [float(one.mean()) for one in shares]
    return float(np.mean(means)), float(np.concatenate(shares).mean())
