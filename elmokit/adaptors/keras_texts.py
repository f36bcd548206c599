"""Texts as arrays: Keras on torch carries numbers alone, so it is given their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.adaptors.text_reader import checked_texts
from elmokit.errors import InputError

Bytes = NDArray[np.uint8]


def texts(strings: Sequence[str]) -> Bytes:
    """Make an array (texts, bytes) of texts: their UTF-8, and zeros where a text has ended.

    It is as wide as the longest text; networks take arrays of any width.

    >>> texts(["hi", "é"])
    array([[104, 105],
           [195, 169]], dtype=uint8)
    """
    spellings = [spell(text, number) for number, text in enumerate(checked_texts(strings))]
    array = np.zeros((len(spellings), max(1, *map(len, spellings))), np.uint8)
    for row, spelling in zip(array, spellings, strict=True):
        row[: len(spelling)] = np.frombuffer(spelling, np.uint8)
    return array


def spell(text: str, number: int) -> bytes:
    """A text as UTF-8 without zeros."""
    if "\0" in text:
        raise InputError(f"text {number} has a NUL character, which ends a text here; remove it")
    # Half a pair of surrogates is no character, but the model has its own way with it.
    return text.encode("utf-8", "surrogatepass")


def strings(array: NDArray[Any]) -> list[str]:
    """The texts that an array (texts, bytes) was made of; it may have become one of floats since.

    >>> strings(texts(["hi", "é"]).astype("float32"))
    ['hi', 'é']
    """
    return [read(row.tobytes(), number) for number, row in enumerate(as_bytes(array))]


def as_bytes(array: NDArray[Any]) -> Bytes:
    """Refuse an array that cannot have come from `texts`."""
    if array.ndim != 2:
        raise InputError(
            f"texts are an array (texts, bytes), not one of shape {array.shape}; use texts([…])"
        )
    if array.dtype == np.uint8:
        return array
    found = array.astype(np.uint8)
    if not np.array_equal(found, array):
        raise InputError("the array has numbers that are no bytes; make it with texts([…])")
    return found


def read(row: bytes, number: int) -> str:
    """The text of one row."""
    spelling = row.rstrip(b"\0")
    if b"\0" in spelling:
        raise InputError(f"row {number} goes on behind its end; make the array with texts([…])")
    try:
        return spelling.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InputError(f"row {number} is not UTF-8; make the array with texts([…])") from None
