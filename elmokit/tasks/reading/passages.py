"""What a reader learns from: a text, and questions about it whose answers stand in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from elmokit.tasks.examples import Words
from elmokit.tasks.predictions import Offsets
from elmokit.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Answer:
    """Words of a text that answer a question."""

    text: str
    """As it was given; its words may begin before it or end after it."""
    first_word: int
    end_word: int


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what people have answered."""

    id: str
    words: Words
    answers: tuple[Answer, ...] = ()
    """None where they are to be predicted."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with the questions about it, which share the reading of it."""

    text: str
    context: tuple[Words, ...]
    """The words of each of its sentences."""
    offsets: tuple[Offsets, ...]
    """Where each word stands in the text."""
    questions: tuple[Question, ...]
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """Those of the text, then the questions."""
        return (*self.context, *(question.words for question in self.questions))

    def between(self, first_word: int, end_word: int) -> Offsets:
        """Where some words, one or more, begin and end in the text."""
        return self.offsets[first_word][0], self.offsets[end_word - 1][1]


def read_passage(text: str, tokenizer: Tokenizer, place: str) -> Passage:
    """A text about which nothing is asked yet."""
    sentences = tokenizer.sentences(text)
    return Passage(
        text,
        context=tuple(tuple(token.text for token in tokens) for tokens in sentences),
        offsets=tuple((token.start, token.end) for token in chain.from_iterable(sentences)),
        questions=(),
        place=place,
    )


def words_between(offsets: Sequence[Offsets], start: int, end: int) -> tuple[int, int]:
    """The first and the end of the words that text[start:end] touches; the same where none is.

    >>> words_between([(0, 3), (4, 9), (9, 10)], 5, 10)
    (1, 3)
    """
    first = bisect_right(offsets, start, key=lambda each: each[1])
    return first, max(first, bisect_left(offsets, end, key=lambda each: each[0]))
