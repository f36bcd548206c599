"""Scores of predictions: accuracy of labels, F1 of entities by the CoNLL rule.

Numbers are shares from 0 to 1; only what `describe` and `table` say is in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass
from itertools import chain
from operator import add
from typing import Any, Protocol

from elmokit.tasks.examples import Labels
from elmokit.tasks.tags import shown_type, spans


class Score(Protocol):
    """What a task is judged by, on one set of examples."""

    @property
    def main(self) -> float:
        """The number that early stopping watches; the higher the better."""

    def describe(self) -> str:
        """One line."""

    def table(self) -> str:
        """Several lines: how good it is class by class."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""


@dataclass(frozen=True)
class Counts:
    """What precision and recall are made of.

    A share of nothing is 0: the precision of a class that is never predicted, for example.

    >>> Counts(correct=2, predicted=4, expected=2).f1
    0.6666666666666666
    """

    correct: int = 0
    predicted: int = 0
    expected: int = 0

    @classmethod
    def of_sets(cls, pairs: Iterable[tuple[Set[Any], Set[Any]]]) -> Counts:
        """Compare what is there with what was predicted, both for each sentence or document."""
        each = (cls(len(right & found), len(found), len(right)) for right, found in pairs)
        return sum(each, cls())

    def __add__(self, other: Counts) -> Counts:
        """Those of two classes together."""
        return Counts(*map(add, astuple(self), astuple(other)))

    @property
    def precision(self) -> float:
        """How much of what was predicted is right."""
        return _share(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """How much of what is there was predicted."""
        return _share(self.correct, self.expected)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _share(2 * self.correct, self.predicted + self.expected)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        names = ("precision", "recall", "f1", "correct", "predicted", "expected")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Accuracy:
    """How many labels are right, and which were taken for which."""

    names: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]
    """`matrix[expected][predicted]`: how often, by the numbers of the labels."""
    unit: str = "texts"
    """What has a label: texts, pairs, words."""

    @property
    def main(self) -> float:
        """The accuracy."""
        return _share(self.correct, self.total)

    @property
    def correct(self) -> int:
        """How many are right."""
        return sum(row[number] for number, row in enumerate(self.matrix))

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(map(sum, self.matrix))

    @property
    def by_class(self) -> dict[str, Counts]:
        """Precision and recall of each label."""
        predicted = [sum(column) for column in zip(*self.matrix, strict=True)]
        return {
            name: Counts(row[number], predicted[number], sum(row))
            for number, (name, row) in enumerate(zip(self.names, self.matrix, strict=True))
        }

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels that occur, expected or predicted, each counting the same."""
        classes = [each for each in self.by_class.values() if each.expected or each.predicted]
        return _share(sum(each.f1 for each in classes), len(classes))

    def confusions(self) -> list[tuple[str, str, int]]:
        """What was taken for what and how often, the most frequent mistake first."""
        mistakes = [
            (expected, predicted, count)
            for expected, row in zip(self.names, self.matrix, strict=True)
            for predicted, count in zip(self.names, row, strict=True)
            if count and expected != predicted
        ]
        return sorted(mistakes, key=lambda mistake: -mistake[2])

    def describe(self) -> str:
        """One line."""
        return (
            f"accuracy {self.main:.2%} ({self.correct:,} of {self.total:,} {self.unit}), "
            f"macro F1 {self.macro_f1:.2%}"
        )

    def table(self) -> str:
        """A row of precision, recall and F1 for each label."""
        return _table_of_counts("label", self.by_class)

    def confusion_table(self) -> str:
        """The matrix as text: a row for what is right, a column for what was predicted."""
        header = ["right \\ predicted", *self.names]
        rows = [
            [name, *(f"{count:,}" for count in row)]
            for name, row in zip(self.names, self.matrix, strict=True)
        ]
        return aligned([header, *rows])

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "accuracy": self.main,
            "macro_f1": self.macro_f1,
            "correct": self.correct,
            "total": self.total,
            "unit": self.unit,
            "by_class": _plain(self.by_class),
            "labels": list(self.names),
            "confusion": [list(row) for row in self.matrix],
        }


@dataclass(frozen=True)
class SpanScore:
    """How many entities were found complete and with the right type."""

    by_type: Mapping[str, Counts]

    @property
    def main(self) -> float:
        """F1 over the entities of all types together (micro average)."""
        return self.total.f1

    @property
    def total(self) -> Counts:
        """Over all types together."""
        return sum(self.by_type.values(), Counts())

    def describe(self) -> str:
        """One line."""
        total = self.total
        return (
            f"F1 {total.f1:.2%} (precision {total.precision:.2%}, recall {total.recall:.2%}); "
            f"{total.correct:,} right of {total.predicted:,} predicted and {total.expected:,} there"
        )

    def table(self) -> str:
        """A row of precision, recall and F1 for each type of entity, and one for all."""
        return _table_of_counts("type", {**self.by_type, "all": self.total})

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self.total.to_dict() | {"by_type": _plain(self.by_type)}


def score_labels(
    labels: Labels, expected: Sequence[str], predicted: Sequence[str], unit: str = "texts"
) -> Accuracy:
    """Compare the labels of texts or pairs with what was predicted for them."""
    counts = Counter(zip(labels.numbers(expected), labels.numbers(predicted), strict=True))
    size = range(len(labels))
    matrix = tuple(tuple(counts[row, column] for column in size) for row in size)
    return Accuracy(labels.names, matrix, unit)


def score_words(
    labels: Labels, expected: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]
) -> Accuracy:
    """Compare the tags of sentences with what was predicted for them, word by word."""
    there, found = (list(chain.from_iterable(tags)) for tags in (expected, predicted))
    return score_labels(labels, there, found, unit="words")


def score_spans(expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScore:
    """Compare the entities of tagged sentences, each read by the CoNLL rule in any scheme.

    An entity is right if one of the same type has the same first and last word. Tags that no scheme
    allows (an I-PER after O) still stand for entities, on both sides, as in the shared task.
    """
    pairs = zip(expected, predicted, strict=True)
    return SpanScore(
        count_by_type((set(spans(right)), set(spans(found))) for right, found in pairs)
    )


def count_by_type(pairs: Iterable[tuple[Set[Any], Set[Any]]]) -> dict[str, Counts]:
    """Compare sets of what is there with what was predicted; what is first in each is its type."""
    there, found, right = Counter[str](), Counter[str](), Counter[str]()
    for expected, predicted in pairs:
        for counter, some in (
            (there, expected), (found, predicted), (right, expected & predicted),
        ):  # fmt: skip
            counter.update(shown_type(each[0]) for each in some)
    types = sorted(there | found)
    return {name: Counts(right[name], found[name], there[name]) for name in types}


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def _plain(counts: Mapping[str, Counts]) -> dict[str, Any]:
    return {name: each.to_dict() for name, each in counts.items()}


def _table_of_counts(title: str, counts: Mapping[str, Counts]) -> str:
    header = [title, "precision", "recall", "F1", "expected", "predicted", "correct"]
    rows = [
        [
            name,
            *(f"{share:.2%}" for share in (each.precision, each.recall, each.f1)),
            *(f"{count:,}" for count in (each.expected, each.predicted, each.correct)),
        ]
        for name, each in counts.items()
    ]
    return aligned([header, *rows])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines of text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )
