"""Tables: rows of CSV, TSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.text_files import (
    LONGEST_LINE_BYTES,
    Column,
    Errors,
    Line,
    TextSettings,
    no_text,
    reading_errors,
)
from elmokit.system import counted, import_extra

USUAL_TEXTS = (("text",), ("sentence",), ("message",), ("document",), ("v2",))
"""How a column that holds a text is usually called; the last is the SMS Spam Collection's."""
USUAL_PAIRS = (
    ("first", "second"),
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
)
USUAL_LABELS = (
    ("label",),
    ("gold_label",),  # SNLI
    ("entailment_judgment",),  # SICK
    ("class",),
    ("category",),
    ("sentiment",),
    ("v1",),  # the SMS Spam Collection
)
NUMBER = re.compile(r"-?[1-9][0-9]*")
COLUMNS_SHOWN = 20
WORD_SHOWN = 40
LARGEST_ID = 1 << 63  # what a column of whole numbers can hold, in every format
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
TEXT_FLAG, LABEL_FLAG = "--text-column", "--label-column"


class Row(NamedTuple):
    """What is used of one row of a table, or of one line of a text."""

    line: int  # where it starts, or its number in a Parquet file; from 1
    value: str | list[str]  # a text, or words
    id: str | int | None = None
    position: int = 0  # bytes of the file that are read so far


def _used_columns(settings: TextSettings, names: Sequence[str], place: str) -> list[int]:
    """Where the text is, in a table that has the columns `names`; then what becomes the `id`."""
    columns: Sequence[Column] = settings.text_columns
    if not columns:
        check_separator(names, place)
        columns = usual_columns(names, USUAL_TEXTS, "the text", place)
    if len(columns) > 1:
        raise InputError(f"{place}: the text is in one column; name one ({TEXT_FLAG})")
    found = [position_of(columns[0], names, place)]
    return found + [position_of(name, names, place, "--keep") for name in settings.kept_columns]


class TableRow(NamedTuple):
    """The values of a row, and the names of their columns."""

    place: str
    named_at: str  # the place of the header; its own if there is none
    names: Sequence[str]  # the numbers from 1 where there is no header
    values: Sequence[Any]
    start: Line  # its first

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


FASTA_SUFFIXES = (".fasta", ".fa", ".faa")


def fasta_rows(lines: Iterable[Line]) -> Iterator[Row]:
    """The proteins of a FASTA file: a residue is a word, the first word of its line the id."""
    row: Row | None = None
    residues: list[str] = []
    for line in lines:
        text = line.text.strip()
        if text.startswith(">"):
            if row is not None:
                yield row._replace(value=residues)
            name = (text[1:].split() or [str(line.number)])[0]
            row, residues = Row(line.number, [], name), []
        elif row is None and text:
            raise FormatError(f"{line.place}: is not FASTA; a line with > and a name comes first")
        elif not text.startswith(";"):  # a comment
            residues += "".join(text.split())
        row = row and row._replace(position=line.position)
    if row is not None:
        yield row._replace(value=residues)


def table_rows(
    lines: Iterable[Line],
    format: TableFormat,
    settings: TextSettings | None = None,
    *,
    labelled: bool = False,
) -> Iterator[TableRow]:
    """The rows of a table, of which `settings` say whether it has a header, and what of bad rows.

    Without a header columns have numbers; JSON lines name theirs. In TSV a tab ends a field and a
    line break a row, always: quotation marks are part of the text. A blank line between rows is
    passed over; between `labelled` ones it is an error.
    """
    settings = settings or TextSettings()
    fields = _csv_fields(lines) if format == "csv" else _line_fields(lines, format)
    filled = _without_blank_lines(fields, labelled)
    if format == "jsonl":
        return _json_rows(filled)
    return _named(filled, settings.header, settings.skip_bad_rows)


_Fields = tuple[Line, list[str]]
"""The first line of a row, and its fields, or the text of a JSON object; none on a blank line."""


def _without_blank_lines(rows: Iterable[_Fields], labelled: bool) -> Iterator[_Fields]:
    blank: Line | None = None
    for start, values in rows:
        if not values:
            blank = blank or start
            continue
        if labelled and blank is not None:
            raise FormatError(f"{blank.place}: is blank, between labelled rows; remove the line")
        yield start, values


def _json_rows(rows: Iterable[_Fields]) -> Iterator[TableRow]:
    for start, [text] in rows:
        values = json_object(text, start.place)
        yield TableRow(start.place, start.place, tuple(values), tuple(values.values()), start)


def _line_fields(lines: Iterable[Line], format: TableFormat) -> Iterator[_Fields]:
    """The rows of a table in which each line is one."""
    for line in lines:
        if format == "tsv":
            yield line, line.text.split("\t") if line.text else []
        else:
            yield line, [line.text] if line.text.strip() else []


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
        yield row[0], values


