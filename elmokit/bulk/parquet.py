"""Rows of a Parquet file, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.bulk.lines import no_text
from elmokit.bulk.tables import Columns, Row, id_of, text_or_words
from elmokit.errors import FormatError, InputError
from elmokit.formats.vectors_parquet import import_pyarrow
from elmokit.text.corpus import Errors

BATCH_ROWS = 256
BUFFER_BYTES = 1 << 20


class ParquetFile:
    """The rows of a Parquet file.

    Attributes:
        path: The file.
        position: Bytes on disk that are read so far, as the share of its rows.
    """

    def __init__(self, path: Path, columns: Columns, errors: Errors) -> None:
        self.path = path
        self.position = 0
        self._columns = columns
        self._errors = errors

    def rows(self, start: int = 1) -> Iterator[Row]:
        """The rows from number `start` on; groups of rows before it are not read."""
        with self._opened() as file:
            size = self.path.stat().st_size
            column = self._columns.choose(file.schema_arrow.names, str(self.path))
            keep = self._columns.keep
            names = [column] if keep is None else list(dict.fromkeys((column, keep)))
            groups, number = _groups_from(file, start)
            for batch in _batches(file, groups, names):
                skipped = min(max(start - number, 0), batch.num_rows)
                yield from self._rows_of(batch.slice(skipped), number + skipped, column)
                number += batch.num_rows
                self.position = size * (number - 1) // file.metadata.num_rows

    def _rows_of(self, batch: Any, number: int, column: str) -> Iterator[Row]:
        """The rows of a batch whose first is row `number`."""
        keep = self._columns.keep
        values = _values(batch.column(column))
        ids = [None] * len(values) if keep is None else _values(batch.column(keep))
        for row, (value, kept) in enumerate(zip(values, ids, strict=True), number):
            place = f"{self.path}, row {row}"
            text = text_or_words(self._decoded(value, place), column, place)
            yield Row(row, text, id_of(self._decoded(kept, place), keep or "", place))

    def _decoded(self, value: Any, place: str) -> Any:
        """Bytes, alone or in a list, as text; any other value as it is."""
        if isinstance(value, list):
            return [self._decoded(item, place) for item in value]
        if not isinstance(value, bytes):
            return value
        try:
            return value.decode("utf-8", self._errors)
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{place}: is not UTF-8 ({error.reason}); convert the file, or read such bytes as "
                "U+FFFD (--errors replace)"
            ) from None

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file as pyarrow has it, whose errors become one line."""
        arrow = import_pyarrow(self.path)
        try:
            if not self.path.stat().st_size:
                raise no_text(self.path)
            # With a buffer, a group of rows is read as it is used, not as a whole.
            with arrow.parquet.ParquetFile(str(self.path), buffer_size=BUFFER_BYTES) as file:
                yield file
        except (arrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise InputError(
                    f"{self.path}: cannot be read ({error.strerror or error})"
                ) from error
            why = " ".join(str(error).split())
            raise FormatError(
                f"{self.path}: is not a whole Parquet file ({why}); get it anew"
            ) from error


def _groups_from(file: Any, start: int) -> tuple[list[int], int]:
    """The groups of rows that row `start` and those after it are in, and their first row."""
    first = 1
    for group in range(file.num_row_groups):
        after = first + file.metadata.row_group(group).num_rows
        if after > start:
            return list(range(group, file.num_row_groups)), first
        first = after
    return [], first


def _batches(file: Any, groups: list[int], names: list[str]) -> Iterator[Any]:
    if not groups:  # which pyarrow would take for all
        return iter(())
    return file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names, use_threads=False)


def _values(array: Any) -> list[Any]:
    """Values as plain ones; texts, alone or in lists, as the bytes that they are in the file.

    pyarrow would decode them too, but not say which row is no UTF-8.
    """
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for type in (pyarrow.large_binary(), pyarrow.list_(pyarrow.large_binary())):
        try:
            return array.cast(type).to_pylist()
        except pyarrow.ArrowNotImplementedError:
            pass
    return array.to_pylist()
