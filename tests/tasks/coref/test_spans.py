from __future__ import annotations

import random

import pytest

from elmokit.tasks.coref.documents import Span
from elmokit.tasks.coref.network import prune, span_mask


def cross(one: Span, other: Span) -> bool:
    """By the definition: the words are shared, and each has some of its own."""
    mine, theirs = set(range(*one)), set(range(*other))
    return bool(mine & theirs) and bool(mine - theirs) and bool(theirs - mine)


def pruned_by_definition(best_first: list[Span], most: int) -> list[Span]:
    taken: list[Span] = []
    for span in best_first:
        if len(taken) < most and not any(cross(span, other) for other in taken):
            taken.append(span)
    return sorted(taken)


def test_spans_end_with_their_sentence() -> None:
    mask = span_mask([3, 1, 2], longest=4)
    found = {Span(start, start + width + 1) for start, width in mask.nonzero().tolist()}
    assert found == {
        Span(a, b) for low, high in ((0, 3), (3, 4), (4, 6))
        for a in range(low, high) for b in range(a + 1, high + 1)
    }  # fmt: skip


def test_no_span_is_longer_than_the_longest() -> None:
    assert span_mask([5], longest=2).sum(1).tolist() == [2, 2, 2, 2, 1]


def test_nested_spans_are_kept_and_crossing_ones_are_not() -> None:
    best_first = [Span(0, 3), Span(2, 4), Span(1, 2), Span(3, 4)]
    assert prune(best_first, most=9) == [Span(0, 3), Span(1, 2), Span(3, 4)]


def test_the_best_are_kept_in_the_order_of_the_document() -> None:
    assert prune([Span(2, 3), Span(0, 1), Span(1, 2)], most=2) == [Span(0, 1), Span(2, 3)]


@pytest.mark.parametrize("seed", range(20))
def test_pruning_equals_its_definition(seed: int) -> None:
    numbers = random.Random(seed)
    spans = [Span(a, b) for a in range(12) for b in range(a + 1, min(a + 5, 12) + 1)]
    best_first = numbers.sample(spans, len(spans))
    most = numbers.randint(1, 14)
    assert prune(best_first, most) == pruned_by_definition(best_first, most)


def test_no_more_spans_are_looked_at_than_are_needed() -> None:
    best_first = iter([Span(0, 1), Span(1, 2), Span(2, 3)])
    prune(best_first, most=2)
    assert list(best_first) == [Span(2, 3)]
