"""Vectors of sentences as files: HDF5 as `allennlp elmo` wrote it, Parquet, NPZ, JSON lines.

Each file appears complete or not at all. Parquet and JSON lines are written in constant memory; the
writers of HDF5 and NPZ have the sentences in memory, but not the vectors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from elmokit.errors import FormatError, InputError
from elmokit.io.files import PARTS, read_object
from elmokit.io.tables import import_pyarrow
from elmokit.vectors.hdf5 import Hdf5Vectors, write_hdf5
from elmokit.vectors.items import (
    DEFAULTS,
    Item,
    PathLike,
    SentenceVectors,
    VectorFile,
    VectorSettings,
    damage_of,
)
from elmokit.vectors.jsonl import JsonlVectors, write_jsonl
from elmokit.vectors.npz import NpzVectors, write_npz
from elmokit.vectors.parquet import ParquetVectors, write_parquet

CONTENTS = "_elmokit.json"
VERSION = 1


class FolderVectors(VectorFile):
    """Reads Parquet files of a folder, as the engine ray once wrote it, as one sequence."""

    def __init__(self, path: PathLike, open_files: int = 4) -> None:
        folder = Path(path)
        if not (folder / CONTENTS).exists():
            if PARTS in (folder.suffix, folder.parent.suffix):
                raise InputError(
                    f"{path}: is of an output that is not finished; to resume, run the same "
                    "command with --resume, then open the output"
                )
            raise FormatError(f"{path}: is a folder without {CONTENTS}; name a file of vectors")
        super().__init__(folder / CONTENTS)
        contents = read_object(self.path)
        lines = contents.get("lines")
        if contents.get("version") != VERSION or not isinstance(lines, dict):
            raise FormatError(f"{self.path}: does not name the files of its folder; copy it again")
        with damage_of(self.path):
            self._ends = np.cumsum([int(count) for count in lines.values()], dtype=np.int64)
        self.path = folder
        self._names = [Path(name).name for name in lines]
        self._numbered = bool(contents.get("numbered"))
        # What it drops is not closed, for another thread may be reading it, but closes by itself.
        self._file = lru_cache(open_files)(self._open)
        self.description = self._file(0).description if self._names else {}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number in range(len(self._names)):
            first = self._first(number)
            for line, sentence in self._file(number).sentences():
                yield first + line, sentence

    def _read(self, number: int) -> SentenceVectors:
        file = int(np.searchsorted(self._ends, number, side="right"))
        item = self._file(file)[number - self._first(file)]
        # As in a single file, which numbers its lines by itself.
        return item._replace(id=None) if self._numbered else item

    def _close(self) -> None:
        self._file.cache_clear()

    def _first(self, file: int) -> int:
        return int(self._ends[file - 1]) if file else 0

    def _open(self, number: int) -> ParquetVectors:
        file = ParquetVectors(self.path / self._names[number])
        if len(file) != self._ends[number] - self._first(number):
            raise FormatError(f"{file.path}: has {len(file)} lines, which {CONTENTS} denies")
        return file


class VectorFormat(NamedTuple):
    """How to write and to read a kind of file."""

    write: Callable[[PathLike, Iterable[Item | tuple[Any, ...]], VectorSettings], None]
    open: type[VectorFile]
    compressions: tuple[str, ...]


HDF5 = VectorFormat(write_hdf5, Hdf5Vectors, ("none", "gzip"))
FORMATS = {
    ".h5": HDF5,
    ".hdf5": HDF5,
    ".jsonl": VectorFormat(write_jsonl, JsonlVectors, ("none",)),
    ".npz": VectorFormat(write_npz, NpzVectors, ("none", "deflate")),
    ".parquet": VectorFormat(write_parquet, ParquetVectors, ("none", "snappy", "gzip", "zstd")),
}


def write_vectors(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
    **changes: Any,
) -> None:
    """Write items in the format that the name's suffix says; the file appears complete or not.

    Args:
        path: `.h5`, `.hdf5`, `.jsonl`, `.npz` or `.parquet`.
        items: Sentences, their arrays and, where there are any, ids; arrays are alike in shape.
        settings: How to write them. What it says of layers and pooling is what was made, not what
            is to be made: a file remembers only its `description`.
        changes: Single settings by their names, in place of those of `settings`.
    """
    settings = replace(settings, **changes)
    format = settings.output_format
    compression = check_writable(path, settings.compression, format)
    settings = replace(settings, compression=compression)
    FORMATS[check_suffix(path, format)].write(path, items, settings)


def open_vectors(path: PathLike) -> VectorFile:
    """Open what `write_vectors` or `allennlp elmo` wrote: items are read when asked for.

    HDF5 may have any name. A folder of Parquet files, which the engine ray wrote once, is opened as
    one sequence.
    """
    if Path(path).is_dir():
        return FolderVectors(path)
    named = Path(path).suffix.lower() in FORMATS
    suffix = check_suffix(path, None if named or not h5py.is_hdf5(path) else "hdf5")
    parts = Path(f"{path}{PARTS}")
    if parts.is_dir() and not Path(path).exists():
        raise InputError(
            f"{path}: is not finished; what is done is in {parts}; to resume, run the same "
            "command with --resume"
        )
    return FORMATS[suffix].open(path)


def check_suffix(path: PathLike, format: str | None = None) -> str:
    """The suffix of a name, which must be that of a format; or of the format that is given."""
    suffix = f".{format}" if format else Path(path).suffix.lower()
    if suffix not in FORMATS:
        found = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise InputError(f"{path}: {found}; use one of {', '.join(FORMATS)}")
    if suffix == ".parquet":
        import_pyarrow()
    return suffix


def check_writable(path: PathLike, compression: str | None, format: str | None = None) -> str:
    """Raise for a name that is not of a file of vectors; give the compression, "none" for None."""
    suffix = check_suffix(path, format)
    if os.path.isdir(path):
        raise InputError(f"{path}: is a folder; give the name of a file")
    allowed = FORMATS[suffix].compressions
    if compression is not None and compression not in allowed:
        raise InputError(
            f"{path}: compression is {compression!r}; {suffix} has {' and '.join(allowed)}"
        )
    return compression or "none"
