"""Reader of labelled examples: a file's name and the kind of task say what format it has.

A file whose name says nothing, or the wrong thing, is read with `format`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.tables import (
    LABEL_FLAG,
    TABLE_SUFFIXES,
    TEXT_FLAG,
    USUAL_LABELS,
    USUAL_PAIRS,
    USUAL_TEXTS,
    TableFormat,
    TableRow,
    check_separator,
    listed,
    position_of,
    table_rows,
    usual_columns,
)
from elmokit.io.text_files import Column, ExampleFormat, TextSettings, read_lines, suffix
from elmokit.tasks.config import Kind
from elmokit.tasks.examples import PairExample, TextExample, Words, is_word
from elmokit.tasks.files.conll import read_columns, read_conll_coref, read_conllu, read_props
from elmokit.tasks.files.gap import read_gap
from elmokit.tasks.files.squad import read_squad
from elmokit.tasks.files.trees import read_trees
from elmokit.text.tokenizer import Tokenizer

SUFFIXES: dict[Kind, Mapping[str, ExampleFormat]] = {
    "text": TABLE_SUFFIXES,
    "tags": {".conllu": "conllu"},
    "pair": TABLE_SUFFIXES,
    "reading": {".json": "squad"},
    "coref": {".tsv": "gap"},
    "srl": {".tsv": "propbank"},
}
OTHERS: dict[Kind, ExampleFormat] = {
    "text": "trees",
    "tags": "columns",
    "coref": "coref",
    "srl": "conll2012",
}
"""What files with any other suffix are taken for: treebanks and CoNLL files have no usual one."""
FOREIGN: dict[Kind, tuple[str, ...]] = {
    "text": (".conllu", ".conll", ".bio", ".iob", ".json"),
    "tags": (".csv", ".jsonl", ".ndjson", ".json"),  # but not .tsv: many CoNLL files are named so
    "coref": (".csv", ".jsonl", ".ndjson", ".json", ".conllu"),
    "srl": (".csv", ".jsonl", ".ndjson", ".json", ".conllu"),
}
"""Suffixes that a file of another kind of task has."""
WANTED: dict[Kind, str] = {
    "text": "labelled texts: a table (.csv, .tsv, .jsonl) or sentiment trees (.txt)",
    "tags": "tagged words: CoNLL columns (.conll, .txt) or CoNLL-U (.conllu)",
    "pair": "labelled pairs of texts: a table (.csv, .tsv, .jsonl)",
    "reading": "questions about texts: SQuAD v1.1 (.json)",
    "coref": "documents with chains: CoNLL-2012 columns (.conll), or GAP (.tsv)",
    "srl": "semantic roles: PropBank columns (.tsv), or those of CoNLL-2012 (.conll)",
}
FIXED: tuple[ExampleFormat, ...] = ("trees", "squad", "coref", "gap", "propbank", "conll2012")
"""Formats in which everything has its place."""
NO_AGREEMENT = "-"
"""SNLI's label for pairs that its annotators did not agree on; published results are without."""
WORDS = "words"
"""Where JSON lines have a list of words: the same text as any beside it, split already."""
VALUE_SHOWN = 40


def read_examples(
    kind: Kind, path: str | Path, settings: TextSettings, tokenizer: Tokenizer
) -> list[Any]:
    """The examples of a file; a format uses of the settings what concerns it."""
    found = format_of(kind, path, settings.format)
    if found in FIXED:
        _check_no_columns(found, path, settings)
    match found:
        case "trees":
            return read_trees(path, settings)
        case "columns":
            return read_columns(path, settings)
        case "conllu":
            return read_conllu(path, settings)
        case "squad":
            return read_squad(path, settings, tokenizer)
        case "gap":
            return read_gap(path, settings, tokenizer)
        case "coref":
            return read_conll_coref(path, settings)
        case "propbank" | "conll2012":
            return read_props(path, found, settings)
        case "csv" | "tsv" | "jsonl":
            return _read_table(kind, path, found, settings, tokenizer)


def format_of(kind: Kind, path: str | Path, asked_for: str | None) -> ExampleFormat:
    """The format that a file is read in."""
    if asked_for is not None:
        formats = (*SUFFIXES[kind].values(), OTHERS.get(kind))
        found = next((each for each in formats if each == asked_for), None)
        if found is None:
            raise InputError(f"{path}: is read as {asked_for!r}, but the task needs {WANTED[kind]}")
        return found
    ending = suffix(path)
    found = SUFFIXES[kind].get(ending) or OTHERS.get(kind)
    if found is None or ending in FOREIGN.get(kind, ()):
        named = f"a {ending} file" if ending else "without a suffix"
        raise InputError(f"{path}: is {named}, but the task needs {WANTED[kind]}")
    return found


def after_training(
    kind: Kind, path: str | Path, settings: TextSettings, training: TextSettings
) -> TextSettings:
    """The settings, without columns that are as in training where a format lets nobody choose."""
    if format_of(kind, path, settings.format) not in FIXED:
        return settings
    label, texts = settings.label_column, settings.text_column
    return replace(
        settings,
        label_column=None if label == training.label_column else label,
        text_column=None if texts == training.text_column else texts,
    )


def _check_no_columns(found: ExampleFormat, path: str | Path, settings: TextSettings) -> None:
    columns = {LABEL_FLAG: settings.label_column, TEXT_FLAG: settings.text_column}
    named = [flag for flag, column in columns.items() if column is not None]
    if named:
        raise InputError(
            f"{path}: is read as {found!r}, in which no column can be chosen; leave out "
            f"{' and '.join(named)}, or say that it is something else (--format)"
        )


