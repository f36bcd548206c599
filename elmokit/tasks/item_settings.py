"""How files of what a trained task is asked about are read: as in training, if nobody objects."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from elmokit.config import check_choice
from elmokit.errors import ElmoWarning, InputError
from elmokit.tasks.config import Column, Format, TaskConfig
from elmokit.tasks.files.lines import ENCODING, read_text, suffix
from elmokit.tasks.files.tables import SUFFIXES

ItemFormat = Literal["text", "jsonl", "csv", "tsv", "squad"]
LABELLED = (".conll", ".conllu", ".bio", ".iob", ".json")
SQUAD = ".json"
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class ItemSettings:
    """How lines become items.

    Attributes:
        format: What they are.
        columns: Of a table: that of the text, or the two of a pair; none for the usual ones.
        usual: Columns that are taken before those with usual names, where a table has them.
        header: Of CSV and TSV: the first line names the columns.
        skip_bad_rows: Of CSV and TSV: leave out rows with more or fewer values than columns.
        encoding: How the lines are written as bytes.
        context: Of a reader: the text that all questions are about; None where each has its own.
    """

    format: ItemFormat = "text"
    columns: tuple[Column, ...] = ()
    usual: tuple[Column, ...] = ()
    header: bool = True
    skip_bad_rows: bool = False
    encoding: str = ENCODING
    context: str | None = None

    def __post_init__(self) -> None:
        check_choice("format", self.format, get_args(ItemFormat))


def item_settings(
    name: str | Path,
    task: TaskConfig,
    *,
    format: ItemFormat | None = None,
    columns: Sequence[Column] = (),
    header: bool | None = None,
    skip_bad_rows: bool = False,
    encoding: str | None = None,
    context: str | Path | None = None,
) -> ItemSettings:
    """How a file of items is read: as the training files were, unless something else is said.

    Args:
        name: The file; - for standard input, which is text unless `format` says otherwise.
        task: The settings that the task was trained with.
        format: None for what the name says, or else that of training if it is one of tables.
        columns: Of a table: that of the text, or the two of a pair; none for those of training, or
            else those with usual names.
        header: Of CSV and TSV: whether the first line names the columns.
        skip_bad_rows: Of CSV and TSV: leave out rows with more or fewer values than columns.
        encoding: None for that of training in CSV and TSV, and UTF-8 elsewhere.
        context: Of a reader: the file of the text that all questions are about.
    """
    asks = task.kind == "reading" and suffix(name) == SQUAD
    found = format or ("squad" if asks else _format_to_read(name, task.files.format))
    # What tagged words are in is no table of texts: its columns and its header say nothing here.
    tagged = task.kind == "tags"
    # Numbers of columns that had no names say nothing of JSON, whose fields have names alone.
    unnamed = found == "jsonl" and not task.files.header
    if encoding is None:
        encoding = task.files.encoding if found in ("csv", "tsv") else ENCODING
    return ItemSettings(
        format=found,
        columns=tuple(columns),
        usual=() if tagged or unnamed else task.files.texts,
        header=(tagged or task.files.header) if header is None else header,
        skip_bad_rows=skip_bad_rows,
        encoding=encoding,
        context=None if context is None else read_text(context, encoding),
    )


def format_of(name: str | Path, trained: Format | None = None) -> ItemFormat:
    """What a file is: by its name, or else what the training files were said to be, if a table.

    >>> format_of("a.csv.gz"), format_of("a.txt"), format_of("a.txt", "tsv"), format_of("-", "tsv")
    ('csv', 'text', 'tsv', 'text')
    """
    if suffix(name) in LABELLED:
        raise InputError(
            f"{name}: is a file of labelled examples by its name; measure with elmo task evaluate, "
            "give raw text or a table (.csv, .tsv, .jsonl) to predict, or say what it is (--format)"
        )
    if suffix(name) in SUFFIXES:
        return SUFFIXES[suffix(name)]
    if trained in ("csv", "tsv", "jsonl") and str(name) != STANDARD_INPUT:
        return trained
    return "text"


def _format_to_read(name: str | Path, trained: Format | None) -> ItemFormat:
    """What a file is; it is said where training decides, since lines of text may look the same."""
    found = format_of(name, trained)
    if found != format_of(name):
        warnings.warn(
            f"{name}: is read as {found}, as the training files were; if it is not, say what it is "
            "(--format text)",
            ElmoWarning,
            stacklevel=3,
        )
    return found
