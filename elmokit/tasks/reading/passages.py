"""What a reader learns from: a text, and questions about it whose answers stand in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

from elmokit.tasks.examples import Offsets, Words, place_of_words
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
        return place_of_words(self.offsets, first_word, end_word)


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


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The answer to a question: text[start:end] of what was asked about."""

    answer: str
    start: int
    end: int
    probability: float
    """Among all spans of words that could be answers."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "answer": self.answer,
            "start": self.start,
            "end": self.end,
            "probability": self.probability,
        }
