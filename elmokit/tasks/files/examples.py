"""Examples of any file: its name and the kind of task say which reader it needs.

| kind | file | read by |
|---|---|---|
| text | `.csv`, `.tsv`, `.jsonl`, `.ndjson` | `tables.read_texts` |
| text | any other | `trees.read_trees` |
| pair | `.csv`, `.tsv`, `.jsonl`, `.ndjson` | `tables.read_pairs` |
| tags | `.conllu` | `conllu.read_conllu` |
| tags | any other but `.csv`, `.jsonl`, `.ndjson`, `.json` | `columns.read_columns` |
| reading | `.json` | `squad.read_squad` |
| coref | `.tsv` | `gap.read_gap` |
| coref | any other but those of tables and `.conllu` | `conll_coref.read_conll_coref` |
| srl | `.tsv`; any other but those of tables and `.conllu` | `props.read_props` |

A file whose name says nothing, or the wrong thing, is read with `format`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from elmokit.config import check_choice
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.io.tables import (
    TABLE_SUFFIXES,
    USUAL_TEXTS,
    TableFormat,
    TableRow,
    check_separator,
    listed,
    table_rows,
    usual_columns,
)
from elmokit.io.text_files import read_lines, suffix
from elmokit.tasks.config import Column, FilesConfig, Format, Kind
from elmokit.tasks.examples import Example, PairExample, TextExample, Words, is_word
from elmokit.tasks.files.conll import PartOfSpeech, read_columns, read_conllu
from elmokit.tasks.files.trees import read_trees
from elmokit.text.conllu import FORM, POSITIONS

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


class TextColumns(NamedTuple):
    """The texts that a row is read for."""

    called: str  # by errors
    usual: Sequence[tuple[str, ...]]  # the names, in lower case, that their columns may have

    @property
    def parts(self) -> int:
        """How many they are."""
        return len(self.usual[0])


TEXT = TextColumns("the text", [(name,) for name in USUAL_TEXTS])
PAIR = TextColumns(
    "two texts",
    [
        ("first", "second"),
        ("premise", "hypothesis"),
        ("sentence1", "sentence2"),
        ("sentence_a", "sentence_b"),
    ],
)


class Choice(NamedTuple):
    """Where in a row the values are that are used."""

    label: int
    texts: tuple[int, ...]


def choose_columns(
    rows: Iterable[TableRow], files: FilesConfig, texts: TextColumns
) -> Iterator[tuple[TableRow, Choice]]:
    """Each row, and where its label and its texts are."""
    known: tuple[Sequence[str], bool] | None = None
    for row in rows:
        decisive = row.names, _has_words(row)
        if decisive != known:  # which only JSON lines change from row to row
            known, choice = decisive, _choice(row, files, texts)
        yield row, choice


def text_positions(row: TableRow, files: FilesConfig, texts: TextColumns) -> tuple[int, ...]:
    """Where the texts of a row without a label are."""
    if files.texts:
        columns = _text_columns(row, files, texts)
    elif not files.header and len(row.names) == texts.parts:
        columns = range(1, 1 + texts.parts)
    else:
        check_separator(row.names, row.named_at)
        columns = _text_columns(row, files, texts)
    return tuple(_position(column, row) for column in columns)


def _choice(row: TableRow, files: FilesConfig, texts: TextColumns) -> Choice:
    _check_count(row, texts.parts)
    label = _position(_label_column(row, files), row)
    positions = [_position(column, row) for column in _text_columns(row, files, texts)]
    if len({label, *positions}) < 1 + len(positions):
        raise InputError(f"{row.named_at}: one column is to be used twice; name different ones")
    return Choice(label, tuple(positions))


def _label_column(row: TableRow, files: FilesConfig) -> Column:
    if files.label is not None:
        return files.label
    return _usual(row, USUAL_LABELS, "the label", "--label-column")[0] if files.header else 1


def _text_columns(row: TableRow, files: FilesConfig, texts: TextColumns) -> Sequence[Column]:
    if files.texts and len(files.texts) != texts.parts:
        named = ", ".join(map(repr, files.texts))
        raise InputError(
            f"{row.named_at}: the texts are to be in {named}; name {texts.parts} (--text-column)"
        )
    if files.texts:
        return files.texts
    if not files.header:
        return range(2, 2 + texts.parts)
    if texts == TEXT and _has_words(row):
        return (WORDS,)
    return _usual(row, texts.usual, texts.called, "--text-column")


def _has_words(row: TableRow) -> bool:
    """Whether a row has a list of words; elsewhere a column of that name may hold a number."""
    return WORDS in row.names and isinstance(row.values[row.names.index(WORDS)], list)


def _usual(
    row: TableRow, usual: Sequence[tuple[str, ...]], what: str, flag: str
) -> tuple[str, ...]:
    """The names that a row has of those which are usual."""
    # A row that is named by itself, as JSON lines are, has no header.
    said = ", or say that the first line names no columns (--no-header)"
    otherwise = "" if row.named_at == row.place else said
    return usual_columns(row.names, usual, what, row.named_at, flag, otherwise)


def _position(column: Column, row: TableRow) -> int:
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
            f"{row.named_at}: there is no column {column!r}; name one of {listed(row.names)}, or "
            "count them from 1"
        )
    return number - 1 if number > 0 else len(row.names) + number


def _check_count(row: TableRow, texts: int) -> None:
    needed = f"a label and {'a text' if texts == 1 else 'two texts'}"
    if len(row.names) < texts + 1:
        check_separator(row.names, row.named_at)
        raise InputError(
            f"{row.named_at}: has too few columns ({listed(row.names)}) for {needed}; put commas "
            "between them in a .csv, tabs in a .tsv, and both into each object of a .jsonl"
        )


Tokenize = Callable[[str], Sequence[str]]
"""Splits a text into words; `str.split` does where they are separated by whitespace."""
NO_AGREEMENT = "-"
"""SNLI's label for pairs that its annotators did not agree on; published results are without."""
VALUE_SHOWN = 40


