"""Vectors as Parquet: columns `id`, `words` (a list of texts) and `vectors` (nested lists).

A file depends on its items alone, byte by byte: row groups are cut by the items, not by how they
came. What the schema's metadata say under `elmokit` is a JSON object: `dimensions` names those of
an array, `shape` has their sizes (null for words), `ids` tells whether `id` was given or is the
number of the line, and `description` is the writer's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from threading import Lock
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.io.files import write_atomically
from elmokit.io.tables import import_pyarrow
from elmokit.text.characters import word_bytes
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
    fixed_dimensions,
    parse_object,
)

METADATA = b"elmokit"
ROWS_PER_GROUP = 16384
NUMBERS_PER_GROUP = 1 << 21
"""8 MB of float32: what is read to get at one sentence, and what a writer collects."""
GROUPS_IN_MEMORY = 4


def write_parquet(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], settings: VectorSettings = DEFAULTS
) -> None:
    """Write a row for each line, in constant memory.

    Either all items have ids of one kind, or none has. Lone surrogates, which UTF-8 cannot encode,
    are left out of words and ids, as models do.
    """
    pyarrow = import_pyarrow()
    checked = checked_items(path, items, settings.dtype)
    first = next(checked, None)
    table = _TableMaker(pyarrow, path, first, settings)
    with (
        write_atomically(path) as temporary,
        open(temporary, "wb") as file,
        pyarrow.parquet.ParquetWriter(
            file,
            table.schema,
            compression=settings.compression or "none",
            # A dictionary of different numbers is work for nothing; so are their extremes.
            use_dictionary=["words.list.element"],
            write_statistics=["id"],
        ) as writer,
    ):
        for group in _groups(chain([first], checked) if first is not None else ()):
            writer.write_table(table.make(group), row_group_size=len(group))


class ParquetVectors(VectorFile):
    """Reads row groups, and keeps the last few of them."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._pyarrow = import_pyarrow()
        self._groups: dict[int, dict[str, Any]] = {}  # the last used is the last
        self._lock = Lock()
        with damage_of(path):
            self._file = OwnHandle(self._open)
            file = self._file.get()
            schema = file.schema_arrow
            if "vectors" not in schema.names:
                raise ValueError("it has no column 'vectors'")
            metadata = parse_object((schema.metadata or {}).get(METADATA, b"{}"), "metadata")
            self.description = dict(metadata.get("description", {}))
            self._shape = metadata.get("shape")
            self._columns = [name for name in ("words", "vectors") if name in schema.names]
            if "id" in schema.names and metadata.get("ids", True):
                self._columns.append("id")
            counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
            self._ends = np.cumsum(counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        number = 0
        for group in range(len(self._ends) if "words" in self._columns else 0):
            for words in self._read_group(group, "words")["words"].to_pylist():
                if words is not None:
                    yield number, _joined(words)
                number += 1

    def _read(self, number: int) -> SentenceVectors:
        group = int(np.searchsorted(self._ends, number, side="right"))
        row = number - (int(self._ends[group - 1]) if group else 0)
        columns = self._group(group)
        words = columns["words"][row].as_py() if "words" in columns else None
        return SentenceVectors(
            None if words is None else _joined(words),
            self._vectors(columns["vectors"].slice(row, 1)),
            columns["id"][row].as_py() if "id" in columns else None,
        )

    def _vectors(self, row: Any) -> NDArray[Any]:
        """An Arrow array of one row, of nested lists of numbers, as an array of its own."""
        shape: list[int] = []
        while self._pyarrow.types.is_nested(row.type):
            if row.null_count:
                raise ValueError("its column 'vectors' has nulls")
            lengths = self._pyarrow.compute.list_value_length(row).unique().to_pylist()
            if len(lengths) > 1:
                raise ValueError("its column 'vectors' has lists of unequal length")
            shape += lengths or [0]
            row = row.flatten()
        numbers = row.to_numpy(zero_copy_only=False)
        if not len(numbers) and self._shape is not None:
            # Nested lists do not tell the size of a vector where there are no words.
            return np.zeros([size or 0 for size in self._shape], dtype=numbers.dtype)
        return numbers.reshape(shape).copy()

    def _open(self) -> Any:
        return self._pyarrow.parquet.ParquetFile(str(self.path), memory_map=True, pre_buffer=False)

    def _close(self) -> None:
        self._groups.clear()
        self._file.close()

    def _group(self, number: int) -> dict[str, Any]:
        # Not lru_cache, which would hold this object and its groups until Python looks for cycles.
        with self._lock:
            group = self._groups.pop(number, None) or self._read_group(number)
            self._groups[number] = group
            if len(self._groups) > GROUPS_IN_MEMORY:
                del self._groups[next(iter(self._groups))]
        return group

    def _read_group(self, number: int, *names: str) -> dict[str, Any]:
        """Columns of a group of rows, by their names; all of them unless some are named."""
        columns = list(names) or self._columns
        # One thread: the pools of a parent are not there in a forked child.
        table = self._file.get().read_row_group(number, columns=columns, use_threads=False)
        return {name: table.column(name).combine_chunks() for name in columns}


def _joined(words: Any) -> str:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("its column 'words' has something else than lists of texts")
    return " ".join(words)


class _TableMaker:
    """Makes Arrow tables of items, all of one schema, which the first one tells."""

    def __init__(
        self, pyarrow: Any, path: PathLike, first: Item | None, settings: VectorSettings
    ) -> None:
        self._pyarrow = pyarrow
        self._path = path
        self._rows = 0  # of the tables made so far
        self._keep_sentences = settings.keep_sentences
        self._id_kind = type(None if first is None else first.id)
        self._shape: tuple[int | None, ...] = (None, 1)
        dtype = np.dtype(np.float32)
        if first is not None:
            self._shape = fixed_dimensions(first.vectors, str(path))
            dtype = first.vectors.dtype
        # Fixed lists are vectors; words and layers are lists around them.
        self._vector_type = vectors = pyarrow.list_(
            pyarrow.from_numpy_dtype(dtype), self._shape[-1]
        )
        for _ in self._shape[:-1]:
            vectors = pyarrow.list_(vectors)
        self.schema = pyarrow.schema(
            [
                ("id", pyarrow.string() if self._id_kind is str else pyarrow.int64()),
                *([("words", pyarrow.list_(pyarrow.string()))] if self._keep_sentences else []),
                ("vectors", vectors),
            ],
            metadata={METADATA: json.dumps(self._metadata(dict(settings.description or {})))},
        )

    def make(self, items: list[Item]) -> Any:
        """A table of the next items."""
        ids = [self._id(number, item) for number, item in enumerate(items, self._rows)]
        self._rows += len(items)
        columns = [self._pyarrow.array(ids, self.schema.types[0])]
        if self._keep_sentences:
            sentences = (each.split() if isinstance(each, str) else each for each, _, _ in items)
            words = [[word_bytes(word).decode() for word in sentence] for sentence in sentences]
            columns.append(self._pyarrow.array(words, self.schema.field("words").type))
        columns.append(self._vectors([item.vectors for item in items]))
        return self._pyarrow.Table.from_arrays(columns, schema=self.schema)

    def _id(self, number: int, item: Item) -> str | int | None:
        if item.id is not None and type(item.id) is not self._id_kind:
            raise InputError(
                f"{self._path}: not written; line {number + 1} has the id {item.id!r}, the first "
                "line none, or one of another kind"
            )
        if isinstance(item.id, str):
            return word_bytes(item.id).decode()
        return number if self._id_kind is NoneType else item.id

    def _vectors(self, arrays: list[NDArray[Any]]) -> Any:
        pyarrow = self._pyarrow
        column = pyarrow.array(np.concatenate([each.ravel() for each in arrays]))
        column = pyarrow.FixedSizeListArray.from_arrays(column, type=self._vector_type)
        for level in range(len(self._shape) - 2, -1, -1):
            # Rows of the level above: their counts are those of each array, once per its rows.
            counts = [each.shape[level] for each in arrays for _ in range(prod(each.shape[:level]))]
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            column = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), column)
        return column

    def _metadata(self, description: dict[str, Any]) -> dict[str, Any]:
        pooled = description.get("pool") not in (None, "none")
        names = ["layers", "words", "size"][-len(self._shape) :]
        if pooled and len(self._shape) == 2:
            names[0] = "layers"
        return {
            "dimensions": names,
            "shape": self._shape,
            "ids": self._id_kind is not NoneType,
            "description": description,
        }


def _groups(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Items by row group: cut by what they are, never by when they came."""
    group: list[Item] = []
    numbers = 0
    for item in items:
        group.append(item)
        numbers += item.vectors.size
        if numbers >= NUMBERS_PER_GROUP or len(group) == ROWS_PER_GROUP:
            yield group
            group, numbers = [], 0
    if group:
        yield group
