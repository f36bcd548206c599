"""The best way to pair things with one another, each with one at most (Kuhn 1955, Munkres 1957)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]


def largest_assignment(values: Mapping[Pair, float]) -> float:
    """The largest sum of values of pairs (row, column) that share neither row nor column.

    Pairs that are not there are worth 0. What no pair connects is solved apart.

    >>> largest_assignment({(0, 0): 3.0, (0, 1): 2.0, (1, 0): 2.0})
    4.0
    """
    return float(sum(_solve(values, pairs) for pairs in connected(values)))


def connected(pairs: Mapping[Pair, float]) -> list[list[Pair]]:
    """Pairs in groups that share neither row nor column with one another."""
    groups: list[list[Pair]] = []
    of_row: dict[int, list[Pair]] = {}
    of_column: dict[int, list[Pair]] = {}
    for pair in pairs:
        of_row.setdefault(pair[0], []).append(pair)
        of_column.setdefault(pair[1], []).append(pair)
    seen: set[Pair] = set()
    for pair in pairs:
        if pair in seen:
            continue
        seen.add(pair)
        group = [pair]
        for row, column in group:  # which grows on the way
            near = [other for other in of_row[row] + of_column[column] if other not in seen]
            seen.update(near)
            group += dict.fromkeys(near)
        groups.append(group)
    return groups


def _solve(values: Mapping[Pair, float], pairs: list[Pair]) -> float:
    rows = {row: number for number, row in enumerate(dict.fromkeys(row for row, _ in pairs))}
    columns = {
        column: number for number, column in enumerate(dict.fromkeys(column for _, column in pairs))
    }
    matrix = np.zeros((len(rows), len(columns)))
    for row, column in pairs:
        matrix[rows[row], columns[column]] = values[row, column]
    if len(rows) > len(columns):
        matrix = matrix.T
    return sum(matrix[row, column] for row, column in enumerate(best_columns(matrix)))


def best_columns(values: NDArray[np.float64]) -> list[int]:
    """The column for each row of (rows, columns), rows ≤ columns, of which the sum is largest.

    Rows are added one by one; each may push others to columns that cost least to change to.
    Potentials of rows and columns keep every cost at 0 or above, and at 0 where a row has its
    column, so that the cheapest chain of changes is a shortest path.
    """
    rows, columns = values.shape
    costs = values.max(initial=0.0) - values
    row_potential = np.zeros(rows)
    column_potential = np.zeros(columns)
    row_of = np.full(columns, -1)
    for new in range(rows):
        distance = np.full(columns, np.inf)
        before = np.full(columns, -1)  # the column whose row would move here; -1 for the new row
        done = np.zeros(columns, dtype=bool)
        row, column, reached = new, -1, 0.0
        while row >= 0:
            further = reached + costs[row] - row_potential[row] - column_potential
            better = ~done & (further < distance)
            distance[better] = further[better]
            before[better] = column
            column = int(np.where(done, np.inf, distance).argmin())
            done[column] = True
            reached = distance[column]
            row = int(row_of[column])
        done[column] = False
        row_potential[new] += reached
        row_potential[row_of[done]] += reached - distance[done]
        column_potential[done] -= reached - distance[done]
        while column >= 0:
            previous = int(before[column])
            row_of[column] = new if previous < 0 else row_of[previous]
            column = previous
    chosen = {int(row): column for column, row in enumerate(row_of) if row >= 0}
    return [chosen[row] for row in range(rows)]
