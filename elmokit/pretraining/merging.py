"""The parts of a corpus to one lexicon, and their tokens to its ids."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmokit.formats.fetch import Progress
from elmokit.formats.files import disk_errors
from elmokit.pretraining.parts import TOKEN, Part
from elmokit.pretraining.prepared import COUNT, COUNTS, LEXICON, OFFSET, OFFSETS, TOKENS

ENTRIES_AT_ONCE = 1 << 18
BYTES_AT_ONCE = (
    8 << 20
)  # of words in all streams together; as Python objects they take six times that
LEAST_BLOCK_BYTES = 1 << 12


def merge_parts(parts: Sequence[Part], folder: Path, work: Path, progress: Progress) -> int:
    """Write the lexicon, the tokens and the counts of a corpus; give the number of its types."""
    ids = _IdsOfParts(parts, work / "ids")
    types = _merge_words(parts, ids, folder, progress)
    _write_tokens(parts, ids, types, folder)
    return types


class _IdsOfParts:
    """The corpus id of every word of every part, on disk, filled in the order of the lexicon."""

    def __init__(self, parts: Sequence[Part], path: Path) -> None:
        types = np.array([part.types for part in parts], np.int64)
        self._first = np.cumsum(types) - types
        self._filled = self._first.copy()
        self._ids = _zeros_on_disk(path, TOKEN, int(types.sum()))

    def add(self, parts: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
        """Append ids (entries) to the parts (entries) that they belong to."""
        order = np.argsort(parts, kind="stable")
        occurrences = np.bincount(parts, minlength=len(self._first))
        starts = np.cumsum(occurrences) - occurrences
        sorted_parts = parts[order]
        rank = np.arange(len(parts)) - starts[sorted_parts]
        self._ids[self._filled[sorted_parts] + rank] = ids[order]
        self._filled += occurrences

    def of(self, number: int) -> NDArray[np.int32]:
        """The corpus ids (types + 1) of a part's own ids; its border stays 0."""
        first, end = self._first[number], self._filled[number]
        return np.concatenate([np.zeros(1, TOKEN), self._ids[first:end]])


def _merge_words(parts: Sequence[Part], ids: _IdsOfParts, folder: Path, progress: Progress) -> int:
    """Write each distinct word once, sorted by its bytes, and remember its id for the parts."""
    total = sum(part.types for part in parts)
    merged = 0
    with open(folder / LEXICON, "wb") as lexicon, open(folder / OFFSETS, "wb") as offsets:
        words = _NewWords(lexicon, offsets)
        for entries in _batches(_entries(parts)):
            ids.add(
                np.array([number for _, number in entries], np.int64),
                np.array([words.id_of(word) for word, _ in entries], TOKEN),
            )
            words.write()
            merged += len(entries)
            progress(merged, total)
    return words.types


class _NewWords:
    """Numbers words that come in their order, and writes them with the places where they end."""

    def __init__(self, lexicon: BinaryIO, offsets: BinaryIO) -> None:
        self._lexicon, self._offsets = lexicon, offsets
        self._last = b""
        self._new: list[bytes] = []
        self._end = 0
        self.types = 0
        offsets.write(np.zeros(2, OFFSET).tobytes())  # where the empty word 0 begins and ends

    def id_of(self, word: bytes) -> int:
        """The id of a word that is the last one or comes after it."""
        if word != self._last:
            self._last = word
            self._new.append(word)
            self.types += 1
        return self.types

    def write(self) -> None:
        """Write the words that came since the last time."""
        lengths = np.fromiter(map(len, self._new), OFFSET, len(self._new))
        ends = self._end + np.cumsum(lengths)
        self._lexicon.write(b"".join(self._new))
        self._offsets.write(ends.astype(OFFSET).tobytes())
        self._end += int(lengths.sum())
        self._new.clear()


def _entries(parts: Sequence[Part]) -> Iterator[tuple[bytes, int]]:
    """Every word of every part with the part's number, in the order of their bytes."""
    block = max(BYTES_AT_ONCE // len(parts), LEAST_BLOCK_BYTES)
    streams = (zip(part.words(block), repeat(n), strict=False) for n, part in enumerate(parts))
    return heapq.merge(*streams)


def _batches(entries: Iterable[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    entries = iter(entries)
    while batch := list(islice(entries, ENTRIES_AT_ONCE)):
        yield batch


def _write_tokens(parts: Sequence[Part], ids: _IdsOfParts, types: int, folder: Path) -> None:
    """Write all tokens with the corpus's ids, a border first, and count them."""
    counts = _zeros_on_disk(folder / COUNTS, COUNT, types + 1)
    with open(folder / TOKENS, "wb") as file:
        file.write(np.zeros(1, TOKEN).tobytes())
        for number, part in enumerate(parts):
            tokens, corpus_ids = part.read_tokens(), ids.of(number)
            file.write(corpus_ids[tokens].astype(TOKEN).tobytes())
            counts[corpus_ids] += np.bincount(tokens, minlength=len(corpus_ids))
    counts.flush()


def _zeros_on_disk(path: Path, kind: np.dtype[np.generic], size: int) -> np.memmap:
    """Numbers on disk that can be changed in place."""
    # Written, not reserved: a full disk is an error here, but would end the process later.
    with disk_errors(path, "written"), open(path, "wb") as file:
        for start in range(0, size, ENTRIES_AT_ONCE):
            file.write(np.zeros(min(ENTRIES_AT_ONCE, size - start), kind).tobytes())
    return np.memmap(path, kind, mode="r+", shape=(size,))
