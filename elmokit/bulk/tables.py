"""Rows of JSON lines, CSV and TSV files: the column with the text, and one that is kept.

A row has the number of the line on which it starts. Lines with nothing on them are no rows, as for
other readers of these files; a row whose text is blank or missing (`null`) is one without words. A
row of CSV or TSV with more or fewer fields than columns is refused, or left out if that is asked
for.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmokit.bulk.lines import TextFile
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.plurals import counted
from elmokit.text.corpus import LONGEST_LINE_BYTES

USUAL_COLUMNS = ("sentence", "text")
COLUMNS_SHOWN = 20
WORD_SHOWN = 40
LARGEST_ID = 1 << 63  # what a column of whole numbers can hold, in every format
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


class Row(NamedTuple):
    """What is used of one row of a table, or of one line of a text."""

    line: int  # where it starts, or its number in a Parquet file; from 1
    value: str | list[str]  # a text, or words
    id: str | int | None = None


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are used.

    Attributes:
        column: The one with the text or the words; None for "sentence" or "text", whichever the
            table has.
        keep: The one whose value becomes the `id` of a record, or None.
        skip_bad_rows: Leave out rows of CSV and TSV that have more or fewer fields than there are
            columns; a warning counts them.
    """

    column: str | None = None
    keep: str | None = None
    skip_bad_rows: bool = False

    def choose(self, names: Sequence[str], place: str) -> str:
        """The column with the text, in a table that has the columns `names`."""
        column = _usual_column(names, place) if self.column is None else self.column
        _check_column(column, "--column", names, place)
        if self.keep is not None:
            _check_column(self.keep, "--keep", names, place)
        return column


Reader = Callable[[TextFile, Columns, int], Iterator[Row]]


def json_rows(text: TextFile, columns: Columns, start: int = 1) -> Iterator[Row]:
    """The rows of JSON lines from line `start` on: each line is an object."""
    for line, contents in text.lines(start):
        if contents and not contents.isspace():
            place = f"{text.path}, line {line}"
            values = json_object(contents, place)
            column = columns.choose(list(values), place)
            keep = columns.keep
            kept = None if keep is None else id_of(values[keep], keep, place)
            yield Row(line, text_or_words(values[column], column, place), kept)


def csv_rows(text: TextFile, columns: Columns, start: int = 1) -> Iterator[Row]:
    """The rows of a CSV file from line `start` on; the first line names the columns."""
    return _rows_of_fields(text, _csv_fields(text), columns, start, ",")


def tsv_rows(text: TextFile, columns: Columns, start: int = 1) -> Iterator[Row]:
    """The rows of a TSV file from line `start` on; the first line names the columns.

    A tab ends a field and a line break a row, always: quotation marks are part of the text.
    """
    fields = ((line, contents.split("\t")) for line, contents in text.lines() if contents)
    return _rows_of_fields(text, fields, columns, start, "\t")


READERS: dict[str, Reader] = {
    ".jsonl": json_rows,
    ".ndjson": json_rows,
    ".csv": csv_rows,
    ".tsv": tsv_rows,
}


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


def _usual_column(names: Sequence[str], place: str) -> str:
    found = [name for name in USUAL_COLUMNS if name in names]
    if len(found) == 1:
        return found[0]
    which = "both" if found else "neither"
    pair = f" {'and' if found else 'nor'} ".join(map(repr, USUAL_COLUMNS))
    raise InputError(
        f"{place}: has {which} {pair} among its columns ({_listed(names)}); say which to read "
        "(--column)"
    )


def _check_column(name: str, flag: str, names: Sequence[str], place: str) -> None:
    count = names.count(name)
    if count == 0:
        raise InputError(
            f"{place}: has no column {name!r}; name one that is there ({flag}): {_listed(names)}"
        )
    if count > 1:
        raise InputError(f"{place}: has {count} columns {name!r}; give them different names")


def _listed(names: Sequence[str]) -> str:
    rest = ["…"] if len(names) > COLUMNS_SHOWN else []
    return ", ".join([*map(repr, names[:COLUMNS_SHOWN]), *rest]) or "none"


def _csv_fields(text: TextFile) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row starts, and its fields."""
    # The library's own limit, for all readers in the process, is less than a chapter of a book.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE_BYTES))
    reader = csv.reader((f"{contents}\n" for _, contents in text.lines()), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            why = str(error).partition(" - ")[0]  # the rest is advice to programmers
            raise FormatError(
                f"{text.path}, line {line}: is not CSV ({why}); put a field that holds commas, "
                "quotation marks or line breaks between quotation marks, and double those in it"
            ) from error
        if fields is None:
            return
        if fields:
            yield line, fields


def _rows_of_fields(
    text: TextFile,
    fields: Iterator[tuple[int, list[str]]],
    columns: Columns,
    start: int,
    separator: str,
) -> Iterator[Row]:
    """The rows from line `start` on of a table whose first row names the columns."""
    line, names = next(fields, (1, []))
    _check_separator(names, columns, separator, f"{text.path}, line {line}")
    column = names.index(columns.choose(names, f"{text.path}, line {line}"))
    keep = None if columns.keep is None else names.index(columns.keep)
    bad: list[int] = []
    for line, values in fields:
        if line < start:
            continue
        if len(values) == len(names):
            yield Row(line, values[column], None if keep is None else values[keep])
        elif columns.skip_bad_rows:
            bad.append(line)
        else:
            raise FormatError(
                f"{text.path}, line {line}: has {counted(len(values), 'field')}, but there are "
                f"{counted(len(names), 'column')}; mend the line, or leave such rows out "
                "(--skip-bad-rows)"
            )
    if bad:
        _report_left_out(text, bad)


def _report_left_out(text: TextFile, lines: Sequence[int]) -> None:
    rows = counted(len(lines), "row")
    warnings.warn(
        f"{text.path}: {rows} of another number of fields left out, the first on line {lines[0]}",
        ElmoWarning,
        stacklevel=2,
    )


def _check_separator(names: Sequence[str], columns: Columns, separator: str, place: str) -> None:
    """Refuse a header that is one name where another separator would make several of it."""
    if len(names) != 1 or names[0] in (columns.column, *USUAL_COLUMNS):
        return
    other = next((mark for mark in SEPARATORS if mark in names[0] and mark != separator), None)
    if other is not None:
        raise InputError(
            f"{place}: is one column, {names[0][:WORD_SHOWN]!r}, with {SEPARATORS[other]} in it; "
            "save the table with commas between its columns as .csv, or with tabs as .tsv"
        )


def _words(values: list[Any], column: str, place: str) -> list[str]:
    """A list that is used as it is, if it holds words."""
    if all(isinstance(word, str) for word in values) and " ".join(values).split() == values:
        return values
    wrong = next(word for word in values if not isinstance(word, str) or word.split() != [word])
    shown = repr(wrong[:WORD_SHOWN]) if isinstance(wrong, str) else _described(wrong)
    raise FormatError(
        f"{place}: column {column!r} has {shown} in its list of words; a word is a text without "
        "blanks"
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
