from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
import pytest
from closeness import EXACT

from elmokit.errors import InputError
from elmokit.tasks.coref.scores import largest_assignment


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (4, 4), (5, 6)])
def test_the_largest_sum_is_that_of_trying_all(shape: tuple[int, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.random(shape) * (random.random(shape) < 0.6)
    rows, columns = shape
    best = max(
        sum(values[row, column] for row, column in enumerate(chosen))
        for chosen in permutations(range(columns), rows)
    )
    pairs = {(int(row), int(column)): values[row, column] for row, column in np.argwhere(values)}
    assert largest_assignment(pairs) == pytest.approx(best, abs=EXACT)


def test_taking_the_largest_pair_first_is_not_always_best() -> None:
    assert largest_assignment({(0, 0): 3.0, (0, 1): 2.9, (1, 0): 2.9}) == pytest.approx(5.8)


def test_more_rows_than_columns_is_the_same_the_other_way_round() -> None:
    values = {(0, 0): 1.0, (1, 0): 3.0, (2, 0): 2.0}
    turned = {(column, row): value for (row, column), value in values.items()}
    assert largest_assignment(values) == largest_assignment(turned) == 3.0


def test_nothing_is_worth_nothing() -> None:
    assert largest_assignment({}) == 0.0


def test_without_scipy_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r'scipy is not .* pip install "elmokit\[tasks\]"'):
        largest_assignment({(0, 0): 1.0})
