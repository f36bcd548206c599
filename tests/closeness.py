"""Closeness of computed numbers: what two computations of the same thing promise each other.

- The same shapes in the same kernels (a run and its resume on one machine, a file read back) give
  the same bits. Tests of this compare with `torch.equal` or `np.array_equal`, not with this module.
- Other shapes, another CPU or another implementation add in another order: float32 then agrees
  within `TOLERANCE` of the largest value of the layer, for a sum is as exact as its largest terms,
  however small it is itself.
- Values stored as float16 may then fall on the two sides of a rounding: one unit in the last place
  more.
- float64, in tests that hold formulas against each other, agrees within `EXACT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

TOLERANCE = 1e-5
"""How far float32 may stray, as a share of the largest value."""

EXACT = 1e-12
"""The same of float64."""

CLEARLY = 100 * TOLERANCE
"""No rounding explains a difference this large, as a share of the largest value."""

Numbers = Any
"""A tensor, an array, a number, or a list of numbers."""


def assert_close(found: Numbers, expected: Numbers, within: float = TOLERANCE) -> None:
    """The same shape, and each number within a share of the largest one expected."""
    one, other = as_array(found), as_array(expected)
    assert other.shape in (one.shape, ())  # one number stands for as many as there are
    other = np.broadcast_to(other, one.shape)
    largest = np.abs(other[np.isfinite(other)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        off = np.where(one == other, 0.0, np.abs(one - other))  # infinities may be equal too
    allowed = within * largest + unit_in_the_last_place(found, expected)
    wrong = np.argwhere(~(off <= allowed))  # a NaN is wrong too
    assert not len(wrong), (
        f"{len(wrong)} of {off.size} numbers differ, by {off.max():.3g} at most, where the largest "
        f"is {largest:.6g} and {np.max(allowed):.3g} is allowed; the first at {wrong[0].tolist()}: "
        f"{one[tuple(wrong[0])]!r}, expected {other[tuple(wrong[0])]!r}"
    )


def assert_agree(
    found: Iterable[Numbers], expected: Iterable[Numbers], within: float = TOLERANCE
) -> None:
    """As many arrays as expected, each close: sentences, or the layers of one tensor.

    An array (layers, words, size) is compared layer by layer.
    """
    for one, other in zip(found, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        if np.ndim(one) > 2:
            assert_agree(one, other, within)
        else:
            assert_close(one, other, within)


def distance(found: Sequence[Numbers], expected: Sequence[Numbers]) -> float:
    """The largest difference in two lists of arrays, as a share of the largest value expected."""
    largest = max(np.abs(as_array(one)).max(initial=0.0) for one in expected)
    pairs = zip(found, expected, strict=True)
    return max(np.abs(as_array(a) - as_array(b)).max(initial=0.0) for a, b in pairs) / largest


def as_array(numbers: Numbers) -> np.ndarray:
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu().double().numpy()
    return np.asarray(numbers, dtype=np.float64)


def unit_in_the_last_place(found: Numbers, expected: Numbers) -> np.ndarray | float:
    """Of the larger of each two values, where either is float16; else nothing."""
    halves = (np.float16, torch.float16)
    if not any(getattr(numbers, "dtype", None) in halves for numbers in (found, expected)):
        return 0.0
    larger = np.maximum(np.abs(as_array(found)), np.abs(as_array(expected)))
    return np.spacing(larger.astype(np.float16)).astype(np.float64)
