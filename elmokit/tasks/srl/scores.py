"""How many arguments were found, counted as the evaluation of the CoNLL-2005 shared task does it.

An argument is right if all its phrases and its role are. The phrases of roles such as C-ARG1 go on
with the last argument of role ARG1 before them, and are one argument with it; where there is none,
they begin one of role ARG1. The predicate itself does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmokit.errors import InputError
from elmokit.tasks.scores import Counts, SpanScore
from elmokit.tasks.srl.propositions import CONTINUED, VERB
from elmokit.tasks.tags import Span


class Argument(NamedTuple):
    """An argument: its role, and where each of its phrases begins and ends."""

    role: str
    phrases: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class RoleScore:
    """How many arguments were found whole and with the right role."""

    arguments: SpanScore
    propositions: int
    """How many predicates there are."""
    perfect: int
    """Those with all of their arguments, and none besides."""
    predicates: Counts
    """How many predicates were found. Arguments are scored beside the right ones, found or not."""

    @property
    def main(self) -> float:
        """F1 over the arguments of all roles together."""
        return self.arguments.main

    def describe(self) -> str:
        """One line."""
        share = self.perfect / self.propositions if self.propositions else 0.0
        return (
            f"{self.arguments.describe()}; {share:.2%} of {self.propositions:,} predicates without "
            f"a mistake; predicates found with F1 {self.predicates.f1:.2%}"
        )

    def table(self) -> str:
        """A row of precision, recall and F1 for each role, and one for all."""
        return self.arguments.table()

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self.arguments.to_dict() | {
            "propositions": self.propositions,
            "perfect": self.perfect,
            "predicates": self.predicates.to_dict(),
        }


def score_roles(
    expected: Sequence[Sequence[Span]],
    predicted: Sequence[Sequence[Span]],
    predicates: Counts,
) -> RoleScore:
    """Compare the phrases beside each predicate with what was predicted.

    Args:
        expected: The right phrases, for each predicate.
        predicted: Those that were predicted for the same predicates.
        predicates: How many of these were found.
    """
    if not expected:
        raise InputError("there are no predicates to score; give at least one")
    there, found, right = Counter[str](), Counter[str](), Counter[str]()
    perfect = 0
    for expected_phrases, predicted_phrases in zip(expected, predicted, strict=True):
        expected_arguments = counted_arguments(expected_phrases)
        predicted_arguments = counted_arguments(predicted_phrases)
        there.update(each.role for each in expected_arguments)
        found.update(each.role for each in predicted_arguments)
        right.update(each.role for each in expected_arguments & predicted_arguments)
        perfect += expected_arguments == predicted_arguments
    roles = sorted(there | found)
    by_role = {role: Counts(right[role], found[role], there[role]) for role in roles}
    return RoleScore(SpanScore(by_role), len(expected), perfect, predicates)


def counted_arguments(phrases: Iterable[Span]) -> set[Argument]:
    """The arguments that count, of phrases that do not overlap.

    >>> counted_arguments([Span("ARG1", 0, 2), Span("V", 2, 3), Span("C-ARG1", 3, 6)])
    {Argument(role='ARG1', phrases=((0, 2), (3, 6)))}
    """
    found: list[Argument] = []
    last: dict[str, int] = {}
    for role, start, end in sorted(phrases, key=lambda phrase: phrase.start):
        base = role.removeprefix(CONTINUED)
        if base != role and base in last:
            before = found[last[base]]
            found[last[base]] = Argument(base, (*before.phrases, (start, end)))
        else:
            last[base] = len(found)
            found.append(Argument(base, ((start, end),)))
    return {argument for argument in found if argument.role != VERB}


def found_predicates(expected: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> Counts:
    """How many of the predicates of each sentence were found."""
    pairs = [(set(right), set(guess)) for right, guess in zip(expected, found, strict=True)]
    return Counts(
        correct=sum(len(right & guess) for right, guess in pairs),
        predicted=sum(len(guess) for _, guess in pairs),
        expected=sum(len(right) for right, _ in pairs),
    )
