"""What is found in a sentence or a text: predicates, and their arguments with their places."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from elmokit.errors import InputError
from elmokit.tasks.examples import Offsets, Words, place_of_words
from elmokit.tasks.scores import Counts, SpanScore
from elmokit.tasks.srl.propositions import CONTINUED, VERB
from elmokit.tasks.tags import LabelledSpan, spans


class TaggedWords(NamedTuple):
    """The tags of a sentence beside one predicate."""

    names: tuple[str, ...]
    log_probabilities: tuple[float, ...]  # one for each word


class FoundArgument(NamedTuple):
    """A phrase and its role."""

    role: str
    text: str  # as it stands in the raw text; without one, its words with spaces between them
    first_word: int  # its words are words[first_word:end_word]
    end_word: int
    start: int | None  # text[start:end] of the raw text; None where words were given
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

    def moved(self, by: int) -> FoundPredicate:
        """The same where so many words stand before."""
        arguments = (
            each._replace(first_word=each.first_word + by, end_word=each.end_word + by)
            for each in self.arguments
        )
        return self._replace(word=self.word + by, arguments=tuple(arguments))

    def within(self, text: str, offsets: Sequence[Offsets]) -> FoundPredicate:
        """The same with all places in a raw text, of which `offsets` has those of all words."""
        start, end = offsets[self.word]
        arguments = tuple(_within(each, text, offsets) for each in self.arguments)
        return self._replace(text=text[start:end], start=start, end=end, arguments=arguments)


@dataclass(frozen=True, slots=True)
class RolePrediction:
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


def joined_sentences(sentences: Sequence[RolePrediction]) -> RolePrediction:
    """The predictions of sentences that follow one another, in one."""
    words: list[str] = []
    predicates: list[FoundPredicate] = []
    starts: list[int] = []
    for sentence in sentences:
        starts.append(len(words))
        predicates += [each.moved(len(words)) for each in sentence.predicates]
        words += sentence.words
    return RolePrediction(tuple(words), tuple(predicates), sentences=tuple(starts) or (0,))


def within_text(
    prediction: RolePrediction, text: str, offsets: tuple[Offsets, ...]
) -> RolePrediction:
    """The same with all places in the raw text."""
    predicates = tuple(each.within(text, offsets) for each in prediction.predicates)
    return replace(prediction, predicates=predicates, offsets=offsets)


def found_predicate(
    words: Words, number: int, tagged: TaggedWords, probability: float | None
) -> FoundPredicate:
    """A predicate with the arguments that tags stand for, without places in a text."""
    arguments = tuple(
        found_argument(words, span, tagged)
        for span in spans(tagged.names)
        if span.type not in (VERB, CONTINUED + VERB)
    )
    return FoundPredicate(words[number], number, None, None, probability, arguments)


def found_argument(words: Words, span: LabelledSpan, tagged: TaggedWords) -> FoundArgument:
    """An argument, without its place in a text."""
    role, start, end = span
    probability = math.exp(math.fsum(tagged.log_probabilities[start:end]))
    return FoundArgument(role, " ".join(words[start:end]), start, end, None, None, probability)


def _within(argument: FoundArgument, text: str, offsets: Sequence[Offsets]) -> FoundArgument:
    start, end = place_of_words(offsets, argument.first_word, argument.end_word)
    return argument._replace(text=text[start:end], start=start, end=end)


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
    expected: Sequence[Sequence[LabelledSpan]],
    predicted: Sequence[Sequence[LabelledSpan]],
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


def counted_arguments(phrases: Iterable[LabelledSpan]) -> set[Argument]:
    """The arguments that count, of phrases that do not overlap.

    >>> phrases = ("ARG1", 0, 2), ("V", 2, 3), ("C-ARG1", 3, 6)
    >>> counted_arguments(LabelledSpan(*phrase) for phrase in phrases)
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
