"""Questions about a text, and how good answers to them are.

Exact match and F1 are counted as the official evaluation of SQuAD v1.1 does. Numbers are shares
from 0 to 1; only what `describe` and `table` say is in percent.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from elmokit.system import counted
from elmokit.tasks.examples import Offsets, Words
from elmokit.tasks.scores import aligned
from elmokit.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Answer:
    """Words of a text that answer a question."""

    text: str  # as it was given; its words may begin before it or end after it
    first_word: int
    end_word: int


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what people have answered."""

    id: str
    words: Words
    answers: tuple[Answer, ...] = ()  # None where they are to be predicted


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with the questions about it, which share the reading of it."""

    text: str
    context: tuple[Words, ...]  # the words of each of its sentences
    offsets: tuple[Offsets, ...]  # where each word stands in the text
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


ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
QUESTION_WORDS = ("what", "who", "when", "where", "which", "why", "how")
OTHER = "other"


class Answered(NamedTuple):
    """How some questions were answered."""

    questions: int
    exact: float  # summed over the questions
    f1: float  # likewise

    @property
    def exact_match(self) -> float:
        """The share of answers that are what somebody answered, word for word."""
        return self.exact / self.questions

    @property
    def mean_f1(self) -> float:
        """The mean F1 of their words."""
        return self.f1 / self.questions

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"f1": self.mean_f1, "exact_match": self.exact_match, "questions": self.questions}


@dataclass(frozen=True)
class AnswerScore:
    """Exact match and F1 of answers, by the word that asks."""

    by_question_word: Mapping[str, Answered]

    @property
    def total(self) -> Answered:
        """Of all questions."""
        return _sum(self.by_question_word.values())

    @property
    def main(self) -> float:
        """The mean F1."""
        return self.total.mean_f1

    def describe(self) -> str:
        """One line."""
        total = self.total
        return (
            f"F1 {total.mean_f1:.2%}, exact match {total.exact_match:.2%} "
            f"({counted(total.questions, 'question')})"
        )

    def table(self) -> str:
        """A row of F1 and exact match for each word that asks, and one for all."""
        rows = {**self.by_question_word, "all": self.total}
        return aligned(
            [
                ["question", "F1", "exact match", "questions"],
                *(
                    [name, f"{each.mean_f1:.2%}", f"{each.exact_match:.2%}", f"{each.questions:,}"]
                    for name, each in rows.items()
                ),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        words = {name: each.to_dict() for name, each in self.by_question_word.items()}
        return self.total.to_dict() | {"by_question_word": words}


def score_answers(questions: Sequence[Question], answers: Sequence[str]) -> AnswerScore:
    """Compare answers with those of people, one for each question."""
    found: dict[str, list[Answered]] = {name: [] for name in (*QUESTION_WORDS, OTHER)}
    for question, answer in zip(questions, answers, strict=True):
        match = best_match(answer, [each.text for each in question.answers])
        found[question_word(question)].append(match)
    return AnswerScore({name: _sum(each) for name, each in found.items() if each})


def best_match(answer: str, right: Iterable[str]) -> Answered:
    """Exact match and F1 with the nearest right answer, each the best by itself.

    >>> best_match("the Tower", ["Eiffel Tower", "tower."])
    Answered(questions=1, exact=1.0, f1=1.0)
    """
    given = normalised(answer)
    wanted = [normalised(each) for each in right]
    exact = max(float(given == each) for each in wanted)
    return Answered(1, exact, max(f1_of_words(given, each) for each in wanted))


def normalised(answer: str) -> str:
    """An answer in lower case, without punctuation and articles, one space between words.

    >>> normalised(" The U.S. — a  country!")
    'us — country'
    """
    plain = answer.lower().translate(WITHOUT_PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", plain).split())


def f1_of_words(given: str, right: str) -> float:
    """F1 of the words that two normalised answers share, each as often as it is in both.

    Two answers of which nothing is left share no word: 0, though they match exactly.

    >>> f1_of_words("new york city", "york")
    0.5
    """
    given_words, right_words = given.split(), right.split()
    shared = (Counter(given_words) & Counter(right_words)).total()
    if not shared:
        return 0.0
    return 2 * shared / (len(given_words) + len(right_words))


def question_word(question: Question) -> str:
    """The first word of a question that asks.

    >>> question_word(Question("1", ("In", "Which", "year", "?")))
    'which'
    """
    lowered = (word.lower() for word in question.words)
    return next((word for word in lowered if word in QUESTION_WORDS), OTHER)


def _sum(each: Iterable[Answered]) -> Answered:
    return Answered(*map(sum, zip(*each, strict=True)))
