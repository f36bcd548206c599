"""Passages of reading comprehension: a text, and questions whose answers stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from elmokit.tasks.examples import Offsets, Words
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
