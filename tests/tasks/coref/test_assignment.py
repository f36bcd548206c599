from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from closeness import EXACT

from elmokit.tasks.coref.assignment import best_columns, connected, largest_assignment


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (4, 4), (5, 6)])
def test_the_best_columns_are_those_of_trying_all(shape: tuple[int, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.random(shape) * (random.random(shape) < 0.6)
    rows, columns = shape
    best = max(
        sum(values[row, column] for row, column in enumerate(chosen))
        for chosen in permutations(range(columns), rows)
    )
    found = best_columns(values)
    assert len(set(found)) == rows
    assert values[np.arange(rows), found].sum() == pytest.approx(best, abs=EXACT)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_assignment_equals_that_of_scipy(seed: int) -> None:
    optimise = pytest.importorskip("scipy.optimize", reason="scipy is of an extra")
    values = np.random.default_rng(seed).random((60, 80))
    rows, columns = optimise.linear_sum_assignment(values, maximize=True)
    found = best_columns(values)
    assert values[np.arange(60), found].sum() == pytest.approx(values[rows, columns].sum())


def test_taking_the_largest_pair_first_is_not_always_best() -> None:
    assert largest_assignment({(0, 0): 3.0, (0, 1): 2.9, (1, 0): 2.9}) == pytest.approx(5.8)


def test_more_rows_than_columns_is_the_same_the_other_way_round() -> None:
    values = {(0, 0): 1.0, (1, 0): 3.0, (2, 0): 2.0}
    turned = {(column, row): value for (row, column), value in values.items()}
    assert largest_assignment(values) == largest_assignment(turned) == 3.0


def test_nothing_is_worth_nothing() -> None:
    assert largest_assignment({}) == 0.0


def test_pairs_without_a_common_row_or_column_are_apart() -> None:
    pairs = {(0, 0): 1.0, (2, 2): 1.0, (1, 0): 1.0, (1, 3): 1.0}
    assert [sorted(group) for group in connected(pairs)] == [[(0, 0), (1, 0), (1, 3)], [(2, 2)]]
