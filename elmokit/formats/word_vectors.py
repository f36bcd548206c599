"""Static word vectors as text: GloVe's format, and word2vec's with `count size` on its first line.

A line is a word and its numbers, separated by single spaces. A few words of GloVe's largest file
hold spaces themselves, so the numbers are counted from the line's end. A first line of two whole
numbers is word2vec's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elmokit.errors import FormatError, InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import write_atomically
from elmokit.text.corpus import compression, read_chunks

PathLike = str | Path
Array = NDArray[np.float32]

NUMBER = re.compile(rb"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
LARGEST = float(np.finfo(np.float32).max)


class WordVectors(NamedTuple):
    """Different words, in the order of their file, and a vector for each."""

    words: list[str]
    vectors: Array  # (words, size)


class _Shape(NamedTuple):
    words: int | None  # None where the first line does not tell
    size: int


class _Line(NamedTuple):
    path: Path
    number: int
    text: bytes

    def error(self, problem: str) -> FormatError:
        """Say where the problem is, and what to do."""
        place = f"{self.path}, line {self.number}"
        return FormatError(f"{place}: {problem}; mend it or get the file anew")


def read_word_vectors(
    path: PathLike, wanted: Collection[str] | None = None, progress: Progress | None = None
) -> WordVectors:
    """Read words and their (words, size) vectors; a word that comes twice keeps its first vector.

    Args:
        path: A text file, plain or compressed, with or without word2vec's first line.
        wanted: Keep these words only, and memory for no others. Letters must match in case. The
            numbers of other words are counted, but not looked at.
        progress: Called with the bytes of the file that are read so far, and with all its bytes.
    """
    if isinstance(wanted, str):
        raise InputError(f"expected a list of words, got {wanted!r}; put it into a list")
    keep = None if wanted is None else frozenset(wanted)
    lines = _lines(Path(path), progress)
    line = next(lines, None)
    if line is None:
        raise FormatError(f"{path}: is empty; get the file anew")
    shape = _shape_of(line)
    if shape.words is None:
        lines = chain([line], lines)
    found: dict[str, None] = {}
    vectors = bytearray()  # it grows in place: joining arrays at the end needs the memory twice
    for line in lines:
        word, numbers = _split(line, shape.size)
        if word not in found and (keep is None or word in keep):
            found[word] = None
            vectors += _parse(line, numbers).tobytes()
    if shape.words not in (None, line.number - 1):
        raise line.error(f"is the last of {line.number - 1} words, where line 1 says {shape.words}")
    array = np.ndarray((len(found), shape.size), np.float32, buffer=vectors)
    return WordVectors(list(found), array)


def write_word_vectors(
    path: PathLike, words: Sequence[str], vectors: ArrayLike, header: bool
) -> None:
    """Write words and their (words, size) vectors, as plain text, whole or not at all.

    Each number has the fewest digits that give the same float32. With `header`, the first line is
    word2vec's `count size`.
    """
    array = np.asarray(vectors, dtype=np.float32)
    _check_writable(path, words, array, header)
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        if header:
            file.write(b"%d %d\n" % array.shape)
        for word, vector in zip(words, array, strict=True):
            file.write(f"{word} {' '.join(map(str, vector))}\n".encode())


def _lines(path: Path, progress: Progress | None) -> Iterator[_Line]:
    number = 0
    for chunk in read_chunks(path):
        for text in chunk.contents.removesuffix(b"\n").split(b"\n"):
            number += 1
            # word2vec itself ends its lines with a space, Windows with a carriage return.
            yield _Line(path, number, text.rstrip(b" \r"))
        if progress is not None:
            progress(chunk.position, path.stat().st_size)


def _shape_of(first: _Line) -> _Shape:
    """What the first line tells: word2vec's says it, GloVe's is a word and its numbers."""
    pieces = first.text.split(b" ")
    if len(pieces) == 2 and all(map(bytes.isdigit, pieces)):
        shape = _Shape(int(pieces[0]), int(pieces[1]))
    else:
        shape = _Shape(None, _numbers_at_the_end(first))
    if 0 in shape:
        raise first.error("expected a word and its numbers, or word2vec's count and size")
    return shape


def _split(line: _Line, size: int) -> tuple[str, bytes]:
    """A line's word, and its numbers as they are written."""
    word, _, numbers = line.text.partition(b" ")
    spaces = line.text.count(b" ")
    if spaces > size:
        word = line.text.rsplit(b" ", size)[0]
        numbers = line.text[len(word) + 1 :]
    if spaces < size or not _is_word(word):
        raise line.error(
            f"has {_numbers_at_the_end(line)} numbers at its end, where a word and {size} numbers "
            "are expected, separated by single spaces"
        )
    try:
        return word.decode("utf-8"), numbers
    except UnicodeDecodeError as error:
        raise line.error(f"is not UTF-8 ({error.reason})") from None


def _is_word(word: bytes) -> bool:
    """Whether the reader can tell a word from what is around it."""
    first, *others = word.split(b" ")
    return bool(first) and all(other and not NUMBER.fullmatch(other) for other in others)


def _numbers_at_the_end(line: _Line) -> int:
    _, *pieces = line.text.split(b" ")
    return len(list(takewhile(NUMBER.fullmatch, reversed(pieces))))


def _parse(line: _Line, numbers: bytes) -> Array:
    """The numbers of a line, all finite, as (size,)."""
    pieces = numbers.split(b" ")
    try:
        with np.errstate(over="ignore"):
            vector = np.array(pieces, dtype=np.float32)
        good = np.isfinite(vector).all() and b"_" not in numbers  # as Python groups digits
    except ValueError:
        good = False
    if not good:
        bad = next(piece for piece in pieces if not _is_finite(piece)).decode("utf-8", "replace")
        raise line.error(f"{bad[:40]!r} is not a finite number")
    return vector


def _is_finite(piece: bytes) -> bool:
    return NUMBER.fullmatch(piece) is not None and abs(float(piece)) <= LARGEST


def _check_writable(path: PathLike, words: Sequence[str], array: Array, header: bool) -> None:
    """Refuse what would not be read back as it is."""
    refused = f"{path}: not written;"
    if compression(Path(path)):
        raise InputError(f"{refused} the file would be plain text; choose a name that ends in .txt")
    if array.ndim != 2 or len(words) != len(array) or 0 in array.shape:
        raise InputError(
            f"{refused} {len(words)} words have vectors of shape {array.shape}; give (words, size)"
        )
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise InputError(f"{refused} the vector of {word!r} has NaN or infinite numbers")
    word, times = Counter(words).most_common(1)[0]
    if times > 1:
        raise InputError(f"{refused} {word!r} comes {times} times; give different words")
    # Readers take a byte order mark at the start of a file as no part of its text.
    if not header and words[0].startswith("\ufeff"):
        raise InputError(f"{refused} the first word begins with U+FEFF; write it with a header")
    for word in words:
        encoded = word.encode("utf-8", "ignore")  # which has no bytes for a lone surrogate
        if encoded.decode("utf-8") != word or "\n" in word or not _is_word(encoded):
            raise InputError(f"{refused} {word!r} would be read as something else; leave it out")
