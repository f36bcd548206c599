"""The rows of tables: CSV, TSV and JSON lines, each with the line on which it starts.

In CSV a field between quotation marks may hold commas and line breaks. In TSV a tab ends a field
and a line break a row, always: quotation marks are part of the text. In JSON lines each line is an
object, whose keys are the columns. Lines with nothing on them are no rows.

A row of CSV or TSV that has more or fewer values than columns is refused, or left out on wish.
Columns without a name at the end of a header, as the widespread `spam.csv` has them for text that
spilt over, need not be filled.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from elmokit.bulk.tables import json_object
from elmokit.errors import ElmoWarning, FormatError
from elmokit.plurals import counted
from elmokit.tasks.files.lines import Line
from elmokit.text.corpus import LONGEST_LINE_BYTES


class Row(NamedTuple):
    """The values of a row, and the names of their columns."""

    place: str
    named_at: str  # the place of the header; its own if there is none
    names: Sequence[str]  # the numbers from 1 where there is no header
    values: Sequence[Any]


class Fields(NamedTuple):
    """What a row of CSV or TSV holds."""

    place: str
    values: list[str]


RowReader = Callable[[Sequence[Line], bool, bool], Iterator[Row]]
"""Makes rows of lines, given whether the first names the columns, and whether to skip bad ones."""


def csv_rows(lines: Sequence[Line], header: bool, skip_bad: bool = False) -> Iterator[Row]:
    """The rows of a CSV file."""
    return _named(_csv_fields(lines), header, skip_bad)


def tsv_rows(lines: Sequence[Line], header: bool, skip_bad: bool = False) -> Iterator[Row]:
    """The rows of a TSV file."""
    fields = (Fields(line.place, line.text.split("\t")) for line in lines if line.text)
    return _named(fields, header, skip_bad)


def json_rows(lines: Sequence[Line], header: bool, skip_bad: bool = False) -> Iterator[Row]:
    """The rows of JSON lines, whose columns are named always."""
    for line in lines:
        if line.text.strip():
            values = json_object(line.text, line.place)
            yield Row(line.place, line.place, tuple(values), tuple(values.values()))


def _csv_fields(lines: Sequence[Line]) -> Iterator[Fields]:
    # The library's own limit, for all readers in the process, is less than a chapter of a book.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE_BYTES))
    reader = csv.reader((f"{line.text}\n" for line in lines), strict=True)
    while reader.line_num < len(lines):
        place = lines[reader.line_num].place
        try:
            values = next(reader)
        except csv.Error as error:
            why = str(error).partition(" - ")[0]  # the rest is advice to programmers
            raise FormatError(
                f"{place}: is not CSV ({why}); put a field that holds commas, quotation marks or "
                "line breaks between quotation marks, and double those in it"
            ) from error
        if values:
            yield Fields(place, values)


def _named(rows: Iterator[Fields], header: bool, skip_bad: bool) -> Iterator[Row]:
    """Rows with the names of their columns: of the first row, or else their numbers."""
    first = next(rows, None)
    if first is None:
        return
    names = tuple(name.strip() for name in first.values)
    if not header:
        names = tuple(str(number) for number, _ in enumerate(names, start=1))
        yield Row(first.place, first.place, names, first.values)
    left_out = []
    for row in rows:
        if skip_bad and not _fits(row, names):
            left_out.append(row.place)
            continue
        _check_width(row, names)
        values = row.values + [""] * (len(names) - len(row.values))
        yield Row(row.place, first.place, names, values)
    if left_out:
        warnings.warn(
            f"{left_out[0]}: has another number of fields than there are columns; "
            f"{counted(len(left_out), 'such row')} left out",
            ElmoWarning,
            stacklevel=2,
        )


def _fits(row: Fields, names: Sequence[str]) -> bool:
    """Whether a row has a value for every column with a name, and no more than columns."""
    count = len(row.values)
    return count <= len(names) and not any(names[count:])


def _check_width(row: Fields, names: Sequence[str]) -> None:
    if not _fits(row, names):
        raise FormatError(
            f"{row.place}: has {counted(len(row.values), 'field')}, and the first row has "
            f"{len(names)}; mend the line (in a .csv commas separate fields, and a text that holds "
            "some is put between quotation marks), or leave such rows out (--skip-bad-rows)"
        )
