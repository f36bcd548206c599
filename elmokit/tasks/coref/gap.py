"""How well pronouns are resolved, and those of which gender better: the measure of GAP.

A pronoun refers to a name where both are in one cluster. Both names of every row count (Webster et
al. 2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elmokit.tasks.coref.documents import Cluster, PronounQuestion
from elmokit.tasks.scores import Counts, aligned

MASCULINE, FEMININE = "masculine", "feminine"


@dataclass(frozen=True)
class GapScore:
    """How many names of pronouns were found, of each gender."""

    by_gender: dict[str, Counts]
    right: int
    """Rows of which both names are answered rightly."""
    rows: int

    @property
    def main(self) -> float:
        """F1 over all rows."""
        return self.total.f1

    @property
    def total(self) -> Counts:
        """Of both genders together."""
        each = self.by_gender.values()
        return Counts(
            correct=sum(counts.correct for counts in each),
            predicted=sum(counts.predicted for counts in each),
            expected=sum(counts.expected for counts in each),
        )

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
        rows = [
            [name, *(f"{share:.2%}" for share in (each.precision, each.recall, each.f1))]
            for name, each in {**self.by_gender, "all": self.total}.items()
        ]
        return aligned([["pronouns", "precision", "recall", "F1"], *rows])

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
    answers = [answer(*pair) for pair in zip(questions, predicted, strict=True)]
    both = list(zip(questions, answers, strict=True))
    return GapScore(
        {
            name: _counts([pair for pair in both if pair[0].feminine == feminine])
            for name, feminine in ((MASCULINE, False), (FEMININE, True))
        },
        sum((asked.is_first, asked.is_second) == found for asked, found in both),
        len(both),
    )


def answer(question: PronounQuestion, clusters: Sequence[Cluster]) -> tuple[bool, bool]:
    """Whether clusters have the pronoun together with the first name, and with the second."""
    own = next((set(cluster) for cluster in clusters if question.pronoun in cluster), set())
    return question.first in own, question.second in own


def _counts(rows: Sequence[tuple[PronounQuestion, tuple[bool, bool]]]) -> Counts:
    pairs = [
        pair
        for asked, found in rows
        for pair in zip((asked.is_first, asked.is_second), found, strict=True)
    ]
    return Counts(
        correct=sum(right and found for right, found in pairs),
        predicted=sum(found for _, found in pairs),
        expected=sum(right for right, _ in pairs),
    )
