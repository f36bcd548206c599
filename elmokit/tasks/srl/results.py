"""Predictions and scores of semantic roles: predicates, and their arguments with their places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from elmokit.tasks.examples import Offsets, Words
from elmokit.tasks.scores import Counts, SpanScore, count_by_type
from elmokit.tasks.srl.propositions import CONTINUED, VERB
from elmokit.tasks.tags import LabelledSpan, spans
from elmokit.tasks.task import ParsedInput, Prediction

WordSpan = tuple[int, int]
"""The first word of a phrase, and the one after its last."""


class TaggedPredicate(NamedTuple):
    """A predicate and the BIO tags of its sentence beside it."""

    word: int  # its number in the sentence
    probability: float | None  # None where it was given
    tags: tuple[str, ...]
    log_probabilities: tuple[float, ...]  # of each tag


class FoundArgument(NamedTuple):
    """A phrase and its role: the fields of a `TextSpan` are between these and its probability."""

    role: str
    text: str
    first_word: int
    end_word: int
    start: int | None
    end: int | None
    probability: float  # of the tags of all its words


class FoundPredicate(NamedTuple):
    """A predicate and its arguments."""

    text: str
    word: int  # its number
    start: int | None
    end: int | None
    probability: float | None  # None where it was given
    arguments: tuple[FoundArgument, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict() | {"arguments": [each._asdict() for each in self.arguments]}


@dataclass(frozen=True, slots=True)
class RolePrediction(Prediction):
    """The predicates of a sentence or a text, in their order."""

    words: Words
    predicates: tuple[FoundPredicate, ...]
    offsets: tuple[Offsets, ...] | None = None
    """Where each word stands in the raw text; None where words were given."""
    sentences: tuple[int, ...] = (0,)
    """The first word of each sentence."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        values: dict[str, Any] = {"words": list(self.words)}
        if self.offsets is not None:
            values["offsets"] = [list(each) for each in self.offsets]
        return values | {"predicates": [each.to_dict() for each in self.predicates]}

    def to_text(self) -> str:
        """A line for each predicate: its sentence, with brackets around it and its arguments.

        A sentence without any predicate is shown as it is.

        >>> he = FoundArgument("ARG0", "He", 0, 1, None, None, 1.0)
        >>> sold = FoundPredicate("sold", 1, None, None, None, (he,))
        >>> RolePrediction(("He", "sold", "."), (sold,)).to_text()
        '[ARG0 He] [V sold] .'
        """
        lines: list[str] = []
        for first, end in pairwise((*self.sentences, len(self.words))):
            own = [each for each in self.predicates if first <= each.word < end]
            plain = " ".join(self.words[first:end])
            lines += [self._line(each, first, end) for each in own] or [plain]
        return "\n".join(lines)

    def _line(self, predicate: FoundPredicate, begin: int, stop: int) -> str:
        """The words from `begin` to `stop`, with brackets around a predicate and its arguments."""
        words = list(self.words)
        marked = [(each.role, each.first_word, each.end_word) for each in predicate.arguments]
        for role, first, end in ((VERB, predicate.word, predicate.word + 1), *marked):
            words[first] = f"[{role} {words[first]}"
            words[end - 1] += "]"
        return " ".join(words[begin:stop])


def found_predicate(
    parsed: ParsedInput, words: Words, begin: int, tagged: TaggedPredicate
) -> FoundPredicate:
    """A predicate of the sentence that begins at the word `begin`, with its arguments."""
    arguments = tuple(
        FoundArgument(
            role,
            *parsed.locate(words, begin + first, begin + end),
            probability=math.exp(math.fsum(tagged.log_probabilities[first:end])),
        )
        for role, first, end in spans(tagged.tags)
        if role not in (VERB, CONTINUED + VERB)
    )
    number = begin + tagged.word
    text, _, _, start, end = parsed.locate(words, number, number + 1)
    return FoundPredicate(text, number, start, end, tagged.probability, arguments)


@dataclass(frozen=True)
class RoleScore(SpanScore):
    """How many arguments were found complete and with the right role; by role, `by_type`."""

    propositions: int
    """How many predicates there are."""
    perfect: int
    """Those with all of their arguments, and none besides."""
    predicates: Counts
    """How many predicates were found. Arguments are scored beside the right ones, found or not."""

    def describe(self) -> str:
        """One line."""
        share = self.perfect / self.propositions if self.propositions else 0.0
        return (
            f"{super().describe()}; {share:.2%} of {self.propositions:,} predicates without "
            f"a mistake; predicates found with F1 {self.predicates.f1:.2%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return super().to_dict() | {
            "propositions": self.propositions,
            "perfect": self.perfect,
            "predicates": self.predicates.to_dict(),
        }


def score_roles(
    expected: Sequence[Sequence[LabelledSpan]],
    predicted: Sequence[Sequence[LabelledSpan]],
    predicates: Counts,
) -> RoleScore:
    """Compare the phrases beside each predicate with what was predicted for the same ones."""
    pairs = [
        (counted_arguments(right), counted_arguments(found))
        for right, found in zip(expected, predicted, strict=True)
    ]
    perfect = sum(right == found for right, found in pairs)
    return RoleScore(count_by_type(pairs), len(pairs), perfect, predicates)


def counted_arguments(phrases: Iterable[LabelledSpan]) -> set[tuple[str, tuple[WordSpan, ...]]]:
    """The arguments that count, of phrases that do not overlap: roles, and where the phrases are.

    >>> phrases = ("ARG1", 0, 2), ("V", 2, 3), ("C-ARG1", 3, 6)
    >>> counted_arguments(LabelledSpan(*phrase) for phrase in phrases)
    {('ARG1', ((0, 2), (3, 6)))}
    """
    found: list[tuple[str, list[WordSpan]]] = []
    last: dict[str, list[WordSpan]] = {}
    for role, start, end in sorted(phrases, key=lambda phrase: phrase.start):
        base = role.removeprefix(CONTINUED)
        if base == role or base not in last:
            last[base] = []
            found.append((base, last[base]))
        last[base].append((start, end))
    return {(role, tuple(places)) for role, places in found if role != VERB}
