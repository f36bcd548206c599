"""Reading comprehension: questions about a text, answered with words of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from elmokit.errors import InputError
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.examples import Labels, groups_within
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.reading.network import (
    ReadingNetwork,
    SpanScores,
    TextWindow,
    Window,
    WordSpan,
    best_spans,
    reading_of,
    right_spans,
    shared_loss,
    windows_of,
    windows_without,
)
from elmokit.tasks.reading.questions import (
    AnswerScore,
    Passage,
    Question,
    read_passage,
    score_answers,
)
from elmokit.tasks.task import EMPTY_TEXT, ParsedInput, Prediction, Task, TaskModel, words_of
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

MOST_QUESTIONS = 10
"""Questions about one text that are read together: those of a book would fill the memory."""
WORDS_AT_ONCE = 16384
"""Words of windows that are only read at once, padding too, each for every question about it."""


class Candidate(NamedTuple):
    """The best span of one window for one question."""

    score: float
    total: float  # log of the sum over all spans of the window
    span: WordSpan  # in the whole text


@dataclass(frozen=True, slots=True)
class AnswerPrediction(Prediction):
    """The answer to a question: text[start:end] of what was asked about."""

    answer: str
    start: int
    end: int
    probability: float  # among all spans of words that could be answers
    marks_text: ClassVar[bool] = False

    def to_text(self) -> str:
        """The answer, and its probability."""
        return f"{' '.join(self.answer.split())}  ({self.probability:.1%})"

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


Answers = tuple[AnswerPrediction, ...]  # one for each question about a text


class ReadingTask(Task[Passage, ReadingNetwork, Answers]):
    """Answers to questions: spans of a text, which is encoded once for all questions about it."""

    kind = "reading"

    def __init__(self, config: TaskConfig, labels: Labels) -> None:
        super().__init__(config, labels)
        self._last: tuple[str, Passage] | None = None  # what was split last, and by what

    @classmethod
    def group_of(cls, example: Passage) -> Hashable:
        """Its text, which may be in a file twice."""
        return example.text

    def for_training(self, examples: Sequence[Passage]) -> list[Passage]:
        """The same, those with many questions in parts."""
        return [part for passage in examples for part in in_parts(passage)]

    def make_network(self, sizes: Sizes) -> ReadingNetwork:
        """BiDAF with self-attention."""
        return ReadingNetwork(sizes, self.config.network)

    def windows(self, passage: Passage) -> list[Window]:
        """The windows that a text is read in."""
        network = self.config.network
        return windows_of(len(passage.offsets), network.window, network.overlap)

    def loss(self, model: TaskModel[ReadingNetwork], examples: Sequence[Passage]) -> Tensor:
        """-log p of the answers' first and last words, the mean over questions."""
        pieces = list(self.training_pieces(examples))
        reading = reading_of(model.inputs, pieces, questions_of(examples))
        scores: SpanScores = model.network(*reading)
        starts, ends = right_words(pieces, scores.mask)
        rows = reading.asked_rows.tolist()
        losses = shared_loss(scores.start, starts, scores.mask, rows)
        losses = losses + shared_loss(scores.end, ends, scores.mask, rows)
        return losses.mean()

    def training_pieces(self, examples: Sequence[Passage]) -> Iterator[TextWindow]:
        """What a step reads: of each question windows with an answer, and a random one without."""
        number = 0
        for passage in examples:
            windows = self.windows(passage)
            asked: list[dict[int, Sequence[WordSpan]]] = [{} for _ in windows]
            for question in passage.questions:
                right = right_spans(question, windows)
                for chosen in training_windows(right, windows_without(question, windows)):
                    asked[chosen][number] = right.get(chosen, ())
                number += 1
            for window, answers in zip(windows, asked, strict=True):
                if answers:
                    yield TextWindow(passage, window, tuple(answers), tuple(answers.values()))

    def guess(self, model: TaskModel[ReadingNetwork], examples: Sequence[Passage]) -> list[Answers]:
        """The best answer to each question, over all windows of its text."""
        questions = questions_of(examples)
        found: list[list[Candidate]] = [[] for _ in questions]
        for pieces in groups_within(WORDS_AT_ONCE, self.all_pieces(examples), padded_words):
            for number, candidate in self.candidates(model, pieces, questions):
                found[number].append(candidate)
        candidates = iter(found)
        return [
            tuple(answer_of(passage, next(candidates)) for _ in passage.questions)
            for passage in examples
        ]

    def predict_batches(
        self, examples: Sequence[Passage], answers: Callable[[Sequence[Passage]], list[Answers]]
    ) -> list[Answers]:
        """The answers, all that ask about a text being one example: it is read for some at once."""
        by_text: dict[str, list[int]] = {}
        for number, passage in enumerate(examples):
            by_text.setdefault(passage.text, []).append(number)
        joined = [
            replace(examples[some[0]], questions=questions_of(examples[n] for n in some))
            for some in by_text.values()
        ]
        found: dict[int, Answers] = {}
        for numbers, some in zip(by_text.values(), answers(joined), strict=True):
            rest = iter(some)
            for number in numbers:
                found[number] = tuple(islice(rest, len(examples[number].questions)))
        return [found[number] for number in range(len(examples))]

    def all_pieces(self, examples: Sequence[Passage]) -> Iterator[TextWindow]:
        """Every window of every text, for all questions about it, some of them at once."""
        number = 0
        for passage in examples:
            numbers = tuple(range(number, number + len(passage.questions)))
            number += len(numbers)
            for window in self.windows(passage):
                for start in range(0, len(numbers), MOST_QUESTIONS):
                    yield TextWindow(passage, window, numbers[start : start + MOST_QUESTIONS])

    def candidates(
        self,
        model: TaskModel[ReadingNetwork],
        pieces: Sequence[TextWindow],
        questions: Sequence[Question],
    ) -> Iterator[tuple[int, Candidate]]:
        """The best span of each window for each question about it, whose number comes with it."""
        reading = reading_of(model.inputs, pieces, questions)
        best = best_spans(model.network(*reading), self.config.network.longest_answer)
        begins = [piece.window.first for piece in pieces for _ in piece.asked]
        rows = zip(*(part.tolist() for part in best), strict=True)
        asked = chain.from_iterable(piece.asked for piece in pieces)
        for number, begin, (score, first, last, total) in zip(asked, begins, rows, strict=True):
            yield number, Candidate(score, total, (begin + first, begin + last + 1))

    def score(self, examples: Sequence[Passage], guesses: Sequence[Answers]) -> AnswerScore:
        """Exact match and F1."""
        answers = [each.answer for answers in guesses for each in answers]
        return score_answers(questions_of(examples), answers)

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A question, and the text that it is about."""
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise InputError(f"{place}: is {short(item)}; write (question, text)")
        asked, text = item
        if not isinstance(text, str):
            raise InputError(f"{place}: asks about {short(text)}; give a text")
        passage = self._passage(text, tokenizer, place)
        if not passage.offsets:
            problem = f"{place}: asks about a text that has no words; give one that has"
            raise InputError(problem, EMPTY_TEXT)
        words = words_of(asked, tokenizer, place)
        if not words:
            raise InputError(f"{place}: the question has no words; ask something", EMPTY_TEXT)
        return ParsedInput([replace(passage, questions=(Question(place, words),))], text)

    def _passage(self, text: str, tokenizer: Tokenizer, place: str) -> Passage:
        """A text that is asked about; most questions are about the same as the one before."""
        last = self._last  # which another thread may replace meanwhile
        if last is None or (last[0], last[1].text) != (tokenizer.name, text):
            last = self._last = tokenizer.name, read_passage(text, tokenizer, place)
        return replace(last[1], place=place)

    def merge_predictions(
        self, parsed: ParsedInput, predictions: Sequence[Answers]
    ) -> AnswerPrediction:
        """The one answer."""
        del parsed
        [[answer]] = predictions
        return answer


def questions_of(passages: Iterable[Passage]) -> tuple[Question, ...]:
    """Those about all texts, in their order."""
    return tuple(question for passage in passages for question in passage.questions)


def in_parts(passage: Passage) -> list[Passage]:
    """A text with its questions; several times, if there are many."""
    questions = passage.questions
    return [
        replace(passage, questions=questions[start : start + MOST_QUESTIONS])
        for start in range(0, len(questions), MOST_QUESTIONS)
    ]


def training_windows(right: Iterable[int], others: Sequence[int]) -> list[int]:
    """The windows that hold an answer, and one of those without, where there is one."""
    holding = list(right)
    if others:
        holding.append(others[int(torch.randint(len(others), ()))])
    return sorted(holding)


def right_words(pieces: Sequence[TextWindow], mask: Tensor) -> tuple[Tensor, Tensor]:
    """Where answers begin, and their last words: (rows, words) bool each."""
    starts, ends = torch.zeros_like(mask), torch.zeros_like(mask)
    for row, spans in enumerate(chain.from_iterable(piece.right for piece in pieces)):
        for first, end in spans:
            starts[row, first] = True
            ends[row, end - 1] = True
    return starts, ends


def padded_words(pieces: Sequence[TextWindow]) -> int:
    """Words that are read at once for some pieces, padding too."""
    longest = max(piece.window.end - piece.window.first for piece in pieces)
    return sum(len(piece.asked) for piece in pieces) * longest


def answer_of(passage: Passage, candidates: Sequence[Candidate]) -> AnswerPrediction:
    """The best span of all windows of a text."""
    best = max(candidates, key=lambda candidate: candidate.score)
    first_word, end_word = best.span
    start, end = passage.offsets[first_word][0], passage.offsets[end_word - 1][1]
    highest = max(candidate.total for candidate in candidates)
    total = math.fsum(math.exp(candidate.total - highest) for candidate in candidates)
    probability = math.exp(best.score - highest) / total
    return AnswerPrediction(passage.text[start:end], start, end, probability)
