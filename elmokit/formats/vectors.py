"""Vectors of sentences as files: HDF5 as `allennlp elmo` wrote it, Parquet, NPZ, JSON lines.

Each file appears whole or not at all, and is written in constant memory, however many its items.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from elmokit.errors import InputError
from elmokit.formats import vectors_hdf5, vectors_jsonl, vectors_npz, vectors_parquet
from elmokit.formats.sentence_keys import SentenceKeys
from elmokit.formats.vector_file import VectorFile
from elmokit.formats.vector_items import Item, PathLike, SentenceVectors
from elmokit.formats.vector_settings import DEFAULTS, VectorSettings
from elmokit.formats.vectors_folder import FolderVectors, check_finished
from elmokit.formats.vectors_hdf5 import Hdf5Vectors, write_hdf5
from elmokit.formats.vectors_jsonl import JsonlVectors, write_jsonl
from elmokit.formats.vectors_npz import NpzVectors, write_npz
from elmokit.formats.vectors_parquet import ParquetVectors, import_pyarrow, write_parquet

__all__ = [
    "Item",
    "SentenceKeys",
    "SentenceVectors",
    "VectorFile",
    "VectorSettings",
    "check_compression",
    "check_suffix",
    "open_vectors",
    "read_vectors",
    "write_hdf5",
    "write_jsonl",
    "write_npz",
    "write_parquet",
    "write_vectors",
]


class Writer(Protocol):
    """What writes a format."""

    def __call__(
        self,
        path: PathLike,
        items: Iterable[Item | tuple[Any, ...]],
        settings: VectorSettings,
    ) -> None:
        """Write a file."""


class Format(NamedTuple):
    """How to write and to read a kind of file."""

    write: Writer
    open: type[VectorFile]
    compressions: tuple[str, ...]


HDF5 = Format(write_hdf5, Hdf5Vectors, vectors_hdf5.COMPRESSIONS)
FORMATS = {
    ".h5": HDF5,
    ".hdf5": HDF5,
    ".jsonl": Format(write_jsonl, JsonlVectors, vectors_jsonl.COMPRESSIONS),
    ".npz": Format(write_npz, NpzVectors, vectors_npz.COMPRESSIONS),
    ".parquet": Format(write_parquet, ParquetVectors, vectors_parquet.COMPRESSIONS),
}


def write_vectors(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
    **changes: Any,
) -> None:
    """Write items in the format that the name's suffix says; the file appears whole or not.

    Args:
        path: `.h5`, `.hdf5`, `.jsonl`, `.npz` or `.parquet`.
        items: Sentences, their arrays and, where there are any, ids; arrays are alike in shape.
        settings: How to write them. What it says of layers and pooling is what was made, not what
            is to be made: a file remembers only its `description`.
        changes: Single settings by their names, in place of those of `settings`.
    """
    settings = replace(settings, **changes)
    settings = replace(settings, compression=check_compression(path, settings.compression))
    FORMATS[check_suffix(path)].write(path, items, settings)


def open_vectors(path: PathLike) -> VectorFile:
    """Open what `write_vectors` or `allennlp elmo` wrote: items are read when asked for.

    A folder of Parquet files, which the engine ray writes, is opened as one sequence.
    """
    if Path(path).is_dir():
        return FolderVectors(path)
    suffix = check_suffix(path)
    check_finished(path)
    return FORMATS[suffix].open(path)


def read_vectors(path: PathLike) -> list[SentenceVectors]:
    """Read all of what `open_vectors` opens, in the order of its lines.

    Where the keys of an HDF5 file are sentences, the order is that of the sentences.
    """
    with open_vectors(path) as file:
        return list(file)


def check_suffix(path: PathLike) -> str:
    """Refuse a name whose suffix is not one of a format that is there; give the suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        found = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise InputError(f"{path}: {found}; use one of {', '.join(FORMATS)}")
    if suffix == ".parquet":
        import_pyarrow(path)
    return suffix


def check_compression(path: PathLike, compression: str | None) -> str:
    """Refuse a compression that the format of a name does not have."""
    suffix = check_suffix(path)
    allowed = FORMATS[suffix].compressions
    if compression is not None and compression not in allowed:
        raise InputError(
            f"{path}: compression is {compression!r}; {suffix} has {' and '.join(allowed)}"
        )
    return compression or "none"
