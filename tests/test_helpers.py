"""The helpers that say what tests rely on must themselves be able to fail."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from closeness import TOLERANCE, assert_agree, assert_close, distance

from elmokit.errors import DiskError, ElmoWarning, InputError

LARGE, SMALL = 8.0, 0.001


def test_a_number_may_be_off_by_a_share_of_the_largest_one() -> None:
    assert_close([LARGE, SMALL + 0.9 * TOLERANCE * LARGE], [LARGE, SMALL])
    with pytest.raises(AssertionError, match=r"1 of 2 numbers differ.* the first at \[1\]"):
        assert_close([LARGE, SMALL + 1.1 * TOLERANCE * LARGE], [LARGE, SMALL])


def test_each_layer_of_a_sentence_has_its_own_largest_value() -> None:
    expected = np.stack([np.full((3, 4), LARGE), np.full((3, 4), SMALL)])
    assert_agree([expected * (1 + 0.9 * TOLERANCE)], [expected])
    with pytest.raises(AssertionError, match="12 of 12 numbers differ"):
        assert_agree([expected + 0.5 * TOLERANCE * LARGE], [expected])


def test_float16_may_be_off_by_one_unit_in_the_last_place() -> None:
    expected = np.float16([8, 4, 2])
    next_one = np.nextafter(expected, np.float16(np.inf))
    for found in (next_one, torch.tensor(next_one), next_one.astype(np.float32)):
        assert_close(found, expected)
    with pytest.raises(AssertionError, match="3 of 3 numbers differ"):
        assert_close(expected.astype(np.float32), next_one.astype(np.float32))
    with pytest.raises(AssertionError, match="3 of 3 numbers differ"):
        assert_close(np.nextafter(next_one, np.float16(np.inf)), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_is_close_to_none(value: float) -> None:
    with pytest.raises(AssertionError, match="1 of 2 numbers differ"):
        assert_close([value, 1.0], [2.0, 1.0])
    with pytest.raises(AssertionError, match="numbers differ"):
        assert_close([np.nan], [np.nan])
    assert_close([-np.inf, 1.0], [-np.inf, 1.0])


@pytest.mark.parametrize("found", [np.ones((2, 3)), np.ones((3, 2)), np.ones(6), np.ones((0, 2))])
def test_shapes_and_numbers_of_arrays_must_be_the_same(found: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        assert_close(found, np.ones((1, 3, 2)))
    with pytest.raises(AssertionError):
        assert_agree([found], [np.ones((1, 3, 2))])
    with pytest.raises(ValueError, match="longer"):
        assert_agree([found], [found, found])


def test_a_distance_is_a_share_of_the_largest_value() -> None:
    assert distance([[1.0, LARGE]], [[3.0, LARGE]]) == 2 / LARGE


@pytest.mark.parametrize("kind", [InputError, DiskError, ElmoWarning])
def test_a_message_of_two_lines_fails_whatever_test_meets_it(kind: type[Exception]) -> None:
    with pytest.raises(AssertionError, match=f"the message of {kind.__name__} is"):
        kind("one line\nanother")
    assert str(kind("one line")) == "one line"
