"""Tables: rows of CSV, TSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.text_files import LONGEST_LINE_BYTES, Line, TextFile, TextSettings, no_text
from elmokit.system import counted

USUAL_TEXTS = ("text", "sentence", "message", "document", "v2")
"""How a column that holds a text is usually called; the last is the SMS Spam Collection's."""
COLUMNS_SHOWN = 20
WORD_SHOWN = 40
LARGEST_ID = 1 << 63  # what a column of whole numbers can hold, in every format
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
TEXT_FLAG = "--text-column"


class Row(NamedTuple):
    """What is used of one row of a table, or of one line of a text."""

    line: int  # where it starts, or its number in a Parquet file; from 1
    value: str | list[str]  # a text, or words
    id: str | int | None = None


def _text_column(settings: TextSettings, names: Sequence[str], place: str) -> str:
    """The column with the text, in a table that has the columns `names`."""
    column = settings.text_column
    if column is None:
        check_separator(names, place)
        [column] = usual_columns(names, [(name,) for name in USUAL_TEXTS], "the text", place)
    _check_column(column, TEXT_FLAG, names, place)
    if settings.keep is not None:
        _check_column(settings.keep, "--keep", names, place)
    return column


class TableRow(NamedTuple):
    """The values of a row, and the names of their columns."""

    place: str
    named_at: str  # the place of the header; its own if there is none
    names: Sequence[str]  # the numbers from 1 where there is no header
    values: Sequence[Any]
    line: int  # where it starts, from 1

    def value(self, name: str) -> Any:
        """What the row has in a column."""
        return self.values[self.names.index(name)]


TableFormat = Literal["csv", "tsv", "jsonl"]
TABLE_SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def table_rows(
    lines: Iterable[Line], format: TableFormat, *, header: bool = True, skip_bad: bool = False
) -> Iterator[TableRow]:
    """The rows of a table.

    Args:
        lines: The lines of the file.
        format: What it is. In TSV a tab ends a field and a line break a row, always: quotation
            marks are part of the text.
        header: The first row names the columns; if not, they have numbers. JSON lines name theirs.
        skip_bad: Leave out rows with more or fewer fields than columns; a warning counts them.
    """
    if format == "jsonl":
        return _json_rows(lines)
    fields = _csv_fields(lines) if format == "csv" else _tsv_fields(lines)
    return _named(fields, header, skip_bad)


def _json_rows(lines: Iterable[Line]) -> Iterator[TableRow]:
    for place, text, number in lines:
        if text and not text.isspace():
            values = json_object(text, place)
            yield TableRow(place, place, tuple(values), tuple(values.values()), number)


class _Fields(NamedTuple):
    """What a row of CSV or TSV holds."""

    start: Line
    values: list[str]


def _tsv_fields(lines: Iterable[Line]) -> Iterator[_Fields]:
    return (_Fields(line, line.text.split("\t")) for line in lines if line.text)


def _csv_fields(lines: Iterable[Line]) -> Iterator[_Fields]:
    # The library's own limit, for all readers in the process, is less than a chapter of a book.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE_BYTES))
    row: list[Line] = []  # the lines of the row that is read

    def texts() -> Iterator[str]:
        for line in lines:
            row.append(line)
            yield f"{line.text}\n"

    reader = csv.reader(texts(), strict=True)
    while True:
        row.clear()
        try:
            values = next(reader, None)
        except csv.Error as error:
            why = str(error).partition(" - ")[0]  # the rest is advice to programmers
            raise FormatError(
                f"{row[0].place}: is not CSV ({why}); put a field that holds commas, quotation "
                "marks or line breaks between quotation marks, and double those in it"
            ) from error
        if values is None:
            return
        if values:
            yield _Fields(row[0], values)


def _named(rows: Iterator[_Fields], header: bool, skip_bad: bool) -> Iterator[TableRow]:
    """Rows with the names of their columns: of the first row, or else their numbers."""
    first = next(rows, None)
    if first is None:
        return
    names = tuple(name.strip() for name in first.values)
    if not header:
        names = tuple(str(number) for number, _ in enumerate(names, start=1))
        yield _row(first, first, names)
    bad, first_bad = 0, ""
    for row in rows:
        if _fits(row, names):
            yield _row(row, first, names)
        elif skip_bad:
            bad, first_bad = bad + 1, first_bad or row.start.place
        else:
            raise FormatError(
                f"{row.start.place}: has {counted(len(row.values), 'field')}, but there are "
                f"{counted(len(names), 'column')}; fix the line (in a .csv commas separate fields, "
                "and a text that holds some is put between quotation marks), or leave such rows "
                "out (--skip-bad-rows)"
            )
    if bad:
        warnings.warn(
            f"{first_bad}: has another number of fields than there are columns; "
            f"{counted(bad, 'such row')} left out",
            ElmoWarning,
            stacklevel=2,
        )


def _row(row: _Fields, header: _Fields, names: tuple[str, ...]) -> TableRow:
    values = row.values + [""] * (len(names) - len(row.values))
    return TableRow(row.start.place, header.start.place, names, values, row.start.number)


def _fits(row: _Fields, names: Sequence[str]) -> bool:
    """Whether a row has a value for every column with a name, and no more than columns."""
    count = len(row.values)
    return count <= len(names) and not any(names[count:])


def text_rows(
    text: TextFile, format: TableFormat | None, settings: TextSettings, start: int = 1
) -> Iterator[Row]:
    """The text of each row of a table, or of each line of plain text, from line `start` on."""
    if format is None:
        yield from (Row(line.number, line.text) for line in text.lines(start))
        return
    known, column = None, ""
    keep = settings.keep
    for row in table_rows(text.lines(), format, skip_bad=settings.skip_bad_rows):
        if row.names != known:  # which only JSON lines change from row to row
            known, column = row.names, _text_column(settings, row.names, row.named_at)
        if row.line >= start:
            kept = None if keep is None else row.value(keep)
            value = text_or_words(row.value(column), column, row.place)
            yield Row(row.line, value, id_of(kept, keep or "", row.place))


