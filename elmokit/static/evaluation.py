"""How good static vectors are: by what people find alike, and by analogies.

Both follow gensim's `evaluate_word_pairs` and `evaluate_word_analogies`: words are compared in
capitals, the first of several forms counts, only the first 300,000 words are looked at, and what
has a word without a vector is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.formats.fetch import Progress
from elmokit.static.angles import Vectors, unit
from elmokit.static.questions import Question, read_judgements, read_questions
from elmokit.static.vectors import StaticVectors

WORDS_LOOKED_AT = 300_000
COSINES_AT_ONCE = 1 << 24
"""Cosines between questions and words in memory: 64 MB."""


class SimilarityScore(NamedTuple):
    """How well cosines order the pairs of a set as people do."""

    name: str
    spearman: float | None  # None where fewer than two pairs are known, or all are equal
    known: int  # pairs whose words have vectors
    pairs: int


class AnalogyScore(NamedTuple):
    """How many analogies of a section are answered right."""

    section: str
    right: int
    known: int  # questions whose words have vectors
    questions: int

    @property
    def accuracy(self) -> float | None:
        """The share of known questions that are answered right."""
        return self.right / self.known if self.known else None


def similarity_score(vectors: StaticVectors, path: str | Path) -> SimilarityScore:
    """Spearman's correlation of cosines with the judgements in a file."""
    judgements = read_judgements(path)
    rows = _rows_by_capitals(vectors)
    known = [one for one in judgements if {one.first.upper(), one.second.upper()} <= rows.keys()]
    firsts, seconds = (
        unit(vectors.rows([rows[word.upper()] for word in words]))
        for words in ([one.first for one in known], [one.second for one in known])
    )
    cosines = (firsts * seconds).sum(1)
    spearman = rank_correlation(cosines, [one.score for one in known])
    return SimilarityScore(Path(path).name.partition(".")[0], spearman, len(known), len(judgements))


def analogy_scores(
    vectors: StaticVectors, path: str | Path, progress: Progress | None = None
) -> list[AnalogyScore]:
    """Answer the analogies in a file by 3CosAdd: a score for each section, in order.

    The answer to "a is to b as c is to" is the word nearest to b - a + c, each vector at length 1,
    the words of the question excluded.
    """
    questions = read_questions(path)
    rows = _rows_by_capitals(vectors)
    known = [one for one in questions if {word.upper() for word in one[1:]} <= rows.keys()]
    answers = _answers(vectors, rows, known, progress)
    answered = zip(known, answers, strict=True)
    right = Counter(one.section for one, answer in answered if one.answer.upper() == answer)
    of_known = Counter(one.section for one in known)
    asked = Counter(one.section for one in questions)
    return [AnalogyScore(name, right[name], of_known[name], asked[name]) for name in asked]


def total(scores: Sequence[AnalogyScore]) -> AnalogyScore:
    """The scores of all sections in one."""
    return AnalogyScore(
        "total",
        sum(one.right for one in scores),
        sum(one.known for one in scores),
        sum(one.questions for one in scores),
    )


def rank_correlation(first: Sequence[float] | Vectors, second: Sequence[float]) -> float | None:
    """Spearman's correlation of two rows of numbers; None where it is not defined.

    >>> round(rank_correlation([0.1, 0.4, 0.2], [1, 9, 7]), 3)
    1.0
    """
    if len(first) < 2:
        return None
    ranks = np.stack([_ranks(np.asarray(values, np.float64)) for values in (first, second)])
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1)
    return float(centred[0] @ centred[1] / lengths.prod()) if lengths.all() else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value (values,) in order; equal ones share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def _rows_by_capitals(vectors: StaticVectors) -> dict[str, int]:
    """The row of each word in capitals: that of its first form."""
    words = vectors.words[:WORDS_LOOKED_AT]
    return {word.upper(): row for row, word in reversed(list(enumerate(words)))}


def _answers(
    vectors: StaticVectors,
    rows: dict[str, int],
    questions: Sequence[Question],
    progress: Progress | None,
) -> list[str]:
    """The answer to each question, in capitals."""
    capitals = [word.upper() for word in vectors.words[:WORDS_LOOKED_AT]]
    forms: dict[str, list[int]] = {}
    for row, word in enumerate(capitals):
        forms.setdefault(word, []).append(row)
    answers: list[str] = []
    at_once = max(COSINES_AT_ONCE // len(vectors), 1)
    for start in range(0, len(questions), at_once):
        batch = questions[start : start + at_once]
        cosines = vectors.cosines(_sought(vectors, rows, batch))[:, : len(capitals)]
        for row, question in zip(cosines, batch, strict=True):
            for word in question[1:4]:
                row[forms[word.upper()]] = -np.inf
        answers += [capitals[best] for best in cosines.argmax(axis=1).tolist()]
        if progress is not None:
            progress(len(answers), len(questions))
    return answers


def _sought(vectors: StaticVectors, rows: dict[str, int], questions: Sequence[Question]) -> Vectors:
    """Where the answers are to be found, (questions, size)."""
    first, second, third = (
        unit(vectors.rows([rows[one[place].upper()] for one in questions])) for place in (1, 2, 3)
    )
    return second - first + third
