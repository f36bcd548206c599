"""Scores of clusters: MUC, B³ and CEAFφ4 as the reference scorer of CoNLL has them.

Numbers are shares from 0 to 1, of the counts of all documents together; only what `describe` and
`table` say is in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import Any

import numpy as np

from elmokit.system import import_extra
from elmokit.tasks.coref.documents import Cluster, PronounQuestion, Span
from elmokit.tasks.scores import Counts, aligned

Pair = tuple[int, int]
Clusters = Sequence[Cluster]


def largest_assignment(values: Mapping[Pair, float]) -> float:
    """The largest sum of values of pairs (row, column) that share neither row nor column.

    Pairs that are not there are worth 0.

    >>> largest_assignment({(0, 0): 3.0, (0, 1): 2.0, (1, 0): 2.0})
    4.0
    """
    if not values:
        return 0.0
    optimize = import_extra("scipy.optimize", "tasks")
    # Clusters that share no mention with any other have no row or column: most of a bad prediction.
    rows, columns = (np.unique(each, return_inverse=True)[1] for each in zip(*values, strict=True))
    matrix = np.zeros((rows.max() + 1, columns.max() + 1))
    matrix[rows, columns] = list(values.values())
    return float(matrix[optimize.linear_sum_assignment(matrix, maximize=True)].sum())


@dataclass(frozen=True)
class Shares:
    """Recall and precision, which are shares of different wholes.

    >>> Shares(1, 2, 1, 1).f1
    0.6666666666666666
    """

    recalled: float = 0.0
    expected: float = 0.0
    precise: float = 0.0
    predicted: float = 0.0

    def __add__(self, other: Shares) -> Shares:
        """Those of two sets of documents together."""
        return Shares(*map(add, astuple(self), astuple(other)))

    @property
    def recall(self) -> float:
        """How much of what is there was found; 0 where nothing is there."""
        return self.recalled / self.expected if self.expected else 0.0

    @property
    def precision(self) -> float:
        """How much of what was found is right; 0 where nothing was found."""
        return self.precise / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def to_dict(self) -> dict[str, float]:
        """As plain values for JSON."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


def muc(expected: Clusters, predicted: Clusters) -> Shares:
    """Links (Vilain et al. 1995): how few are missing to make the clusters whole."""
    return Shares(*_links_kept(expected, predicted), *_links_kept(predicted, expected))


def b_cubed(expected: Clusters, predicted: Clusters) -> Shares:
    """Mentions (Bagga and Baldwin 1998): how much of each one's cluster is with it."""
    return Shares(*_overlaps(expected, predicted), *_overlaps(predicted, expected))


def ceaf(expected: Clusters, predicted: Clusters) -> Shares:
    """Entities (Luo 2005, φ4): how alike clusters are, each compared with one other at most."""
    alike = {
        pair: 2 * common / (len(expected[pair[0]]) + len(predicted[pair[1]]))
        for pair, common in _common(expected, predicted).items()
    }
    best = largest_assignment(alike)
    return Shares(best, len(expected), best, len(predicted))


def mentions(expected: Clusters, predicted: Clusters) -> Shares:
    """Mentions as such, whatever they refer to."""
    there = {span for cluster in expected for span in cluster}
    found = {span for cluster in predicted for span in cluster}
    common = len(there & found)
    return Shares(common, len(there), common, len(found))


MEASURES = {"MUC": muc, "B³": b_cubed, "CEAFφ4": ceaf}  # those that the score is the mean of
PLAIN_NAMES = {"MUC": "muc", "B³": "b_cubed", "CEAFφ4": "ceaf_phi4"}


@dataclass(frozen=True)
class CorefScore:
    """How good the clusters of some documents are."""

    by_measure: dict[str, Shares]
    mentions: Shares
    documents: int

    @property
    def main(self) -> float:
        """The mean F1 of the three measures: the score of the CoNLL tasks."""
        return sum(shares.f1 for shares in self.by_measure.values()) / len(self.by_measure)

    def describe(self) -> str:
        """One line."""
        each = ", ".join(f"{name} {shares.f1:.2%}" for name, shares in self.by_measure.items())
        return f"mean F1 {self.main:.2%} ({each}); mentions {self.mentions.f1:.2%}"

    def table(self) -> str:
        """A row of precision, recall and F1 for each measure."""
        return _table("measure", {**self.by_measure, "mentions": self.mentions})

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "f1": self.main,
            **{PLAIN_NAMES[name]: each.to_dict() for name, each in self.by_measure.items()},
            "mentions": self.mentions.to_dict(),
            "documents": self.documents,
        }


