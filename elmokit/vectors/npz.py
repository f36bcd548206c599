"""Vectors as NPZ, for NumPy: arrays "0", "1", …, and JSON texts as arrays of bytes.

Of pooled sentences they are the rows of one array, "vectors".
`json.loads(bytes(file["sentences"]))` is the list of sentences; `ids` and `description`, where they
were given, are read likewise.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.io.archives import ALWAYS_ALLOWED, MOST_FOLD
from elmokit.io.files import write_atomically
from elmokit.vectors.items import (
    DEFAULTS,
    Item,
    OwnHandle,
    PathLike,
    SentenceVectors,
    VectorFile,
    VectorSettings,
    checked_items,
    damage_of,
    parse_object,
)

SUFFIX = ".npy"
SENTENCES, IDS, DESCRIPTION = "sentences", "ids", "description"
MATRIX = "vectors"


def write_npz(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], settings: VectorSettings = DEFAULTS
) -> None:
    """Write arrays and their sentences; of all items only these are in memory."""
    method = ZIP_DEFLATED if settings.compression == "deflate" else ZIP_STORED
    sentences: list[str] = []
    ids: list[str | int | None] = []
    first: NDArray[Any] | None = None  # of the matrix
    with (
        write_atomically(path) as temporary,
        ZipFile(temporary, "w", method) as archive,
        TemporaryFile(dir=Path(temporary).parent) as pooled,
    ):
        for item in checked_items(path, items, settings.dtype):
            if settings.pool != "none" or item.vectors.ndim == 1:
                first = item.vectors if first is None else first
                if item.vectors.shape != first.shape:
                    shapes = f"{item.vectors.shape} and {first.shape}; pooled ones are alike"
                    raise InputError(f"{path}: not written; has vectors of shapes {shapes}")
                pooled.write(item.vectors.data)
            else:
                _add(archive, str(len(ids)), item.vectors)
            ids.append(item.id)
            if settings.keep_sentences:
                sentences.append(item.sentence)
        if first is not None:
            _add(archive, MATRIX, first, pooled, len(ids))
        if settings.keep_sentences:
            _add_json(archive, SENTENCES, sentences)
        if any(each is not None for each in ids):
            _add_json(archive, IDS, ids)
        if settings.description is not None:
            _add_json(archive, DESCRIPTION, dict(settings.description))


def _add(
    archive: ZipFile, name: str, values: NDArray[Any], rows: IO[bytes] | None = None, count: int = 0
) -> None:
    """Add an array; or so many like it, whose bytes are in the file `rows`, as one array."""
    # A ZipInfo by itself is of the first day of 1980: equal items make equal files.
    member = ZipInfo(f"{name}{SUFFIX}")
    member.compress_type = archive.compression
    with archive.open(member, "w", force_zip64=True) as file:
        if rows is None:
            np.lib.format.write_array(file, values, allow_pickle=False)
            return
        header = np.lib.format.header_data_from_array_1_0(values)
        np.lib.format.write_array_header_1_0(file, header | {"shape": (count, *values.shape)})
        rows.seek(0)
        shutil.copyfileobj(rows, file)


def _add_json(archive: ZipFile, name: str, value: object) -> None:
    _add(archive, name, np.frombuffer(json.dumps(value).encode("ascii"), dtype=np.uint8))


class NpzVectors(VectorFile):
    """Reads arrays "0", "1", … one by one, and their sentences."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with damage_of(path):
            self._archive = OwnHandle(lambda: ZipFile(self.path))
            members, size = self._archive.get().infolist(), self.path.stat().st_size
            for one in members:
                if one.file_size > max(ALWAYS_ALLOWED, MOST_FOLD * min(one.compress_size, size)):
                    raise ValueError(f"its {one.filename!r} would grow more than {MOST_FOLD} times")
            self._texts = {one.filename.removesuffix(SUFFIX): one.filename for one in members}
            numbers = [name for name in self._texts if name.isdecimal() and name.isascii()]
            arrays = sorted((int(name), self._texts.pop(name)) for name in numbers)
            self._lines: Sequence[int] = [line for line, _ in arrays]
            self._members = [member for _, member in arrays]
            if matrix := self._texts.pop(MATRIX, None):
                self._lines, self._members = range(self._rows_of(matrix)), []
            if others := self._texts.keys() - {SENTENCES, IDS, DESCRIPTION}:
                raise ValueError(f"its array {min(others)!r} is not the number of a line")
            if DESCRIPTION in self._texts:
                self.description = parse_object(self._text(DESCRIPTION), DESCRIPTION)

    def __len__(self) -> int:
        return len(self._lines)

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self._lines):
            sentence = self._sentences.get(line)
            if sentence is not None:
                yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        line = self._lines[number]
        found = self._array(self._members[number]) if self._members else self._matrix[line]
        return SentenceVectors(self._sentences.get(line), found, self._ids.get(line))

    def _close(self) -> None:
        self._archive.close()

    @cached_property
    def _matrix(self) -> NDArray[Any]:
        return self._array(MATRIX + SUFFIX)

    @cached_property
    def _sentences(self) -> dict[int, Any]:
        return self._by_line(SENTENCES)

    @cached_property
    def _ids(self) -> dict[int, Any]:
        return self._by_line(IDS)

    def _by_line(self, name: str) -> dict[int, Any]:
        found = json.loads(self._text(name)) if name in self._texts else []
        if not isinstance(found, list):
            raise ValueError(f"its {name} are not a JSON list")
        return dict(enumerate(found))

    def _text(self, name: str) -> bytes | str:
        """What an array of bytes, or a scalar text of NumPy, says."""
        array = self._array(self._texts[name])
        return array.tobytes() if array.dtype == np.uint8 else str(array)

    def _rows_of(self, member: str) -> int:
        """How many rows an array says it has, if they are as many bytes as there are."""
        archive = self._archive.get()
        with archive.open(member) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            there = archive.getinfo(member).file_size - file.tell()
        if not shape or shape[0] > there or math.prod(shape) * dtype.itemsize != there:
            raise ValueError(f"its array {member!r} of shape {shape} has {there:,} bytes")
        return shape[0]

    def _array(self, member: str) -> NDArray[Any]:
        # All of it at once: only at the end is its checksum compared.
        contents = BytesIO(self._archive.get().read(member))
        return np.lib.format.read_array(contents, allow_pickle=False)
