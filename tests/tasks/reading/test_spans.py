from __future__ import annotations

import itertools
import math

import pytest
import torch
from closeness import assert_close
from torch import Tensor

from elmokit.tasks.examples import words_between
from elmokit.tasks.reading.network import (
    SpanScores,
    Window,
    best_spans,
    right_spans,
    shared_loss,
    windows_of,
)
from elmokit.tasks.reading.questions import Answer, Question


def random_scores(lengths: tuple[int, ...], seed: int, values: int | None = None) -> SpanScores:
    """Scores of rows; of few different values, there are ties."""
    generator = torch.Generator().manual_seed(seed)
    width = max(lengths)

    def scores() -> Tensor:
        if values is not None:
            return torch.randint(values, (len(lengths), width), generator=generator).float()
        return torch.randn(len(lengths), width, generator=generator)

    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    # On padding stands what would win.
    start, end = (each.masked_fill(~mask, 50.0) for each in (scores(), scores()))
    return SpanScores(start, end, mask)


def legal_spans(length: int, longest: int) -> list[tuple[int, int]]:
    every = itertools.product(range(length), repeat=2)
    return [(first, last) for first, last in every if first <= last < first + longest]


@pytest.mark.parametrize("longest", [1, 2, 3, 17])
@pytest.mark.parametrize("values", [None, 2])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_span_is_that_of_brute_force(seed: int, values: int | None, longest: int) -> None:
    lengths = (7, 1, 4, 2)
    scores = random_scores(lengths, seed, values)

    best = best_spans(scores, longest)

    for row, length in enumerate(lengths):
        spans = {
            (first, last): (scores.start[row, first] + scores.end[row, last]).item()
            for first, last in legal_spans(length, longest)
        }
        highest = max(spans.values())
        # Of the best ones the first, and of those the shortest.
        expected = min(span for span, value in spans.items() if value == highest)
        assert (best.first[row].item(), best.last[row].item()) == expected
        assert best.score[row].item() == highest
        total = math.log(math.fsum(map(math.exp, spans.values())))
        assert_close(best.total[row], total)


@pytest.mark.parametrize(
    ("words", "window", "overlap"), [(1, 4, 1), (4, 4, 1), (5, 4, 1), (23, 7, 3)]
)
def test_every_span_that_fits_the_overlap_is_whole_in_a_window(
    words: int, window: int, overlap: int
) -> None:
    windows = windows_of(words, window, overlap)

    assert windows[0].first == 0
    assert windows[-1].end == words
    assert len(set(windows)) == len(windows)
    assert {each.end - each.first for each in windows} == {min(words, window)}
    for first, last in legal_spans(words, overlap + 1):
        assert any(each.first <= first and last < each.end for each in windows)


def test_answers_are_found_in_the_windows_that_hold_them_whole() -> None:
    windows = [Window(0, 6), Window(4, 10), Window(8, 14)]
    question = Question("q", ("who",), (Answer("", 4, 6), Answer("", 5, 7), Answer("", 12, 13)))
    assert right_spans(question, windows) == {0: [(4, 6)], 1: [(0, 2), (1, 3)], 2: [(4, 5)]}


def test_an_answer_that_no_window_holds_is_cut() -> None:
    windows = [Window(0, 6), Window(4, 10), Window(8, 14)]
    question = Question("q", ("who",), (Answer("", 5, 12),))
    assert right_spans(question, windows) == {0: [(5, 6)], 1: [(1, 6)]}


def test_the_loss_is_shared_by_the_windows_of_a_question() -> None:
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    right = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 1], [1, 0, 0]], dtype=torch.bool)
    rows = [1, 0, 0, 2]

    losses = shared_loss(scores, right, mask, rows)

    e = scores.exp()
    first = (e[2, 0] + e[2, 2]) / (e[1, 0] + e[1, 1] + e[2].sum())
    expected = -torch.stack([first, e[0, 1] / e[0].sum(), torch.tensor(1.0)]).log()
    assert_close(losses, expected)


def test_a_window_without_the_answer_learns_to_be_silent() -> None:
    scores = torch.zeros(2, 2, requires_grad=True)
    right = torch.tensor([[True, False], [False, False]])

    shared_loss(scores, right, torch.ones_like(right), [0, 0]).sum().backward()  # type: ignore[no-untyped-call]

    assert_close(scores.grad, torch.tensor([[-0.75, 0.25], [0.25, 0.25]]))


def test_words_between_offsets() -> None:
    offsets = [(0, 3), (4, 9), (9, 10), (12, 14)]
    assert words_between(offsets, 0, 3) == (0, 1)
    assert words_between(offsets, 2, 5) == (0, 2)
    assert words_between(offsets, 9, 14) == (2, 4)
    assert words_between(offsets, 10, 12) == (3, 3)
    assert words_between(offsets, 20, 30) == (4, 4)
