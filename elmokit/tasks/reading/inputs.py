"""The word vectors of what a reader reads at once: windows of texts, and questions about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.tasks.examples import Words
from elmokit.tasks.inputs import TaskInputs, at_each_word
from elmokit.tasks.reading.passages import Passage, Question
from elmokit.tasks.reading.spans import Window
from elmokit.tasks.word_vectors import WordVectors


class Piece(NamedTuple):
    """A window of a text, and the questions that are asked about it."""

    passage: Passage
    window: Window
    asked: tuple[int, ...]  # their numbers

    @property
    def width(self) -> int:
        """Words that are read."""
        return self.window.end - self.window.first


class Reading(NamedTuple):
    """What a reader reads at once."""

    windows: WordVectors
    questions: WordVectors
    window_rows: Tensor  # (rows,): which window; piece by piece, question by question
    asked_rows: Tensor  # (rows,): which question


class Part(NamedTuple):
    """The words of a sentence that are in a window."""

    sentence: Words
    first: int  # sentence[first:end]
    end: int


def reading_of(
    inputs: TaskInputs, pieces: Sequence[Piece], questions: Sequence[Question]
) -> Reading:
    """The vectors of pieces and of those questions that are asked about them."""
    asked = sorted({number for piece in pieces for number in piece.asked})
    rows = {number: row for row, number in enumerate(asked)}
    window_rows = [row for row, piece in enumerate(pieces) for _ in piece.asked]
    asked_rows = [rows[number] for piece in pieces for number in piece.asked]
    return Reading(
        window_vectors(inputs, pieces),
        inputs([questions[number].words for number in asked]),
        torch.tensor(window_rows, device=inputs.device),
        torch.tensor(asked_rows, device=inputs.device),
    )


def window_vectors(inputs: TaskInputs, pieces: Sequence[Piece]) -> WordVectors:
    """The vectors of windows; ELMo reads sentence by sentence, as it was trained to."""
    parts = [list(parts_of(piece.passage.context, piece.window)) for piece in pieces]
    sentences = list(dict.fromkeys(part.sentence for each in parts for part in each))
    vectors = inputs(sentences)
    width = vectors.mask.shape[1]
    first_rows = {sentence: row * width for row, sentence in enumerate(sentences)}
    places = torch.from_numpy(places_of(parts, first_rows, padding=vectors.mask.numel()))
    return WordVectors(
        at_each_word(vectors.at_input.flatten(0, 1), places),
        None
        if vectors.at_output is None
        else at_each_word(vectors.at_output.flatten(0, 1), places),
        (places < vectors.mask.numel()).to(inputs.device),
    )


def parts_of(context: Sequence[Words], window: Window) -> Iterator[Part]:
    """The sentences of a text that a window holds words of.

    >>> list(parts_of([("a", "b", "c"), ("d",), ("e", "f")], Window(2, 5)))[-1]
    Part(sentence=('e', 'f'), first=0, end=1)
    """
    before = 0
    for sentence in context:
        first = max(window.first - before, 0)
        end = min(window.end - before, len(sentence))
        if first < end:
            yield Part(sentence, first, end)
        before += len(sentence)


def places_of(
    parts: Sequence[Sequence[Part]], first_rows: dict[Words, int], padding: int
) -> NDArray[np.int64]:
    """Where each word of each window stands among all words: (windows, words)."""
    lengths = [sum(part.end - part.first for part in each) for each in parts]
    places = np.full((len(parts), max(lengths)), padding, dtype=np.int64)
    for row, each in zip(places, parts, strict=True):
        at = 0
        for part in each:
            first = first_rows[part.sentence]
            row[at : at + part.end - part.first] = np.arange(first + part.first, first + part.end)
            at += part.end - part.first
    return places
