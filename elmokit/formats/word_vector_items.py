"""Words and their static vectors, as every file format of them gives and takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

PathLike = str | Path
Array = NDArray[np.float32]


class WordVectors(NamedTuple):
    """Different words, in the order of their file, and a vector for each."""

    words: list[str]
    vectors: Array  # (words, size)


class Shape(NamedTuple):
    """What word2vec's first line says: how many words there are, and the size of a vector."""

    words: int
    size: int


def header_of(line: bytes) -> Shape | None:
    """Read word2vec's first line, `count size`; None where the line is something else.

    >>> header_of(b"3000000 300")
    Shape(words=3000000, size=300)
    """
    pieces = line.rstrip(b" \r").split(b" ")
    if len(pieces) != 2 or not all(piece.isdigit() and len(piece) < 19 for piece in pieces):
        return None
    return Shape(int(pieces[0]), int(pieces[1]))


def check_vectors(refused: str, words: Sequence[str], vectors: NDArray[np.floating]) -> None:
    """Refuse to write what is no table of (words, size), after what `refused` says."""
    if vectors.ndim != 2 or len(words) != len(vectors) or 0 in vectors.shape:
        raise InputError(
            f"{refused} {len(words)} words have vectors of shape {vectors.shape}; "
            "give (words, size)"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise InputError(f"{refused} the vector of {word!r} has NaN or infinite numbers")
    word, times = Counter(words).most_common(1)[0]
    if times > 1:
        raise InputError(f"{refused} {word!r} comes {times} times; give different words")


def is_utf8(word: str) -> bool:
    """Whether UTF-8 can encode a word: it has no bytes for a lone surrogate."""
    return word.encode("utf-8", "ignore").decode("utf-8") == word