class _Record(NamedTuple):
    """What is used of a row."""

    place: str
    label: str
    texts: tuple[Words, ...]


def read_texts(
    path: str | Path, files: FilesConfig | None = None, *, tokenize: Tokenize = str.split
) -> list[TextExample]:
    """The rows of a table, with one text each.

    Args:
        path: The file.
        files: How it is read. Without a header columns have numbers, and unless others are given
            the label is column 1 and the texts follow it; JSON lines name their columns.
        tokenize: Splits a text into words; a list of words in JSON stays as it is.
    """
    records = _records(path, files or FilesConfig(), TEXT, tokenize)
    return [TextExample(text, label, place) for place, label, (text,) in records]


def read_pairs(
    path: str | Path, files: FilesConfig | None = None, *, tokenize: Tokenize = str.split
) -> list[PairExample]:
    """The rows of a table, with two texts each; arguments as of `read_texts`."""
    records = _records(path, files or FilesConfig(), PAIR, tokenize)
    return [PairExample(first, second, label, place) for place, label, (first, second) in records]


def _records(
    path: str | Path, files: FilesConfig, texts: TextColumns, tokenize: Tokenize
) -> list[_Record]:
    """What is used of each row that is not left out; there is at least one."""
    format = cast(TableFormat, files.format or _format_of(path))
    if format == "jsonl":
        files = replace(files, header=True)
    lines = read_lines(path, files.encoding)
    rows = table_rows(lines, format, header=files.header, skip_bad=files.skip_bad_rows)
    records: list[_Record] = []
    left_out = 0
    for row, choice in choose_columns(rows, files, texts):
        label = _label(row, choice.label)
        if label == NO_AGREEMENT and texts == PAIR:
            left_out += 1
            continue
        if label == "":
            raise FormatError(f"{row.place}: has no label; give it one, or leave the row out")
        words = tuple(_words(row, position, tokenize) for position in choice.texts)
        records.append(_Record(row.place, label, words))
    if left_out:
        warnings.warn(
            f"{path}: rows with the label {NO_AGREEMENT!r} are left out: {left_out:,}",
            ElmoWarning,
            stacklevel=3,
        )
    if not records:
        raise InputError(f"{path}: holds no example; name a file that has some")
    return records


def _format_of(path: str | Path) -> TableFormat:
    if suffix(path) not in TABLE_SUFFIXES:
        raise InputError(
            f"{path}: its name does not say what kind of table it is; give the format, or a name "
            f"that ends in one of {', '.join(TABLE_SUFFIXES)}"
        )
    return TABLE_SUFFIXES[suffix(path)]


def _writable(label: str, row: TableRow) -> str:
    """Refuse a label that no file can hold: JSON can write half a pair of surrogates."""
    try:
        label.encode()
    except UnicodeEncodeError:
        raise FormatError(f"{row.place}: the label {label!r} is no text; fix it") from None
    return label


def _label(row: TableRow, position: int) -> str:
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


def _words(row: TableRow, position: int, tokenize: Tokenize) -> Words:
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


