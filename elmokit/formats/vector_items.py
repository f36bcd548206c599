"""What files of vectors hold: sentences, a float array for each, and ids from the input.

Arrays of a file are alike: (words, size), or (layers, words, size); pooled over words they are
(size,), or (layers, size). Item n is the input's line n: a blank line is kept, with no words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.formats.vector_settings import DType

PathLike = str | Path
Array = NDArray[np.float32]


class Item(NamedTuple):
    """One line of the input, to be written."""

    words: Sequence[str] | str  # a sentence: words, or the text
    vectors: NDArray[Any]
    id: str | int | None = None


class SentenceVectors(NamedTuple):
    """One line of the input, as it is read back."""

    sentence: str | None  # words joined by spaces; None where the file does not tell
    vectors: Array  # of the shape it was written with
    id: str | int | None = None


class Line(NamedTuple):
    """An item that is fit to be written."""

    number: int  # from 0
    words: Sequence[str] | str
    vectors: NDArray[Any]  # of the file's dtype, finite, in C order
    id: str | int | None

    @property
    def sentence(self) -> str:
        """Its words joined by spaces, or its text as it is."""
        return self.words if isinstance(self.words, str) else " ".join(self.words)

    def split(self) -> list[str]:
        """Its words."""
        return self.words.split() if isinstance(self.words, str) else list(self.words)


def checked_lines(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], dtype: DType
) -> Iterator[Line]:
    """Number items from 0, their arrays as finite numbers of `dtype` and of one kind of shape."""
    expected: tuple[int | None, ...] | None = None
    for number, item in enumerate(items):
        words, vectors, identity = Item(*item)
        array = np.asarray(vectors)
        place = f"{path}: not written; line {number + 1}"
        found = fixed_dimensions(array, place)
        if expected is None:
            expected = found
        elif found != expected:
            raise InputError(
                f"{place} has vectors of shape {array.shape}, the lines before {describe(expected)}"
            )
        yield Line(number, words, as_finite(array, dtype, place), identity)


def fixed_dimensions(array: NDArray[Any], place: str) -> tuple[int | None, ...]:
    """The shape, with None for the dimension that differs from line to line."""
    if array.ndim not in (1, 2, 3) or not array.shape[-1]:
        raise InputError(
            f"{place} has vectors of shape {array.shape}; give (words, size), "
            "(layers, words, size), or (size,)"
        )
    return (*array.shape[:-2], None, array.shape[-1]) if array.ndim > 1 else array.shape


def describe(dimensions: tuple[int | None, ...]) -> str:
    """A shape whose words are not told.

    >>> describe((3, None, 1024))
    '(3, words, 1024)'
    """
    sizes = ["words" if size is None else str(size) for size in dimensions]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def as_finite(array: NDArray[Any], dtype: DType, place: str) -> NDArray[Any]:
    """The numbers as `dtype`; NaN, infinities and what is too large for it are refused."""
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(array, dtype=dtype)
    if not np.isfinite(converted).all():
        if np.isfinite(array).all():
            raise InputError(f"{place} has numbers that are too large for {dtype}")
        raise InputError(f"{place} has NaN or infinite vectors")
    return converted
