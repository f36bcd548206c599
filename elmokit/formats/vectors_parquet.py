"""Vectors as Parquet: columns `id`, `words` (a list of texts) and `vectors` (nested lists).

A file depends on its items alone, byte by byte: row groups are cut by the items, not by how they
came. What the schema's metadata say under `elmokit` is a JSON object: `dimensions` names those of
an array, `shape` has their sizes (null for words), `ids` tells whether `id` was given or is the
number of the line, and `description` is the writer's.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.vector_file import OwnHandle, VectorFile, damage_of
from elmokit.formats.vector_items import (
    Item,
    Line,
    PathLike,
    SentenceVectors,
    checked_lines,
    fixed_dimensions,
)
from elmokit.formats.vector_settings import DEFAULTS, VectorSettings

COMPRESSIONS = ("none", "snappy", "gzip", "zstd")

METADATA = b"elmokit"
ROWS_PER_GROUP = 16384
NUMBERS_PER_GROUP = 1 << 21
"""8 MB of float32: what is read to get at one sentence, and what a writer collects."""
GROUPS_IN_MEMORY = 4


def import_pyarrow(path: PathLike) -> Any:
    """The library for Parquet files, which is an extra."""
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.compute  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise InputError(
            f"{path}: Parquet files need one more library: pip install 'elmokit[parquet]'"
        ) from None
    return pyarrow


def write_parquet(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
) -> None:
    """Write a row for each line, in constant memory.

    Either all items have ids of one kind, or none has. Lone surrogates, which UTF-8 cannot encode,
    are left out of words and ids, as models do.
    """
    pyarrow = import_pyarrow(path)
    lines = checked_lines(path, items, settings.dtype)
    first = next(lines, None)
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
        for group in _groups(chain([first], lines) if first is not None else ()):
            writer.write_table(table.make(group), row_group_size=len(group))


class ParquetVectors(VectorFile):
    """Reads row groups, and keeps the last few of them."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._pyarrow = import_pyarrow(path)
        self._groups: OrderedDict[int, _Group] = OrderedDict()
        self._lock = Lock()
        with damage_of(path):
            self._file: OwnHandle[Any] = OwnHandle(self._open)
            file = self._file.get()
            schema = file.schema_arrow
            if "vectors" not in schema.names:
                raise ValueError("it has no column 'vectors'")
            metadata = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
            self.description = dict(metadata.get("description", {}))
            self._shape = metadata.get("shape")
            self._with_words = "words" in schema.names
            self._with_ids = "id" in schema.names and metadata.get("ids", True)
            counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
            self._ends = np.cumsum(counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        if not self._with_words:
            return
        number = 0
        for group in range(len(self._ends)):
            for row in self._column(group, "words").to_pylist():
                if row is not None:
                    yield number, " ".join(row)
                number += 1

    def _read(self, number: int) -> SentenceVectors:
        group = int(np.searchsorted(self._ends, number, side="right"))
        first = int(self._ends[group - 1]) if group else 0
        return self._group(group).item(number - first)

    def _open(self) -> Any:
        return self._pyarrow.parquet.ParquetFile(str(self.path), memory_map=True, pre_buffer=False)

    def _close(self) -> None:
        self._groups.clear()
        self._file.close()

    def _group(self, number: int) -> _Group:
        with self._lock:
            if number not in self._groups:
                self._groups[number] = self._read_group(number)
                if len(self._groups) > GROUPS_IN_MEMORY:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(number)
            return self._groups[number]

    def _read_group(self, number: int) -> _Group:
        return _Group(
            _Nested.of(self._pyarrow, self._column(number, "vectors"), self._shape),
            self._column(number, "words") if self._with_words else None,
            self._column(number, "id") if self._with_ids else None,
        )

    def _column(self, group: int, name: str) -> Any:
        # One thread: the pools of a parent are not there in a forked child.
        table = self._file.get().read_row_group(group, columns=[name], use_threads=False)
        return table.column(name).combine_chunks()


class _Group(NamedTuple):
    vectors: _Nested
    words: Any  # an Arrow array, or None
    ids: Any

    def item(self, row: int) -> SentenceVectors:
        words = self.words[row].as_py() if self.words is not None else None
        return SentenceVectors(
            " ".join(words) if words is not None else None,
            self.vectors.row(row),
            self.ids[row].as_py() if self.ids is not None else None,
        )


class _Nested(NamedTuple):
    """Rows of nested lists of numbers, as one array."""

    numbers: NDArray[Any]
    starts: list[NDArray[np.int64]]  # of each level: where an element's own elements begin, and end
    empty: tuple[int, ...]  # the shape of a row without numbers

    @classmethod
    def of(cls, pyarrow: Any, column: Any, shape: list[int | None] | None) -> _Nested:
        """Take an Arrow array apart; `shape` is what its writer said of each row."""
        starts = []
        while pyarrow.types.is_nested(column.type):
            if column.null_count:
                raise ValueError("its column 'vectors' has nulls")
            lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
            starts.append(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
            column = column.flatten()
        empty = (0,) * len(starts) if shape is None else tuple(size or 0 for size in shape)
        return cls(column.to_numpy(zero_copy_only=False), starts, empty)

    def row(self, row: int) -> NDArray[Any]:
        """One row as an array of its own."""
        first, end = row, row + 1
        shape = []
        for starts in self.starts:
            lengths = np.diff(starts[first : end + 1])
            if (lengths != lengths[:1]).any():
                raise ValueError(f"row {row} of its column 'vectors' has lists of unequal length")
            shape.append(int(lengths[0]) if len(lengths) else 0)
            first, end = int(starts[first]), int(starts[end])
        if not prod(shape):
            return np.zeros(self.empty, dtype=self.numbers.dtype)
        return self.numbers[first:end].reshape(shape).copy()


class _TableMaker:
    """Makes Arrow tables of lines, all of one schema, which the first line tells."""

    def __init__(
        self, pyarrow: Any, path: PathLike, first: Line | None, settings: VectorSettings
    ) -> None:
        self._pyarrow = pyarrow
        self._path = path
        self._keep_sentences = settings.keep_sentences
        self._id_kind: type | None = None if first is None else type(first.id)
        self._shape: tuple[int | None, ...] = (None, 1)
        dtype = np.dtype(np.float32)
        if first is not None:
            self._shape = fixed_dimensions(first.vectors, str(path))
            dtype = first.vectors.dtype
        self._number_type = pyarrow.from_numpy_dtype(dtype)
        self._with_ids = first is not None and first.id is not None
        self.schema = pyarrow.schema(
            [
                ("id", pyarrow.string() if self._id_kind is str else pyarrow.int64()),
                *([("words", pyarrow.list_(pyarrow.string()))] if self._keep_sentences else []),
                ("vectors", self._vectors_type()),
            ],
            metadata={METADATA: json.dumps(self._metadata(dict(settings.description or {})))},
        )

    def make(self, lines: list[Line]) -> Any:
        """A table of some lines."""
        columns = [self._pyarrow.array([self._id(line) for line in lines], self.schema.types[0])]
        if self._keep_sentences:
            words = [[encodable_part(word) for word in line.split()] for line in lines]
            columns.append(self._pyarrow.array(words, self.schema.field("words").type))
        columns.append(self._vectors([line.vectors for line in lines]))
        return self._pyarrow.Table.from_arrays(columns, schema=self.schema)

    def _id(self, line: Line) -> str | int | None:
        if not self._with_ids:
            if line.id is None:
                return line.number
            problem = "has an id, the first line has none"
        elif line.id is None or type(line.id) is self._id_kind:
            return encodable_part(line.id) if isinstance(line.id, str) else line.id
        else:
            problem = f"has the id {line.id!r}, the first line one of another kind"
        raise InputError(f"{self._path}: not written; line {line.number + 1} {problem}")

    def _vectors(self, arrays: list[NDArray[Any]]) -> Any:
        pyarrow = self._pyarrow
        column = pyarrow.array(np.concatenate([each.ravel() for each in arrays]))
        column = pyarrow.FixedSizeListArray.from_arrays(column, type=self._vector_type())
        for level in range(len(self._shape) - 2, -1, -1):
            # Rows of the level above: their counts are those of each array, once per its rows.
            counts = [each.shape[level] for each in arrays for _ in range(prod(each.shape[:level]))]
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            column = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), column)
        return column

    def _vector_type(self) -> Any:
        return self._pyarrow.list_(self._number_type, self._shape[-1])

    def _vectors_type(self) -> Any:
        """Fixed lists are vectors; words and layers are lists around them."""
        found = self._vector_type()
        for _ in self._shape[:-1]:
            found = self._pyarrow.list_(found)
        return found

    def _metadata(self, description: dict[str, Any]) -> dict[str, Any]:
        pooled = description.get("pool") not in (None, "none")
        names = ["layers", "words", "size"][-len(self._shape) :]
        if pooled and len(self._shape) == 2:
            names[0] = "layers"
        return {
            "dimensions": names,
            "shape": self._shape,
            "ids": self._with_ids,
            "description": description,
        }


def _groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines by row group: cut by what they are, never by when they came."""
    group: list[Line] = []
    numbers = 0
    for line in lines:
        group.append(line)
        numbers += line.vectors.size
        if numbers >= NUMBERS_PER_GROUP or len(group) == ROWS_PER_GROUP:
            yield group
            group, numbers = [], 0
    if group:
        yield group


def encodable_part(text: str) -> str:
    r"""A text without lone surrogates, for which UTF-8 has no bytes.

    >>> encodable_part("a\ud800b")
    'ab'
    """
    return text.encode("utf-8", "ignore").decode("utf-8")
