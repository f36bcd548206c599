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


def prune(
    spans: Sequence[Span], order: Iterable[int], most: int, given: Iterable[int] = ()
) -> list[int]:
    """The numbers of the first `most` spans in an order that do not cross one taken before.

    Two spans cross where they overlap and neither is within the other.

    Args:
        spans: All there are.
        order: Their numbers, the best first.
        most: How many are taken.
        given: Those that are taken first, whatever they cross.

    Returns:
        Numbers, in the order of the document.
    """
    taken = dict.fromkeys(given)
    crossing = Crossing()
    for number in taken:
        crossing.add(spans[number])
    for number in order:
        if len(taken) >= most:
            break
        if number not in taken and not crossing.crosses(spans[number]):
            taken[number] = None
            crossing.add(spans[number])
    return sorted(taken, key=lambda number: spans[number])


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