def _named(rows: Iterator[_Fields], header: bool, skip_bad: bool) -> Iterator[TableRow]:
    """Rows with the names of their columns: of the first row, or else their numbers."""
    first = next(rows, None)
    if first is None:
        return
    named_at, names = first[0].place, tuple(name.strip() for name in first[1])
    if not header:
        names = tuple(str(number) for number, _ in enumerate(names, start=1))
        rows = chain([first], rows)
    bad, first_bad = 0, ""
    for start, values in rows:
        missing = len(names) - len(values)
        # Columns at the end may be missing where they have no name.
        if missing >= 0 and not any(names[len(values) :]):
            yield TableRow(start.place, named_at, names, values + [""] * missing, start)
        elif skip_bad:
            bad, first_bad = bad + 1, first_bad or start.place
        else:
            raise FormatError(
                f"{start.place}: has {counted(len(values), 'field')}, but there are "
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


def text_rows(
    lines: Iterable[Line], format: TableFormat, settings: TextSettings, start: int = 1
) -> Iterator[Row]:
    """The text of each row of a table, from line `start` on."""
    known, used = None, [0]
    for row in table_rows(lines, format, settings):
        if row.names != known:  # which only JSON lines change from row to row
            known, used = row.names, _used_columns(settings, row.names, row.named_at)
        if row.start.number >= start:
            cells = [(row.names[at], row.values[at]) for at in used]
            yield _text_row(row.start.number, cells, row.place, row.start.position)


def _text_row(line: int, cells: list[tuple[str, Any]], place: str, position: int) -> Row:
    """A row of which the columns that are used have these names and values."""
    text = text_or_words(cells[0][1], cells[0][0], place)
    kept = {name: id_of(value, name, place) for name, value in cells[1:]}
    id = json.dumps(kept, ensure_ascii=False) if len(kept) > 1 else next(iter(kept.values()), None)
    return Row(line, text, id, position)


def json_object(contents: str, place: str) -> dict[str, Any]:
    """The JSON object on a line."""
    try:
        value = json.loads(contents)
    except (ValueError, RecursionError) as error:  # or digits or brackets beyond Python's limits
        why = str(error).partition(";")[0]
        if isinstance(error, json.JSONDecodeError):
            why = f"{error.msg} at character {error.pos + 1}"
        raise FormatError(f"{place}: is not JSON ({why}); each line must hold an object") from error
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


def position_of(column: Column, names: Sequence[str], place: str, flag: str = TEXT_FLAG) -> int:
    """Where a column is: that of the name, or else of the number."""
    count = names.count(str(column)) if isinstance(column, str) else 0
    if count > 1:
        raise InputError(f"{place}: has {count} columns {column!r}; give them different names")
    if count:
        return names.index(str(column))
    number = int(column) if NUMBER.fullmatch(str(column)) else 0
    if not 0 < abs(number) <= len(names):
        raise InputError(
            f"{place}: has no column {column!r}; name one that is there ({flag}): {listed(names)}"
        )
    return number - 1 if number > 0 else len(names) + number


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


def parquet_rows(path: Path, settings: TextSettings, start: int = 1) -> Iterator[Row]:
    """The rows of a Parquet file from number `start` on; groups of rows before it are not read."""
    arrow = import_pyarrow()
    with reading_errors(path, "Parquet", arrow.ArrowException):
        size = path.stat().st_size
        if not size:
            raise no_text(path)
        # With a buffer, a group of rows is read as it is used, not as a whole.
        with arrow.parquet.ParquetFile(str(path), buffer_size=BUFFER_BYTES) as file:
            names, count = file.schema_arrow.names, file.metadata.num_rows
            used = [names[at] for at in _used_columns(settings, names, str(path))]
            for name in used:  # pyarrow finds columns by their names only
                position_of(name, names, str(path))
            for number, values in _parquet_values(file, used, start):
                place = f"{path}, row {number}"
                decoded = [_decoded(value, settings.errors, place) for value in values]
                cells = list(zip(used, decoded, strict=True))
                yield _text_row(number, cells, place, size * number // count)


def _parquet_values(
    file: Any, columns: list[str], start: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The values of some columns of each row from number `start` on."""
    sizes = (file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
    firsts = list(accumulate(sizes, initial=1))  # rows of the groups, and the one behind all
    group = bisect_right(firsts, start) - 1
    groups, number = list(range(group, file.num_row_groups)), firsts[group]
    if not groups:  # which pyarrow would take for all
        return
    names = list(dict.fromkeys(columns))
    for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names, use_threads=False):
        skipped = min(max(start - number, 0), batch.num_rows)
        values = [_values(batch.column(name).slice(skipped)) for name in columns]
        yield from enumerate(zip(*values, strict=True), number + skipped)
        number += batch.num_rows


def _decoded(value: Any, errors: Errors, place: str) -> Any:
    """Bytes, alone or in a list, as text; any other value as it is."""
    if isinstance(value, list):
        return [_decoded(item, errors, place) for item in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{place}: is not UTF-8 ({error.reason}); convert the file, or read such bytes as "
            "U+FFFD (--errors replace)"
        ) from None


def _values(array: Any) -> list[Any]:
    """Values as plain ones; texts, alone or in lists, as the bytes that they are in the file.

    pyarrow would decode them too, but not say which row is no UTF-8.
    """
    pyarrow = import_pyarrow()
    for type in (pyarrow.large_binary(), pyarrow.list_(pyarrow.large_binary())):
        try:
            return array.cast(type).to_pylist()
        except pyarrow.ArrowNotImplementedError:
            pass
    return array.to_pylist()


def import_pyarrow() -> Any:
    """The library for Parquet files, which is an extra."""
    import_extra("pyarrow.compute", "parquet")
    import_extra("pyarrow.parquet", "parquet")
    return import_extra("pyarrow", "parquet")
