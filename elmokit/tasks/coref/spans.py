"""The spans of a document that may be mentions, and which of them are worth a second look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from elmokit.tasks.coref.documents import Span


def span_mask(lengths: Sequence[int], longest: int) -> Tensor:
    """Which spans are within one sentence, (words, longest): of 1, 2, … words from each word on.

    >>> span_mask([2, 1], longest=2).tolist()
    [[True, True], [True, False], [True, False]]
    """
    left = [length - place for length in lengths for place in range(length)]
    return torch.arange(1, longest + 1) <= torch.tensor(left, dtype=torch.long).unsqueeze(1)


def prune(spans: Iterable[Span], most: int) -> list[Span]:
    """The first `most` spans that do not cross one taken before, in the order of the document.

    Two spans cross where they overlap and neither is within the other.

    Args:
        spans: Different ones, the best first; no more of them are asked for than are needed.
        most: How many are taken.

    >>> prune([Span(0, 2), Span(1, 3), Span(0, 1)], most=2)
    [Span(start=0, end=1), Span(start=0, end=2)]
    """
    taken: list[Span] = []
    crossing = Crossing()
    for span in spans:
        if not crossing.crosses(span):
            taken.append(span)
            crossing.add(span)
        if len(taken) >= most:
            break
    return sorted(taken)


class Crossing:
    """Spans that were taken, by where they start and end: to look at a few words is enough."""

    def __init__(self) -> None:
        self._last_end: dict[int, int] = {}
        self._first_start: dict[int, int] = {}

    def add(self, span: Span) -> None:
        """Take a span."""
        start, end = span
        self._last_end[start] = max(end, self._last_end.get(start, end))
        self._first_start[end] = min(start, self._first_start.get(end, start))

    def crosses(self, span: Span) -> bool:
        """Whether a span crosses one that was taken."""
        start, end = span
        return any(
            self._last_end.get(place, 0) > end or self._first_start.get(place, start) < start
            for place in range(start + 1, end)
        )
