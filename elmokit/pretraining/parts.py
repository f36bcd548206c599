"""A chunk of a corpus as ids of its own words, kept on disk until all chunks are merged."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.formats.files import disk_errors, write_atomically

HEADER = np.dtype([("types", "<i8"), ("tokens", "<i8")])
TOKEN = np.dtype("<i4")


@dataclass(frozen=True)
class Part:
    """A file of the tokens of some sentences and, behind them, their words.

    Tokens are ids of the part's words, which are sorted by their bytes and numbered from 1; a 0
    ends each sentence. The words stand a line each: no word has a line break.
    """

    path: Path
    types: int
    tokens: int

    def read_tokens(self) -> NDArray[np.int32]:
        """All tokens (tokens)."""
        with disk_errors(self.path, "read"):
            return np.fromfile(self.path, TOKEN, self.tokens, offset=HEADER.itemsize)

    def words(self, block_bytes: int) -> Iterator[bytes]:
        """The words in their order, read by the block."""
        return chain.from_iterable(self._blocks_of_words(block_bytes))

    def _blocks_of_words(self, block_bytes: int) -> Iterator[list[bytes]]:
        position = HEADER.itemsize + self.tokens * TOKEN.itemsize
        rest = b""
        while block := self._read(position, block_bytes):
            position += len(block)
            *words, rest = (rest + block).split(b"\n")
            yield words

    def _read(self, position: int, size: int) -> bytes:
        # Opened each time: thousands of parts are read at once, more than may be open.
        with disk_errors(self.path, "read"), open(self.path, "rb", buffering=0) as file:
            file.seek(position)
            return file.read(size)


def write_part(sentences: Iterable[list[str]], path: Path) -> None:
    """Number the words of some sentences and write the part; it appears whole or not at all."""
    numbers: defaultdict[str, int] = defaultdict(count(1).__next__)
    tokens = array("i")
    for sentence in sentences:
        tokens.extend(map(numbers.__getitem__, sentence))
        tokens.append(0)
    words = sorted(numbers)  # by code point, which is the order of their UTF-8 bytes too
    sorted_numbers = np.zeros(len(words) + 1, TOKEN)
    sorted_numbers[[numbers[word] for word in words]] = np.arange(1, len(words) + 1)
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        file.write(np.array((len(words), len(tokens)), HEADER).tobytes())
        file.write(sorted_numbers[np.frombuffer(tokens, np.intc)].tobytes())
        file.write("".join(f"{word}\n" for word in words).encode())


def read_part(path: Path) -> Part:
    """What a part's file says of itself."""
    with disk_errors(path, "read"):
        header = np.fromfile(path, HEADER, 1)[0]
    return Part(path, int(header["types"]), int(header["tokens"]))