def score_clusters(expected: Iterable[Clusters], predicted: Iterable[Clusters]) -> CorefScore:
    """Compare the clusters of documents with what was predicted for them."""
    pairs = list(zip(expected, predicted, strict=True))
    by_measure = {
        name: sum((measure(*pair) for pair in pairs), Shares())
        for name, measure in MEASURES.items()
    }
    return CorefScore(by_measure, sum((mentions(*pair) for pair in pairs), Shares()), len(pairs))


def _links_kept(whole: Clusters, parts: Clusters) -> tuple[float, float]:
    """Links that join each cluster of `whole`, those left by `parts`; and all of them."""
    part_of = {span: number for number, cluster in enumerate(parts) for span in cluster}
    kept = total = 0
    for cluster in whole:
        # A mention that is in no part is a part by itself.
        pieces = {part_of.get(span, span) for span in cluster}
        kept += len(cluster) - len(pieces)
        total += len(cluster) - 1
    return kept, total


def _overlaps(mine: Clusters, theirs: Clusters) -> tuple[float, float]:
    """Summed over mentions, which share of their cluster is in one of `theirs`; all mentions."""
    shared = sum(
        common**2 / len(mine[number]) for (number, _), common in _common(mine, theirs).items()
    )
    return shared, sum(map(len, mine))


def _common(mine: Clusters, theirs: Clusters) -> Counter[tuple[int, int]]:
    """How many mentions two clusters share, where they share any."""
    numbers = {span: number for number, cluster in enumerate(theirs) for span in cluster}
    return Counter(
        (number, numbers[span])
        for number, cluster in enumerate(mine)
        for span in cluster
        if span in numbers
    )


MASCULINE, FEMININE = "masculine", "feminine"


@dataclass(frozen=True)
class GapScore:
    """How many names of pronouns were found, of each gender."""

    by_gender: dict[str, Counts]
    right: int  # rows of which both names are answered rightly
    rows: int

    @property
    def main(self) -> float:
        """F1 over all rows."""
        return self.total.f1

    @property
    def total(self) -> Counts:
        """Of both genders together."""
        return sum(self.by_gender.values(), Counts())

    @property
    def accuracy(self) -> float:
        """The share of rows of which both names are answered rightly."""
        return self.right / self.rows if self.rows else 0.0

    @property
    def bias(self) -> float | None:
        """F1 of feminine pronouns by F1 of masculine ones: 1 where there is none."""
        masculine = self.by_gender[MASCULINE].f1
        return self.by_gender[FEMININE].f1 / masculine if masculine else None

    def describe(self) -> str:
        """One line."""
        genders = ", ".join(f"{name} {counts.f1:.2%}" for name, counts in self.by_gender.items())
        bias = "unknown" if self.bias is None else f"{self.bias:.3f}"
        return (
            f"F1 {self.main:.2%} ({genders}, bias {bias}), accuracy {self.accuracy:.2%} "
            f"({self.right:,} of {self.rows:,} pronouns)"
        )

    def table(self) -> str:
        """A row of precision, recall and F1 for each gender, and one for all."""
        return _table("pronouns", {**self.by_gender, "all": self.total})

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self.total.to_dict() | {
            "accuracy": self.accuracy,
            "bias": self.bias,
            "by_gender": {name: each.to_dict() for name, each in self.by_gender.items()},
            "rows": self.rows,
        }


def score_pronouns(
    questions: Sequence[PronounQuestion], predicted: Iterable[Sequence[Cluster]]
) -> GapScore:
    """Compare the clusters of each question's document with its answer."""
    pairs = [
        (asked.feminine, (asked.names, named_by(asked, clusters)))
        for asked, clusters in zip(questions, predicted, strict=True)
    ]
    by_gender = {
        name: Counts.of_sets(pair for gender, pair in pairs if gender == feminine)
        for name, feminine in ((MASCULINE, False), (FEMININE, True))
    }
    return GapScore(by_gender, sum(right == found for _, (right, found) in pairs), len(pairs))


def named_by(question: PronounQuestion, clusters: Sequence[Cluster]) -> set[Span]:
    """The names, of both, that clusters have the pronoun together with."""
    own = next((set(cluster) for cluster in clusters if question.pronoun in cluster), set())
    return own & {question.first, question.second}


def _table(title: str, rows: Mapping[str, Counts | Shares]) -> str:
    shares = (
        [name, *(f"{share:.2%}" for share in (each.precision, each.recall, each.f1))]
        for name, each in rows.items()
    )
    return aligned([[title, "precision", "recall", "F1"], *shares])
