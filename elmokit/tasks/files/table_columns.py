"""Which columns of a table hold the label and the texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.config import Column
from elmokit.tasks.files.rows import Row

USUAL_LABELS = (
    ("label",),
    ("gold_label",),  # SNLI
    ("entailment_judgment",),  # SICK
    ("class",),
    ("category",),
    ("sentiment",),
    ("v1",),  # the SMS Spam Collection
)
WORDS = "words"
"""Where JSON lines have a list of words: the same text as any beside it, split already."""
NUMBER = re.compile(r"-?[1-9][0-9]*")
COLUMNS_SHOWN = 20
NAME_SHOWN = 40
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


class Texts(NamedTuple):
    """The texts that a row is read for."""

    called: str  # by errors
    usual: Sequence[tuple[str, ...]]  # the names, in lower case, that their columns may have

    @property
    def parts(self) -> int:
        """How many they are."""
        return len(self.usual[0])


TEXT = Texts("the text", [("text",), ("sentence",), ("message",), ("v2",)])
PAIR = Texts(
    "two texts",
    [
        ("first", "second"),
        ("premise", "hypothesis"),
        ("sentence1", "sentence2"),
        ("sentence_a", "sentence_b"),
    ],
)


@dataclass(frozen=True)
class TableSettings:
    """What a table has in which column.

    Attributes:
        label: The column with the label; None for the one with a usual name, such as "label".
        texts: The column with the text, or the two of a pair; none for those with usual names.
        header: The first line names the columns. If not, they have numbers, and unless others are
            given the label is column 1 and the texts follow it. (JSON lines name their columns.)
        skip_labels: Rows with such a label are left out, and a warning counts them; None for the
            "-" of SNLI in a table of pairs.
        skip_bad_rows: Rows with more or fewer values than columns are left out, and a warning
            counts them.
    """

    label: Column | None = None
    texts: tuple[Column, ...] = ()
    header: bool = True
    skip_labels: tuple[str, ...] | None = None
    skip_bad_rows: bool = False

    def __post_init__(self) -> None:
        for name in ("texts", "skip_labels"):
            value = getattr(self, name)
            if isinstance(value, str | int):
                raise ConfigError(f"{name} is {value!r}; give a list, though it be of one")
            if value is not None:
                object.__setattr__(self, name, tuple(value))


class Choice(NamedTuple):
    """Where in a row the values are that are used."""

    label: int
    texts: tuple[int, ...]


def choose_columns(
    rows: Iterable[Row], settings: TableSettings, texts: Texts
) -> Iterator[tuple[Row, Choice]]:
    """Each row, and where its label and its texts are."""
    known: tuple[Sequence[str], bool] | None = None
    for row in rows:
        decisive = row.names, _has_words(row)
        if decisive != known:  # which only JSON lines change from row to row
            known, choice = decisive, _choice(row, settings, texts)
        yield row, choice


def text_positions(row: Row, settings: TableSettings, texts: Texts) -> tuple[int, ...]:
    """Where the texts of a row without a label are."""
    if settings.texts:
        columns = _text_columns(row, settings, texts)
    elif not settings.header and len(row.names) == texts.parts:
        columns = range(1, 1 + texts.parts)
    else:
        _check_separator(row)
        columns = _text_columns(row, settings, texts)
    return tuple(_position(column, row) for column in columns)


def _choice(row: Row, settings: TableSettings, texts: Texts) -> Choice:
    _check_count(row, texts.parts)
    label = _position(_label_column(row, settings), row)
    positions = [_position(column, row) for column in _text_columns(row, settings, texts)]
    if len({label, *positions}) < 1 + len(positions):
        raise InputError(f"{row.named_at}: one column is to be used twice; name different ones")
    return Choice(label, tuple(positions))


def _label_column(row: Row, settings: TableSettings) -> Column:
    if settings.label is not None:
        return settings.label
    return _usual(row, USUAL_LABELS, "the label", "--label-column")[0] if settings.header else 1


def _text_columns(row: Row, settings: TableSettings, texts: Texts) -> Sequence[Column]:
    if settings.texts and len(settings.texts) != texts.parts:
        named = ", ".join(map(repr, settings.texts))
        raise InputError(
            f"{row.named_at}: the texts are to be in {named}; name {texts.parts} (--text-column)"
        )
    if settings.texts:
        return settings.texts
    if not settings.header:
        return range(2, 2 + texts.parts)
    if texts == TEXT and _has_words(row):
        return (WORDS,)
    return _usual(row, texts.usual, texts.called, "--text-column")


def _has_words(row: Row) -> bool:
    """Whether a row has a list of words; elsewhere a column of that name may hold a number."""
    return WORDS in row.names and isinstance(row.values[row.names.index(WORDS)], list)


def _usual(row: Row, usual: Sequence[tuple[str, ...]], what: str, flag: str) -> tuple[str, ...]:
    """The names that a row has of those which are usual; capital letters do not matter."""
    names = {name.casefold(): name for name in row.names} | {name: name for name in row.names}
    found = [wanted for wanted in usual if names.keys() >= set(wanted)]
    if len(found) == 1:
        return tuple(names[name] for name in found[0])
    problem = "more than one column that may hold" if found else "no column that usually holds"
    if row.named_at == row.place:  # by itself, as JSON lines are
        example = ", ".join(f'"{name}": "…"' for name in usual[0])
        otherwise = "leave the others out" if found else f"write {{{example}}}"
    else:
        otherwise = "say that the first line names no columns (--no-header)"
    raise InputError(
        f"{row.named_at}: there is {problem} {what} among {_listed(row.names)}; name it ({flag}), "
        f"or {otherwise}"
    )


def _position(column: Column, row: Row) -> int:
    """Where a column is: that of the name, or else of the number."""
    count = row.names.count(str(column))
    if isinstance(column, str) and count:
        if count > 1:
            raise InputError(
                f"{row.named_at}: there are {count} columns {column!r}; give them different names"
            )
        return row.names.index(column)
    number = int(column) if NUMBER.fullmatch(str(column)) else 0
    if not 0 < abs(number) <= len(row.names):
        raise InputError(
            f"{row.named_at}: there is no column {column!r}; name one of {_listed(row.names)}, or "
            "count them from 1"
        )
    return number - 1 if number > 0 else len(row.names) + number


def _check_count(row: Row, texts: int) -> None:
    needed = f"a label and {'a text' if texts == 1 else 'two texts'}"
    if len(row.names) < texts + 1:
        _check_separator(row)
        raise InputError(
            f"{row.named_at}: has too few columns ({_listed(row.names)}) for {needed}; put commas "
            "between them in a .csv, tabs in a .tsv, and both into each object of a .jsonl"
        )


def _check_separator(row: Row) -> None:
    """Refuse one column of which another separator would make several."""
    only = row.names[0] if len(row.names) == 1 else ""
    other = next((name for mark, name in SEPARATORS.items() if mark in only), None)
    if other is not None:
        raise InputError(
            f"{row.named_at}: is one column, {only[:NAME_SHOWN]!r}, with {other} in it; save the "
            "table with commas between its columns as .csv, or with tabs as .tsv"
        )


def _listed(names: Sequence[str]) -> str:
    named = [repr(name) for name in names if name]
    rest = ["…"] if len(named) > COLUMNS_SHOWN else []
    return ", ".join(named[:COLUMNS_SHOWN] + rest) or "none"
