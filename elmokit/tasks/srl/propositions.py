"""Sentences and what they say: predicates, and the phrases that are their arguments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.tasks.examples import Words
from elmokit.tasks.tags import LabelledSpan
from elmokit.text.characters import short

VERB = "V"  # the role of the predicate itself
CONTINUED = "C-"
"""What the role of a phrase begins with that continues with an argument which began before."""


@dataclass(frozen=True, slots=True)
class Proposition:
    """A predicate and its arguments."""

    predicate: int
    """The number of its word in the sentence, from 0."""
    phrases: tuple[LabelledSpan, ...] = ()
    """Roles, in the order of the sentence, that of the predicate among them; none where they are to
    be predicted. They do not overlap. An argument in several parts has a phrase for each."""


@dataclass(frozen=True, slots=True)
class RoleSentence:
    """A sentence with its propositions."""

    words: Words
    propositions: tuple[Proposition, ...] | None
    """None where the predicates are to be found."""
    place: str
    others: tuple[int, ...] = ()
    """Predicates whose propositions are in another part of the same sentence."""

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The sentence, once for each predicate: so often the network reads it."""
        return (self.words,) * max(1, len(self.propositions or ()))

    @property
    def predicates(self) -> tuple[int, ...]:
        """All words that are predicates."""
        return (*(each.predicate for each in self.propositions or ()), *self.others)


class WithPredicates(NamedTuple):
    """A text, or the words of a sentence, whose predicates are known."""

    text: str | Sequence[str]
    predicates: Sequence[int | str]
    """Numbers of words, from 0, or words: each is a predicate wherever it occurs, in upper or lower
    case."""


def in_parts(sentence: RoleSentence, most: int) -> list[RoleSentence]:
    """A sentence in parts, each of `most` words, once for each predicate, or of one predicate."""
    propositions = sentence.propositions or ()
    step = max(1, most // max(1, len(sentence.words)))
    if len(propositions) <= step:
        return [sentence]
    parts = []
    for start in range(0, len(propositions), step):
        part = propositions[start : start + step]
        own = {each.predicate for each in part}
        others = tuple(each for each in sentence.predicates if each not in own)
        parts.append(replace(sentence, propositions=part, others=others))
    return parts


def with_found(sentence: RoleSentence, probabilities: Sequence[float]) -> RoleSentence:
    """A sentence with the predicates that are more probable than not, unless it has some given."""
    if sentence.propositions is not None:
        return sentence
    found = (word for word, p in enumerate(probabilities[: len(sentence.words)]) if p > 0.5)
    return RoleSentence(sentence.words, tuple(map(Proposition, found)), sentence.place)


def with_given(
    sentences: Sequence[RoleSentence], predicates: Sequence[int | str], place: str
) -> list[RoleSentence]:
    """Sentences of a text with predicates that are given, by number in the text or as words."""
    starts = list(accumulate((len(each.words) for each in sentences), initial=0))
    words = list(chain.from_iterable(each.words for each in sentences))
    given: list[set[int]] = [set() for _ in sentences]
    for number in numbers_of(predicates, words, place):
        row = bisect_right(starts, number) - 1
        given[row].add(number - starts[row])
    return [
        RoleSentence(each.words, tuple(map(Proposition, sorted(own))), each.place)
        for each, own in zip(sentences, given, strict=True)
    ]


def numbers_of(predicates: Sequence[int | str], words: Sequence[str], place: str) -> Iterator[int]:
    """The numbers of words that are predicates, given by number or as words."""
    if isinstance(predicates, str) or not isinstance(predicates, Sequence):
        raise InputError(
            f"{place}: predicates are {short(predicates)}; give a list of the numbers of words, "
            "from 0, or of words"
        )
    lower = [word.lower() for word in words]
    for given in predicates:
        if isinstance(given, str):
            yield from (n for n, word in enumerate(lower) if word == given.lower())
        elif isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(words):
            raise InputError(
                f"{place}: a predicate is {short(given)}; give the number of a word, of which "
                f"there are {len(words)}, from 0, or a word"
            )
        else:
            yield given
