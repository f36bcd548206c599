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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from elmokit.config import check_choice
from elmokit.errors import InputError
from elmokit.tasks.config import Format, Kind
from elmokit.tasks.examples import Example
from elmokit.tasks.files import tables
from elmokit.tasks.files.columns import read_columns
from elmokit.tasks.files.conllu import PartOfSpeech, read_conllu
from elmokit.tasks.files.lines import ENCODING, suffix
from elmokit.tasks.files.table_columns import TableSettings
from elmokit.tasks.files.tables import Tokenize, read_pairs, read_texts
from elmokit.tasks.files.trees import read_trees

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
    "text": tables.SUFFIXES,
    "tags": {".conllu": "conllu"},
    "pair": tables.SUFFIXES,
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


@dataclass(frozen=True)
class FileSettings:
    """How files of examples are read; each format uses what concerns it.

    Attributes:
        format: None for what the name of a file says.
        encoding: How the file writes characters as bytes.
        table: Of a table: what is in which column.
        word: Of CoNLL columns: the column of the words, from 1, or from -1 for the last.
        tag: Of CoNLL columns: the column of the tags, likewise.
        part_of_speech: Of CoNLL-U: the universal tags, or the language's own.
        phrases: Of trees: every phrase is an example, not only the sentence.
        shortest_phrase: Of trees: the fewest words of a phrase.
    """

    format: Format | None = None
    encoding: str = ENCODING
    table: TableSettings = field(default_factory=TableSettings)
    word: int = 1
    tag: int = -1
    part_of_speech: PartOfSpeech = "upos"
    phrases: bool = False
    shortest_phrase: int = 1

    def __post_init__(self) -> None:
        check_choice("format", self.format, (None, *get_args(Format)))
        check_choice("part_of_speech", self.part_of_speech, get_args(PartOfSpeech))


def read_examples(
    kind: Kind,
    path: str | Path,
    settings: FileSettings | None = None,
    *,
    tokenize: Tokenize = str.split,
) -> list[Example]:
    """The examples of a file, for a task that labels texts, words or pairs of texts.

    Args:
        kind: What the task labels.
        path: The file.
        settings: How it is read.
        tokenize: Splits the texts of a table into words; other formats have words.
    """
    check_choice("kind", kind, get_args(Kind))
    settings = settings or FileSettings()
    encoding = settings.encoding
    match format_of(kind, path, settings.format):
        case "trees":
            phrases, shortest = settings.phrases, settings.shortest_phrase
            found = read_trees(path, phrases=phrases, shortest_phrase=shortest, encoding=encoding)
            return [*found]
        case "columns":
            return [*read_columns(path, word=settings.word, tag=settings.tag, encoding=encoding)]
        case "conllu":
            return [*read_conllu(path, tag=settings.part_of_speech, encoding=encoding)]
        case "csv" | "tsv" | "jsonl" as table:
            read = read_pairs if kind == "pair" else read_texts
            options = settings.table
            return [*read(path, options, tokenize=tokenize, format=table, encoding=encoding)]
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
