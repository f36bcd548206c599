"""Static word vectors as word2vec's binary file.

The first line is `count size`, as in its text file. Then, `count` times: a word, a space, and
`size` float32 numbers of four bytes each. The original program puts a line feed behind each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from elmokit.errors import FormatError, InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import write_atomically
from elmokit.formats.word_vector_items import (
    PathLike,
    WordVectors,
    check_vectors,
    header_of,
    is_utf8,
)
from elmokit.text.corpus import compression, read_chunks

NUMBER = np.dtype("<f4")


class _Bytes:
    """The bytes of a file, taken piece by piece."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        self._chunks = read_chunks(path)
        self._path = path
        self._progress = progress
        self._waiting = b""
        self._start = 0

    def until(self, mark: bytes) -> bytes | None:
        """The bytes before the next mark, which is passed over; None where there is none."""
        while (end := self._waiting.find(mark, self._start)) < 0:
            if not self._read_on():
                return None
        taken = self._waiting[self._start : end]
        self._start = end + len(mark)
        return taken

    def take(self, count: int) -> bytes:
        """The next bytes: so many, or all that are left."""
        while len(self._waiting) - self._start < count and self._read_on():
            pass
        taken = self._waiting[self._start : self._start + count]
        self._start += len(taken)
        return taken

    def rest_is_blank(self) -> bool:
        """Whether nothing follows but line ends."""
        while not self._waiting[self._start :].strip():
            self._start = len(self._waiting)
            if not self._read_on():
                return True
        return False

    def _read_on(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._waiting = self._waiting[self._start :] + chunk.contents
        self._start = 0
        if self._progress is not None:
            self._progress(chunk.position, self._path.stat().st_size)
        return True


def read_binary_vectors(
    path: Path, keep: Collection[str] | None, progress: Progress | None
) -> WordVectors:
    """Read words and their (words, size) vectors; without `keep`, those of all words."""
    contents = _Bytes(path, progress)
    shape = header_of(contents.until(b"\n") or b"")
    if shape is None or 0 in shape:
        raise FormatError(f"{path}: does not begin with word2vec's count and size; get it anew")
    found: dict[str, None] = {}
    vectors = bytearray()
    for number in range(1, shape.words + 1):
        place = f"{path}, word {number} of {shape.words}"
        spelling = contents.until(b" ")
        vector = contents.take(NUMBER.itemsize * shape.size)
        if spelling is None or len(vector) < NUMBER.itemsize * shape.size:
            raise FormatError(f"{place}: the file ends in the middle of it; get it anew")
        word = _decoded(spelling.lstrip(b"\n"), place)
        if word not in found and (keep is None or word in keep):
            found[word] = None
            vectors += vector
    if not contents.rest_is_blank():
        raise FormatError(
            f"{path}: goes on after the {shape.words} words that its first line says; get it anew"
        )
    array = np.ndarray((len(found), shape.size), NUMBER, buffer=vectors)
    _check_finite(path, list(found), array)
    return WordVectors(list(found), array.astype(np.float32, copy=False))


def write_binary_vectors(path: PathLike, words: Sequence[str], vectors: ArrayLike) -> None:
    """Write words and their (words, size) vectors, exact to the bit, whole or not at all."""
    array = np.asarray(vectors, dtype=NUMBER)
    refused = f"{path}: not written;"
    if compression(Path(path)):
        raise InputError(f"{refused} the file would not be compressed; leave out the suffix")
    check_vectors(refused, words, array)
    for word in words:
        if not word or not is_utf8(word) or " " in word or "\n" in word:
            raise InputError(f"{refused} {word!r} would be read as something else; leave it out")
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        file.write(b"%d %d\n" % array.shape)
        for word, vector in zip(words, array, strict=True):
            file.write(word.encode("utf-8") + b" " + vector.tobytes() + b"\n")


def _decoded(spelling: bytes, place: str) -> str:
    try:
        word = spelling.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{place}: is not UTF-8 ({error.reason}); get the file anew") from None
    if not word:
        raise FormatError(f"{place}: has no letters; get the file anew")
    return word


def _check_finite(path: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise FormatError(
            f"{path}: the vector of {word!r} has NaN or infinite numbers; get the file anew"
        )
