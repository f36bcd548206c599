"""Windows of a long text, and the best answer in them: a span of words that is legal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.tasks.reading.passages import Question

WordSpan = tuple[int, int]
"""The first word, and the one after the last."""


class Window(NamedTuple):
    """Words of a text that are read together: words[first:end]."""

    first: int
    end: int


class SpanScores(NamedTuple):
    """What a reader gives the words of windows: how well an answer begins or ends there."""

    start: Tensor  # (rows, words)
    end: Tensor  # (rows, words)
    mask: Tensor  # (rows, words) bool, False on padding


class BestSpans(NamedTuple):
    """The best legal span of each row."""

    score: Tensor  # (rows,): that of its start and that of its end, added
    first: Tensor  # (rows,)
    last: Tensor  # (rows,): its last word
    total: Tensor  # (rows,): log of the sum of exp(score) over all legal spans


def windows_of(words: int, window: int, overlap: int) -> list[Window]:
    """Windows over so many words, each beginning before the one before it ends.

    The last is as long as the others: it reaches back to be.

    >>> [tuple(each) for each in windows_of(10, 6, 2)], tuple(windows_of(11, 6, 2)[-1])
    ([(0, 6), (4, 10)], (5, 11))
    """
    starts = [*range(0, max(words - window, 0), window - overlap), max(words - window, 0)]
    return [Window(first, min(first + window, words)) for first in starts]


def right_spans(question: Question, windows: Sequence[Window]) -> dict[int, list[WordSpan]]:
    """Where a question's answers are in those windows that hold one, counted from their beginning.

    An answer that no window holds whole is cut where the windows end that hold its beginning.
    """
    whole = {
        number: spans
        for number, window in enumerate(windows)
        if (spans := _spans_in(question, window))
    }
    return whole or {
        number: spans
        for number, window in enumerate(windows)
        if (spans := _cut_spans_in(question, window))
    }


def windows_without(question: Question, windows: Sequence[Window]) -> list[int]:
    """The windows that no word of an answer is in."""
    return [
        number
        for number, window in enumerate(windows)
        if all(
            answer.end_word <= window.first or window.end <= answer.first_word
            for answer in question.answers
        )
    ]


def _spans_in(question: Question, window: Window) -> list[WordSpan]:
    return [
        (answer.first_word - window.first, answer.end_word - window.first)
        for answer in question.answers
        if window.first <= answer.first_word and answer.end_word <= window.end
    ]


def _cut_spans_in(question: Question, window: Window) -> list[WordSpan]:
    return [
        (answer.first_word - window.first, min(answer.end_word, window.end) - window.first)
        for answer in question.answers
        if window.first <= answer.first_word < window.end
    ]


def best_spans(scores: SpanScores, longest: int) -> BestSpans:
    """The span of each row that scores best among those of one to `longest` words.

    Of several that score the same, the one that begins first, and of those the shortest.
    """
    start = scores.start.masked_fill(~scores.mask, -torch.inf)
    end = scores.end.masked_fill(~scores.mask, -torch.inf)
    # (rows, words, longest): a span by its first word, and by how many words follow that.
    ends = functional.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    spans = (start.unsqueeze(-1) + ends).flatten(1)
    best = spans.argmax(1)
    first = best // longest
    return BestSpans(
        spans.gather(1, best.unsqueeze(1)).squeeze(1),
        first,
        first + best % longest,
        spans.logsumexp(1),
    )


def shared_loss(scores: Tensor, right: Tensor, mask: Tensor, rows: Sequence[int]) -> Tensor:
    """-log p of the right words, p being shared by all windows of a question: (questions,).

    Where there are several right words, because people answered differently, it is the p of any
    (Clark and Gardner 2018: the sum objective, with shared normalisation).

    Args:
        scores: (rows, words).
        right: (rows, words) bool; of each question at least one is.
        mask: (rows, words) bool, False on padding.
        rows: The number of each row's question, from 0, none left out.
    """
    places = _places(rows)
    shape = (max(rows) + 1, max(place for _, place in places) + 1, scores.shape[1])
    # The smallest number, and not -inf: a window without the answer would have no gradient at all.
    least = torch.finfo(scores.dtype).min
    at = tuple(torch.tensor(places, device=scores.device).unbind(1))

    def of_questions(which: Tensor) -> Tensor:
        everywhere = scores.new_full(shape, least)
        chosen = scores.masked_fill(~which, least)
        return everywhere.index_put(at, chosen).flatten(1).logsumexp(1)

    return of_questions(mask) - of_questions(right & mask)


def _places(rows: Sequence[int]) -> list[tuple[int, int]]:
    """The question of each row, and how many rows of that question come before."""
    seen: dict[int, int] = {}
    places = []
    for question in rows:
        places.append((question, seen.get(question, 0)))
        seen[question] = seen.get(question, 0) + 1
    return places
