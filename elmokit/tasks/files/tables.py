"""Tables of labelled texts, or of labelled pairs of texts: CSV, TSV, JSON lines."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.tasks.examples import PairExample, TextExample, Words, is_word
from elmokit.tasks.files.lines import ENCODING, read_lines, suffix
from elmokit.tasks.files.rows import Row, RowReader, csv_rows, json_rows, tsv_rows
from elmokit.tasks.files.table_columns import PAIR, TEXT, TableSettings, Texts, choose_columns

Tokenize = Callable[[str], Sequence[str]]
"""Splits a text into words; `str.split` does where they are separated by blanks."""
TableFormat = Literal["csv", "tsv", "jsonl"]

ROWS: dict[TableFormat, RowReader] = {"csv": csv_rows, "tsv": tsv_rows, "jsonl": json_rows}
SUFFIXES: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
NO_AGREEMENT = "-"
"""SNLI's label for pairs that its annotators did not agree on; published results are without."""
VALUE_SHOWN = 40


class _Record(NamedTuple):
    """What is used of a row."""

    place: str
    label: str
    texts: tuple[Words, ...]


def read_texts(
    path: str | Path,
    settings: TableSettings | None = None,
    *,
    tokenize: Tokenize = str.split,
    format: TableFormat | None = None,
    encoding: str = ENCODING,
) -> list[TextExample]:
    """The rows of a table, with one text each.

    Args:
        path: The file.
        settings: What is in which column.
        tokenize: Splits a text into words; a list of words in JSON stays as it is.
        format: None for what the name of the file says.
        encoding: How the file writes characters as bytes.
    """
    records = _records(path, settings or TableSettings(), TEXT, tokenize, format, encoding)
    return [TextExample(text, label, place) for place, label, (text,) in records]


def read_pairs(
    path: str | Path,
    settings: TableSettings | None = None,
    *,
    tokenize: Tokenize = str.split,
    format: TableFormat | None = None,
    encoding: str = ENCODING,
) -> list[PairExample]:
    """The rows of a table, with two texts each; arguments as of `read_texts`."""
    settings = settings or TableSettings()
    if settings.skip_labels is None:
        settings = replace(settings, skip_labels=(NO_AGREEMENT,))
    records = _records(path, settings, PAIR, tokenize, format, encoding)
    return [PairExample(first, second, label, place) for place, label, (first, second) in records]


def _records(
    path: str | Path,
    settings: TableSettings,
    texts: Texts,
    tokenize: Tokenize,
    format: TableFormat | None,
    encoding: str,
) -> list[_Record]:
    """What is used of each row that is not left out; there is at least one."""
    format = format or _format_of(path)
    if format == "jsonl":
        settings = replace(settings, header=True)
    rows = ROWS[format](read_lines(path, encoding), settings.header, settings.skip_bad_rows)
    records: list[_Record] = []
    left_out = Counter[str]()
    for row, choice in choose_columns(rows, settings, texts):
        label = _label(row, choice.label)
        if label in (settings.skip_labels or ()):
            left_out[label] += 1
            continue
        if label == "":
            raise FormatError(f"{row.place}: has no label; give it one, or leave the row out")
        words = tuple(_words(row, position, tokenize) for position in choice.texts)
        records.append(_Record(row.place, label, words))
    _report(left_out, path)
    if not records:
        raise InputError(f"{path}: holds no example; name a file that has some")
    return records


def _format_of(path: str | Path) -> TableFormat:
    if suffix(path) not in SUFFIXES:
        raise InputError(
            f"{path}: its name does not say what kind of table it is; give the format, or a name "
            f"that ends in one of {', '.join(SUFFIXES)}"
        )
    return SUFFIXES[suffix(path)]


def _writable(label: str, row: Row) -> str:
    """Refuse a label that no file can hold: JSON can write half a pair of surrogates."""
    try:
        label.encode()
    except UnicodeEncodeError:
        raise FormatError(f"{row.place}: the label {label!r} is no text; mend it") from None
    return label


def _label(row: Row, position: int) -> str:
    """The label of a row as it is written, blanks around it apart; "" if there is none."""
    value = row.values[position]
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if isinstance(value, str | int):
        return _writable(str(value).strip(), row)
    raise FormatError(
        f"{row.place}: column {row.names[position]!r} holds {_described(value)}; a label is a text "
        "or a whole number"
    )


def _words(row: Row, position: int, tokenize: Tokenize) -> Words:
    """The words of a text, or a list of them as it is; there is at least one."""
    value, name = row.values[position], row.names[position]
    if isinstance(value, str):
        words = tuple(tokenize(value))
    elif value is None or (isinstance(value, list) and all(map(is_word, value))):
        words = tuple(value or ())
    else:
        raise FormatError(
            f"{row.place}: column {name!r} holds {_described(value)}; it must hold a text or a "
            "list of words"
        )
    if not words:
        raise FormatError(f"{row.place}: column {name!r} holds no words; leave the row out")
    return words


def _report(left_out: Counter[str], path: str | Path) -> None:
    for label, count in left_out.items():
        warnings.warn(
            f"{path}: rows with the label {label!r} are left out: {count:,}",
            ElmoWarning,
            stacklevel=4,
        )


def _described(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"
