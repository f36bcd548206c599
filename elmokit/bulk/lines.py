r"""The numbered lines of a text, whether a file, a compressed one, or a stream.

Only `\n` ends a line, and one `\r` before it belongs to the end. Whatever else Unicode takes for a
line break (NEL, U+2028, a lone `\r`) stays inside its line. A last line without an end is a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from elmokit.errors import InputError
from elmokit.text.corpus import Chunk, Errors, chunks_of, read_chunks, text_of

BLOCK_BYTES = 1 << 19
STANDARD_INPUT = "-"


class TextFile:
    """The lines of a UTF-8 file, plain or `.gz`, `.xz` or `.zst`.

    Attributes:
        path: The file.
        position: Bytes on disk that are read so far.
    """

    def __init__(self, path: Path, errors: Errors) -> None:
        self.path = path
        self.position = 0
        self._errors = errors

    def lines(self, start: int = 1) -> Iterator[tuple[int, str]]:
        """The number, from 1, and the text of each line from `start` on.

        Line ends are counted in what comes before; it is not decoded.
        """
        chunk = None
        for chunk in self._chunks():
            self.position = chunk.position
            if chunk.first_line + chunk.contents.count(b"\n") < start:
                continue
            lines = text_of(chunk, self._errors).removesuffix("\n").split("\n")
            for number, line in enumerate(lines, chunk.first_line):
                if number >= start:
                    yield number, line.removesuffix("\r")
        if chunk is None:
            raise no_text(self.path)

    def _chunks(self) -> Iterator[Chunk]:
        return read_chunks(self.path, BLOCK_BYTES)


class TextStream(TextFile):
    """The lines of standard input or of a pipe, which can be read but once."""

    def __init__(self, name: str, errors: Errors) -> None:
        piped_in = name == STANDARD_INPUT
        super().__init__(Path("standard input" if piped_in else name), errors)
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


def no_text(path: Path) -> InputError:
    """The error about a file with nothing in it."""
    return InputError(f"{path}: holds no text; leave it out, or get it anew")