class TextColumns(NamedTuple):
    """The texts that a row is read for."""

    called: str  # by errors
    usual: Sequence[tuple[str, ...]]  # the names, in lower case, that their columns may have

    @property
    def parts(self) -> int:
        """How many they are."""
        return len(self.usual[0])


TEXT = TextColumns("the text", USUAL_TEXTS)
PAIR = TextColumns("two texts", USUAL_PAIRS)


def _read_table(
    kind: Kind, path: str | Path, format: TableFormat, settings: TextSettings, tokenizer: Tokenizer
) -> list[Any]:
    """The rows of a table that are not left out; there is at least one."""
    if format == "jsonl":
        settings = replace(settings, header=True)
    lines = read_lines(path, settings.encoding, settings.errors)
    rows = table_rows(lines, format, settings, labelled=True)
    texts = PAIR if kind == "pair" else TEXT
    examples: list[TextExample | PairExample] = []
    left_out = 0
    for row, label_at, texts_at in _choose_columns(rows, settings, texts):
        label = _label(row, label_at)
        if label == NO_AGREEMENT and kind == "pair":
            left_out += 1
            continue
        words = [_words(row, position, tokenizer) for position in texts_at]
        if kind == "pair":
            examples.append(PairExample(words[0], words[1], label, row.place))
        else:
            examples.append(TextExample(words[0], label, row.place))
    if left_out:
        warnings.warn(
            f"{path}: rows with the label {NO_AGREEMENT!r} are left out: {left_out:,}",
            ElmoWarning,
            stacklevel=3,
        )
    if not examples:
        raise InputError(f"{path}: holds no example; name a file that has some")
    return examples


def _choose_columns(
    rows: Iterable[TableRow], settings: TextSettings, texts: TextColumns
) -> Iterator[tuple[TableRow, int, tuple[int, ...]]]:
    """Each row, and where its label and its texts are."""
    known: tuple[Sequence[str], bool] | None = None
    for row in rows:
        decisive = row.names, _has_words(row)
        if decisive != known:  # which only JSON lines change from row to row
            known = decisive
            label, positions = _positions(row, settings, texts)
        yield row, label, positions


def _positions(
    row: TableRow, settings: TextSettings, texts: TextColumns
) -> tuple[int, tuple[int, ...]]:
    """Where the label of a row is, and where its texts are."""
    if len(row.names) < texts.parts + 1:
        check_separator(row.names, row.named_at)
        raise InputError(
            f"{row.named_at}: has too few columns ({listed(row.names)}) for a label and "
            f"{texts.called}; put commas between them in a .csv, tabs in a .tsv, and both into "
            "each object of a .jsonl"
        )
    column = settings.label_column
    if column is None:
        column = _usual(row, USUAL_LABELS, "the label", LABEL_FLAG)[0] if settings.header else 1
    label = position_of(column, row.names, row.named_at, LABEL_FLAG)
    positions = text_positions(row, texts, settings.text_columns, header=settings.header)
    if len({label, *positions}) < 1 + len(positions):
        raise InputError(f"{row.named_at}: one column is to be used twice; name different ones")
    return label, positions


def text_positions(
    row: TableRow, texts: TextColumns, columns: Sequence[Column], *, header: bool = True
) -> tuple[int, ...]:
    """Where the texts of a row are: in columns that are named, or else in the usual ones."""
    if columns and len(columns) != texts.parts:
        named = ", ".join(map(repr, columns))
        raise InputError(
            f"{row.named_at}: the texts are to be in {named}; name {texts.parts} ({TEXT_FLAG})"
        )
    if not columns and not header:
        # They follow the label, unless there are no other columns.
        first = 1 if len(row.names) == texts.parts else 2
        columns = range(first, first + texts.parts)
    elif not columns and texts == TEXT and _has_words(row):
        columns = (WORDS,)
    elif not columns:
        columns = _usual(row, texts.usual, texts.called, TEXT_FLAG)
    return tuple(position_of(column, row.names, row.named_at) for column in columns)


def _has_words(row: TableRow) -> bool:
    """Whether a row has a list of words; elsewhere a column of that name may hold a number."""
    return WORDS in row.names and isinstance(row.values[row.names.index(WORDS)], list)


def _usual(
    row: TableRow, usual: Sequence[tuple[str, ...]], what: str, flag: str
) -> tuple[str, ...]:
    """The names that a row has of those which are usual."""
    check_separator(row.names, row.named_at)
    # A row that is named by itself, as JSON lines are, has no header.
    said = ", or say that the first line names no columns (--no-header)"
    otherwise = "" if row.named_at == row.place else said
    return usual_columns(row.names, usual, what, row.named_at, flag, otherwise)


def _label(row: TableRow, position: int) -> str:
    """The label of a row as it is written, whitespace around it apart."""
    value = row.values[position]
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if value is None or not str(value).strip():
        raise FormatError(f"{row.place}: has no label; give it one, or leave the row out")
    if not isinstance(value, str | int):
        raise FormatError(
            f"{row.place}: column {row.names[position]!r} holds {_described(value)}; a label is a "
            "text or a whole number"
        )
    label = str(value).strip()
    try:
        label.encode()
    except UnicodeEncodeError:  # JSON can write half a pair of surrogates
        raise FormatError(f"{row.place}: the label {label!r} is not a text; fix it") from None
    return label


def _words(row: TableRow, position: int, tokenizer: Tokenizer) -> Words:
    """The words of a text, or a list of them as it is; there is at least one."""
    value, name = row.values[position], row.names[position]
    if isinstance(value, str):
        words = tuple(token.text for token in tokenizer.words(value))
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


def _described(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"