def json_object(contents: str, place: str) -> dict[str, Any]:
    """The JSON object on a line."""
    try:
        value = json.loads(contents)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{place}: is not JSON ({error.msg} at character {error.pos + 1}); each line must "
            "hold an object"
        ) from error
    except (ValueError, RecursionError) as error:  # digits or brackets beyond Python's limits
        why = str(error).partition(";")[0]
        raise FormatError(f"{place}: cannot be read as JSON ({why}); fix the line") from error
    if not isinstance(value, dict):
        raise FormatError(f"{place}: holds {_described(value)}; each line must hold a JSON object")
    return value


def text_or_words(value: Any, column: str, place: str) -> str | list[str]:
    """The text or the words that a row has in `column`; no text where there is no value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _words(value, column, place)
    raise FormatError(
        f"{place}: column {column!r} holds {_described(value)}; it must hold a text or a list of "
        "words"
    )


def id_of(value: Any, column: str, place: str) -> str | int | None:
    """The value of the column that is kept: a text, a whole number or nothing."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if -LARGEST_ID <= value < LARGEST_ID:
            return value
        raise FormatError(
            f"{place}: column {column!r} holds a number of more than 64 bits; write it as a text"
        )
    raise FormatError(
        f"{place}: column {column!r} holds {_described(value)}; only a text or a whole number can "
        "be kept"
    )


def _check_column(name: str, flag: str, names: Sequence[str], place: str) -> None:
    count = names.count(name)
    if count == 0:
        raise InputError(
            f"{place}: has no column {name!r}; name one that is there ({flag}): {listed(names)}"
        )
    if count > 1:
        raise InputError(f"{place}: has {count} columns {name!r}; give them different names")


def usual_columns(
    names: Sequence[str],
    usual: Sequence[tuple[str, ...]],
    what: str,
    place: str,
    flag: str = TEXT_FLAG,
    otherwise: str = "",
) -> tuple[str, ...]:
    """The names that a table has of those which are usual; capital letters do not matter."""
    known = {name.casefold(): name for name in names} | {name: name for name in names}
    found = [wanted for wanted in usual if known.keys() >= set(wanted)]
    if len(found) == 1:
        return tuple(known[name] for name in found[0])
    problem = "more than one column that may hold" if found else "no column that usually holds"
    raise InputError(
        f"{place}: there is {problem} {what} among {listed(names)}; name it ({flag}){otherwise}"
    )


def check_separator(names: Sequence[str], place: str) -> None:
    """Raise where there is one column of which another separator would make several."""
    only = names[0] if len(names) == 1 else ""
    other = next((name for mark, name in SEPARATORS.items() if mark in only), None)
    if other is not None:
        raise InputError(
            f"{place}: is one column, {only[:WORD_SHOWN]!r}, with {other} in it; save the table "
            "with commas between its columns as .csv, or with tabs as .tsv"
        )


def listed(names: Sequence[str]) -> str:
    """Names of columns for an error."""
    named = [repr(name) for name in names if name]
    rest = ["…"] if len(named) > COLUMNS_SHOWN else []
    return ", ".join(named[:COLUMNS_SHOWN] + rest) or "none"


def _words(values: list[Any], column: str, place: str) -> list[str]:
    """A list that is used as it is, if it holds words."""
    if all(isinstance(word, str) for word in values) and " ".join(values).split() == values:
        return values
    wrong = next(word for word in values if not isinstance(word, str) or word.split() != [word])
    shown = repr(wrong[:WORD_SHOWN]) if isinstance(wrong, str) else _described(wrong)
    raise FormatError(
        f"{place}: column {column!r} has {shown} in its list of words; a word is a text without "
        "whitespace"
    )


def _described(value: object) -> str:
    """What a value is, in a few words."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return f"{value!r:.{WORD_SHOWN}}"
    names = {"str": "a text", "list": "a list", "dict": "an object"}
    kind = type(value).__name__
    return names.get(kind, f"a {kind}")


BATCH_ROWS = 256
BUFFER_BYTES = 1 << 20


class ParquetFile:
    """The rows of a Parquet file.

    Attributes:
        path: The file.
        position: Bytes on disk that are read so far, as the share of its rows.
    """

    def __init__(self, path: Path, settings: TextSettings) -> None:
        self.path = path
        self.position = 0
        self._settings = settings

    def rows(self, start: int = 1) -> Iterator[Row]:
        """The rows from number `start` on; groups of rows before it are not read."""
        with self._opened() as file:
            size = self.path.stat().st_size
            column = _text_column(self._settings, file.schema_arrow.names, str(self.path))
            keep = self._settings.keep
            names = [column] if keep is None else list(dict.fromkeys((column, keep)))
            groups, number = _groups_from(file, start)
            for batch in _batches(file, groups, names):
                skipped = min(max(start - number, 0), batch.num_rows)
                yield from self._rows_of(batch.slice(skipped), number + skipped, column)
                number += batch.num_rows
                self.position = size * (number - 1) // file.metadata.num_rows

    def _rows_of(self, batch: Any, number: int, column: str) -> Iterator[Row]:
        """The rows of a batch whose first is row `number`."""
        keep = self._settings.keep
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
            return value.decode("utf-8", self._settings.errors)
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
                f"{self.path}: is not a whole Parquet file ({why}); get it again"
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


def import_pyarrow(path: str | Path) -> Any:
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
