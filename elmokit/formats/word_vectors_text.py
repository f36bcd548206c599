"""Static word vectors as text: GloVe's format, and word2vec's with `count size` on its first line.

A line is a word and its numbers, separated by single spaces. A few words of GloVe's largest file
hold spaces themselves, so the numbers are counted from the line's end. A first line of two whole
numbers is word2vec's.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from elmokit.errors import FormatError, InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import write_atomically
from elmokit.formats.word_vector_items import (
    Array,
    PathLike,
    Shape,
    WordVectors,
    check_vectors,
    header_of,
    is_utf8,
)
from elmokit.text.corpus import compression, read_chunks

NUMBER = re.compile(rb"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
LARGEST = float(np.finfo(np.float32).max)


class _Line(NamedTuple):
    path: Path
    number: int
    text: bytes

    def error(self, problem: str) -> FormatError:
        """Say where the problem is, and what to do."""
        place = f"{self.path}, line {self.number}"
        return FormatError(f"{place}: {problem}; mend it or get the file anew")


def read_text_vectors(
    path: Path, keep: Collection[str] | None, progress: Progress | None
) -> WordVectors:
    """Read words and their (words, size) vectors; without `keep`, those of all words."""
    lines = _lines(path, progress)
    line = next(lines, None)
    if line is None:
        raise FormatError(f"{path}: is empty; get the file anew")
    shape = header_of(line.text)
    size = _numbers_at_the_end(line) if shape is None else shape.size
    if 0 in (shape or [size]):
        raise line.error("expected a word and its numbers, or word2vec's count and size")
    if shape is None:
        lines = chain([line], lines)
    found: dict[str, None] = {}
    vectors = bytearray()  # it grows in place: joining arrays at the end needs the memory twice
    for line in lines:
        word, numbers = _split(line, size)
        if word not in found and (keep is None or word in keep):
            found[word] = None
            vectors += _parse(line, numbers).tobytes()
    if shape is not None and shape.words != line.number - 1:
        raise line.error(f"is the last of {line.number - 1} words, where line 1 says {shape.words}")
    return WordVectors(list(found), np.ndarray((len(found), size), np.float32, buffer=vectors))


def is_text(shape: Shape, contents: bytes, named_binary: bool) -> bool:
    """Whether the words behind word2vec's first line are text; else their vectors are binary.

    Args:
        shape: What the first line says.
        contents: What follows it: the first lines, or all.
        named_binary: Whether the file's name says that it is binary: then only good text is text.
    """
    _, *numbers = contents.partition(b"\n")[0].rstrip(b" \r").split(b" ")
    if len(numbers) >= shape.size and all(map(NUMBER.fullmatch, numbers[-shape.size :])):
        return True
    # Damaged text is still text, so that its reader can name the line.
    return not named_binary and not CONTROL.search(contents) and _decodes(contents)


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


def _decodes(contents: bytes) -> bool:
    """Whether this is UTF-8, but for a character that is cut at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(contents)
    except UnicodeDecodeError:
        return False
    return True


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
    check_vectors(refused, words, array)
    # Readers take a byte order mark at the start of a file as no part of its text.
    if not header and words[0].startswith("\ufeff"):
        raise InputError(f"{refused} the first word begins with U+FEFF; write it with a header")
    for word in words:
        if not is_utf8(word) or "\n" in word or not _is_word(word.encode("utf-8")):
            raise InputError(f"{refused} {word!r} would be read as something else; leave it out")
