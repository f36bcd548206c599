"""Vectors as JSON lines: an object for each line of the input."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError
from elmokit.formats.files import write_atomically
from elmokit.formats.vector_file import DAMAGE, VectorFile
from elmokit.formats.vector_items import (
    Item,
    Line,
    PathLike,
    SentenceVectors,
    checked_lines,
)
from elmokit.formats.vector_settings import DEFAULTS, VectorSettings

COMPRESSIONS = ("none",)

NEWLINE = ord("\n")
DESCRIPTION, VECTORS = b', "description": ', b', "vectors": '
KEYS = (b'"shape"', b'"vectors"')
"""Of every line."""
SCANNED_BYTES = 1 << 24
# Inside a JSON text, quotes have a backslash before them.
SENTENCE = re.compile(rb'"sentence": ("[^"\\]*+(?:\\.[^"\\]*+)*+"|null)[,}]')


def write_jsonl(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
) -> None:
    """Write a JSON object for each line: index, id if there is one, sentence, shape, vectors.

    Each number has the fewest digits that tell it from others. Sentences that are not kept are
    null. The first line also has the description of all.
    """
    lines = checked_lines(path, items, settings.dtype)
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        for line in lines:
            start = json.dumps(_without_vectors(line, settings)).removesuffix("}")
            file.write(start.encode("ascii") + VECTORS)
            file.write(f"{as_json(line.vectors)}}}\n".encode("ascii"))


class JsonlVectors(VectorFile):
    """Reads a JSON object from a line, once it has found where the lines are."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with self.path.open("rb") as file:
            # An empty file cannot be mapped into memory.
            empty = not file.read(1)
            self._map = mmap.mmap(-1, 1) if empty else _mapped(file.fileno())
        self._size = 0 if empty else len(self._map)
        self._check_kind()
        self.description = self._description()

    def __len__(self) -> int:
        return len(self._ends)

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number in range(len(self)):
            found = SENTENCE.search(self._map, *self._span(number))
            sentence = json.loads(found[1]) if found else self._checked(number).sentence
            if sentence is not None:
                yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        begin, end = self._span(number)
        try:
            item = json.loads(self._map[begin:end].decode("utf-8"))
            # Nested lists do not tell the size of a vector where there are no words.
            vectors = np.array(item["vectors"], item.get("dtype", "float32")).reshape(item["shape"])
            return SentenceVectors(item["sentence"], vectors, item.get("id"))
        except DAMAGE as error:
            place = f"{self.path}, line {number + 1}"
            why = " ".join(str(error).split())[:200]
            raise FormatError(f"{place}: is no line of vectors ({why})") from error

    def _check_kind(self) -> None:
        """Refuse JSON lines of anything else, such as the text that vectors are made from."""
        end = self._map.find(b"\n") + 1 or self._size
        missing = [name for name in KEYS if self._size and self._map.find(name, 0, end) < 0]
        if missing:
            named = " and ".join(name.decode() for name in missing)
            raise FormatError(
                f"{self.path}: is no file of vectors: its first line has no {named}; name a file "
                "that elmo embed wrote"
            )

    def _description(self) -> dict[str, Any]:
        """What the first line says of all, found without parsing the vectors of that line."""
        end = self._map.find(VECTORS, 0, self._map.find(b"\n") + 1 or self._size)
        begin = self._map.find(DESCRIPTION, 0, max(end, 0))
        if begin < 0:
            return {}
        try:
            return dict(json.loads(self._map[begin + len(DESCRIPTION) : end]))
        except (ValueError, TypeError) as error:
            raise FormatError(f"{self.path}, line 1: is no line of vectors ({error})") from error

    def _close(self) -> None:
        self._map.close()

    def _span(self, number: int) -> tuple[int, int]:
        """Where a line begins and ends."""
        return int(self._ends[number - 1]) if number else 0, int(self._ends[number])

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """The end of each line."""
        ends = []
        for start in range(0, self._size, SCANNED_BYTES):
            block = np.frombuffer(self._map[start : start + SCANNED_BYTES], dtype=np.uint8)
            ends.append(np.flatnonzero(block == NEWLINE) + start + 1)
        if self._size and self._map[self._size - 1] != NEWLINE:
            ends.append(np.array([self._size]))
        return np.concatenate([np.zeros(0, dtype=np.int64), *ends])


def as_json(array: NDArray[Any]) -> str:
    """Nested lists, each number with the fewest digits that give the same number of its dtype.

    >>> as_json(np.array([[0.1, 1.0]], dtype=np.float32))
    '[[0.1, 1.0]]'
    """
    elements = map(str, array) if array.ndim == 1 else map(as_json, array)
    return f"[{', '.join(elements)}]"


def _without_vectors(line: Line, settings: VectorSettings) -> dict[str, Any]:
    described = line.number == 0 and settings.description is not None
    return {
        "index": line.number,
        **({} if line.id is None else {"id": line.id}),
        "sentence": line.sentence if settings.keep_sentences else None,
        "shape": line.vectors.shape,
        # Digits that tell float16 numbers apart are too few to be read as float32.
        **({} if line.vectors.dtype == np.float32 else {"dtype": str(line.vectors.dtype)}),
        **({"description": dict(settings.description or {})} if described else {}),
    }


def _mapped(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
