"""Vectors as JSON lines: an object for each line of the input."""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError
from elmokit.io.files import write_atomically
from elmokit.vectors.items import (
    DEFAULTS,
    Item,
    PathLike,
    SentenceVectors,
    VectorFile,
    VectorSettings,
    checked_items,
    damage_of,
    parse_object,
)

NEWLINE = ord("\n")
SCANNED_BYTES = 1 << 24
# Inside a JSON text, quotes have a backslash before them.
SENTENCE = re.compile(rb'"sentence": ("[^"\\]*+(?:\\.[^"\\]*+)*+"|null)[,}]')


def write_jsonl(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], settings: VectorSettings = DEFAULTS
) -> None:
    """Write a JSON object for each line: index, id if there is one, sentence, shape, vectors.

    Each number has the fewest digits that tell it from others. Sentences that are not kept are
    null. The first line also has the description of all.
    """
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        for number, item in enumerate(checked_items(path, items, settings.dtype)):
            start = json.dumps(_without_vectors(number, item, settings)).removesuffix("}")
            file.write(f'{start}, "vectors": {as_json(item.vectors)}}}\n'.encode("ascii"))


class JsonlVectors(VectorFile):
    """Reads a JSON object from a line, once it has found where the lines are."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with self.path.open("rb") as file:
            self._size = os.fstat(file.fileno()).st_size
            # An empty file cannot be mapped into memory.
            mapped = (file.fileno(), 0) if self._size else (-1, 1)
            self._map = mmap.mmap(*mapped, access=mmap.ACCESS_READ)
        if self._size:
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
        with damage_of(f"{self.path}, line {number + 1}"):
            begin, end = self._span(number)
            item = parse_object(self._map[begin:end], "text")
            return SentenceVectors(item["sentence"], _vectors(item), item.get("id"))

    def _description(self) -> dict[str, Any]:
        """What the first line says of all; raises where that is of something else than vectors."""
        with damage_of(f"{self.path}, line 1"):
            first = parse_object(self._map[: self._map.find(b"\n") + 1 or self._size], "text")
            description = first.get("description", {})
            if not isinstance(description, dict):
                raise ValueError("its description is not a JSON object")
        missing = [repr(name) for name in ("shape", "vectors") if name not in first]
        if missing:
            raise FormatError(
                f"{self.path}: is not a file of vectors: its first line has no "
                f"{' and '.join(missing)}; name a file that elmo embed wrote"
            )
        return description

    def _close(self) -> None:
        self._map.close()

    def _span(self, number: int) -> tuple[int, int]:
        return int(self._ends[number - 1]) if number else 0, int(self._ends[number])

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        ends = []
        for start in range(0, self._size, SCANNED_BYTES):
            block = np.frombuffer(self._map[start : start + SCANNED_BYTES], dtype=np.uint8)
            ends.append(np.flatnonzero(block == NEWLINE) + start + 1)
        if self._size and self._map[self._size - 1] != NEWLINE:
            ends.append(np.array([self._size]))
        return np.concatenate([np.zeros(0, dtype=np.int64), *ends])


def _vectors(item: Mapping[str, Any]) -> NDArray[Any]:
    """What a line has in nested lists, which without words do not tell the size of a vector."""
    try:
        return np.array(item["vectors"], item.get("dtype", "float32")).reshape(item["shape"])
    except TypeError as error:  # of NumPy: values of another kind
        raise ValueError(str(error)) from error


def as_json(array: NDArray[Any]) -> str:
    """Nested lists, each number with the fewest digits that give the same number of its dtype.

    >>> as_json(np.array([[0.1, 1.0]], dtype=np.float32))
    '[[0.1, 1.0]]'
    """
    elements = map(str, array) if array.ndim == 1 else map(as_json, array)
    return f"[{', '.join(elements)}]"


def _without_vectors(number: int, item: Item, settings: VectorSettings) -> dict[str, Any]:
    described = number == 0 and settings.description is not None
    return {
        "index": number,
        **({} if item.id is None else {"id": item.id}),
        "sentence": item.sentence if settings.keep_sentences else None,
        "shape": item.vectors.shape,
        # Digits that tell float16 numbers apart are too few to be read as float32.
        **({} if item.vectors.dtype == np.float32 else {"dtype": str(item.vectors.dtype)}),
        **({"description": dict(settings.description or {})} if described else {}),
    }
