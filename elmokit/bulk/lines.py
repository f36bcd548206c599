r"""The numbered lines of a text, whether a file, a compressed one, or a stream.

Only `\n` ends a line, and one `\r` before it belongs to the end. Whatever else Unicode takes for a
line break (NEL, U+2028, a lone `\r`) stays inside its line. A last line without an end is a line.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from elmokit.errors import FormatError, InputError
from elmokit.text.corpus import Chunk, Errors, chunks_of, read_chunks

BLOCK_BYTES = 1 << 19
STANDARD_INPUT = "-"
ENCODING = "utf-8"
SHOWN = {"utf-8": "UTF-8"}
PROBE = "a\nb"


class TextFile:
    """The lines of a file, plain or `.gz`, `.xz` or `.zst`.

    Attributes:
        path: The file.
        position: Bytes on disk that are read so far, as far as its last line tells.
    """

    def __init__(self, path: Path, errors: Errors, encoding: str = ENCODING) -> None:
        self.path = path
        self.position = 0
        self._errors = errors
        self._encoding = encoding

    def lines(self, start: int = 1) -> Iterator[tuple[int, str]]:
        """The number, from 1, and the text of each line from `start` on.

        Line ends are counted in what comes before; it is not decoded.
        """
        chunk, before = None, 0
        for chunk in self._chunks():
            if chunk.first_line + chunk.contents.count(b"\n") >= start:
                yield from self._lines_of(chunk, before, start)
            self.position = before = chunk.position
        if chunk is None:
            raise no_text(self.path)

    def _lines_of(self, chunk: Chunk, before: int, start: int) -> Iterator[tuple[int, str]]:
        """The lines of a chunk that begins at `before`; each moves the position by its share."""
        text = decoded(chunk, self._errors, self._encoding).removesuffix("\n")
        size, done = chunk.position - before, 0
        for number, line in enumerate(text.split("\n"), chunk.first_line):
            done += len(line) + 1
            self.position = before + size * done // (len(text) + 1)
            if number >= start:
                yield number, line.removesuffix("\r")

    def _chunks(self) -> Iterator[Chunk]:
        return read_chunks(self.path, BLOCK_BYTES)


class TextStream(TextFile):
    """The lines of standard input or of a pipe, which can be read but once."""

    def __init__(self, name: str, errors: Errors, encoding: str = ENCODING) -> None:
        piped_in = name == STANDARD_INPUT
        super().__init__(Path("standard input" if piped_in else name), errors, encoding)
        self._name = name
        self._opened = False

    def _chunks(self) -> Iterator[Chunk]:
        if self._opened:
            raise InputError(f"{self.path}: can be read only once; save it in a file first")
        self._opened = True
        size = 0
        try:
            with self._open() as file:
                for chunk in chunks_of(self.path, file, lambda: 0, BLOCK_BYTES):
                    size += len(chunk.contents)
                    yield chunk._replace(position=size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error})") from error

    def _open(self) -> BinaryIO | nullcontext[BinaryIO]:
        if self._name != STANDARD_INPUT:
            return open(self._name, "rb")
        if sys.stdin is None:
            raise InputError(f"{self.path}: is closed; name a file")
        return nullcontext(sys.stdin.buffer)  # which is not ours to close


def decoded(chunk: Chunk, errors: Errors, encoding: str) -> str:
    """The text of a chunk; an error names the line, and the flags that help."""
    try:
        return chunk.contents.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = chunk.first_line + chunk.contents.count(b"\n", 0, error.start)
        raise FormatError(
            f"{chunk.path}, line {line}: is not {SHOWN.get(encoding, encoding)} ({error.reason}); "
            "name the encoding that it has (--encoding latin-1, for one), or read such bytes as "
            "U+FFFD (--errors replace)"
        ) from None


def known_encoding(name: str) -> str:
    """The usual name of an encoding; refuses one whose lines cannot be told without decoding.

    >>> known_encoding("UTF8"), known_encoding("Latin-1")
    ('utf-8', 'iso8859-1')
    """
    try:
        usual = codecs.lookup(name).name
        if usual == "utf-8-sig":
            return ENCODING  # its mark is never taken for text
        if PROBE.encode(usual) == PROBE.encode(ENCODING):
            return usual
    except (LookupError, ValueError):
        raise InputError(
            f"encoding {name!r} is unknown; name one such as utf-8, latin-1 or cp1252"
        ) from None
    raise InputError(f"encoding {name!r}: cannot be read line by line; convert the text to UTF-8")


def no_text(path: Path) -> InputError:
    """The error about a file with nothing in it."""
    return InputError(f"{path}: holds no text; leave it out, or get it anew")