def _described(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"


FORMATS: dict[Kind, tuple[Format, ...]] = {
    "text": ("csv", "tsv", "jsonl", "trees"),
    "tags": ("columns", "conllu"),
    "pair": ("csv", "tsv", "jsonl"),
    "reading": ("squad",),
    "coref": ("coref", "gap"),
    "srl": ("propbank", "conll2012"),
}
"""The formats that each kind of task can be read from."""
SUFFIXES: dict[Kind, Mapping[str, Format]] = {
    "text": TABLE_SUFFIXES,
    "tags": {".conllu": "conllu"},
    "pair": TABLE_SUFFIXES,
    "reading": {".json": "squad"},
    "coref": {".tsv": "gap"},
    "srl": {".tsv": "propbank"},
}
OTHERS: dict[Kind, Format] = {
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


def read_examples(
    kind: Kind,
    path: str | Path,
    files: FilesConfig | None = None,
    *,
    tokenize: Tokenize = str.split,
) -> list[Example]:
    """The examples of a file, for a task that labels texts, words or pairs of texts.

    Args:
        kind: What the task labels.
        path: The file.
        files: How it is read; each format uses what concerns it.
        tokenize: Splits the texts of a table into words; other formats have words.
    """
    check_choice("kind", kind, get_args(Kind))
    files = files or FilesConfig()
    match format_of(kind, path, files.format):
        case "trees" as found:
            _check_none(found, path, files)
            trees = read_trees(
                path,
                phrases=files.phrases,
                shortest_phrase=files.shortest_phrase,
                encoding=files.encoding,
            )
            return [*trees]
        case "columns":
            return [*read_columns(path, **_of_columns(path, files), encoding=files.encoding)]
        case "conllu":
            return [*read_conllu(path, tag=_of_conllu(path, files), encoding=files.encoding)]
        case "csv" | "tsv" | "jsonl" as table:
            read = read_pairs if kind == "pair" else read_texts
            return [*read(path, replace(files, format=table), tokenize=tokenize)]
        case other:
            raise InputError(f"{path}: is read as {other!r}, by the task of kind {kind!r} alone")


def format_of(kind: Kind, path: str | Path, asked_for: Format | None) -> Format:
    """The format that a file is read in."""
    if asked_for is not None:
        if asked_for not in FORMATS[kind]:
            raise InputError(f"{path}: is read as {asked_for!r}, but the task needs {WANTED[kind]}")
        return asked_for
    ending = suffix(path)
    found = SUFFIXES[kind].get(ending) or OTHERS.get(kind)
    if found is None or ending in FOREIGN.get(kind, ()):
        named = f"a {ending} file" if ending else "without a suffix"
        raise InputError(f"{path}: is {named}, but the task needs {WANTED[kind]}")
    return found


FIXED: tuple[Format, ...] = ("trees", "squad", "coref", "gap", "propbank", "conll2012")
"""Formats in which everything has its place."""
CONLLU_TAGS: dict[str, PartOfSpeech] = {
    column: name for name, at in POSITIONS.items() for column in (name, str(at + 1))
}
CONLLU_WORDS = str(FORM + 1)
LABEL_FLAG, TEXT_FLAG = "--label-column", "--text-column"


def fixed_format_of(kind: Kind, path: str | Path, files: FilesConfig) -> Format:
    """The format that a file is read in, of a kind whose formats let nobody choose columns."""
    found = format_of(kind, path, files.format)
    _check_none(found, path, files)
    return found


def after_training(
    kind: Kind, path: str | Path, files: FilesConfig, training: FilesConfig
) -> FilesConfig:
    """The settings, but columns as in training are no wish where a format lets nobody choose."""
    if format_of(kind, path, files.format) not in FIXED:
        return files
    label = None if files.label == training.label else files.label
    texts = () if files.texts == training.texts else files.texts
    return replace(files, label=label, texts=texts)


def _check_none(found: Format, path: str | Path, files: FilesConfig) -> None:
    named = [*([] if files.label is None else [LABEL_FLAG]), *([TEXT_FLAG] if files.texts else [])]
    if named:
        raise InputError(
            f"{path}: is read as {found!r}, in which no column can be chosen; leave out "
            f"{' and '.join(named)}, or say that it is something else (--format)"
        )


def _of_columns(path: str | Path, files: FilesConfig) -> dict[str, int]:
    """Numbers of the columns that are named, for `read_columns`."""
    word = _word_column(path, files)
    named = {"word": (TEXT_FLAG, word), "tag": (LABEL_FLAG, files.label)}
    return {
        name: _number(path, flag, column)
        for name, (flag, column) in named.items()
        if column is not None
    }


def _number(path: str | Path, flag: str, column: Column) -> int:
    try:
        return int(column)
    except ValueError:
        raise InputError(
            f"{path}: is read as CoNLL columns, which have no names such as {column!r}; give the "
            f"number from 1 ({flag}), or say that it is CoNLL-U (--format conllu)"
        ) from None


def _of_conllu(path: str | Path, files: FilesConfig) -> PartOfSpeech:
    """Which of its two columns of tags is named; that of the words can be none but its own."""
    word = _word_column(path, files)
    if word is not None and str(word) != CONLLU_WORDS:
        raise InputError(
            f"{path}: is CoNLL-U, whose words are column {CONLLU_WORDS}, and not {word!r}; leave "
            f"out {TEXT_FLAG}, or say that it is something else (--format columns)"
        )
    if files.label is None:
        return "upos"
    tag = CONLLU_TAGS.get(str(files.label))
    if tag is None:
        raise InputError(
            f"{path}: is CoNLL-U, whose tags are upos (column 4) or xpos (column 5), and not "
            f"{files.label!r}; give one of them ({LABEL_FLAG})"
        )
    return tag


def _word_column(path: str | Path, files: FilesConfig) -> Column | None:
    """The column of the words, if it is named."""
    if len(files.texts) > 1:
        named = ", ".join(map(repr, files.texts))
        raise InputError(f"{path}: the words are to be in {named}; name one column ({TEXT_FLAG})")
    return files.texts[0] if files.texts else None
