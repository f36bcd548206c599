"""What the columns that a user names are in each format; those it does not have are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from elmokit.errors import InputError
from elmokit.tasks.config import Column, FilesConfig, Format, Kind
from elmokit.tasks.files.conllu import PartOfSpeech
from elmokit.tasks.files.reading import FileSettings, format_of
from elmokit.tasks.files.table_columns import TableSettings
from elmokit.text.conllu import FORM, POSITIONS

FIXED: tuple[Format, ...] = ("trees", "squad", "coref", "gap", "propbank", "conll2012")
"""Formats in which everything has its place."""
CONLLU_TAGS: dict[str, PartOfSpeech] = {
    column: name for name, at in POSITIONS.items() for column in (name, str(at + 1))
}
CONLLU_WORDS = str(FORM + 1)
LABEL, TEXT = "--label-column", "--text-column"


def file_settings(kind: Kind, path: str | Path, files: FilesConfig) -> FileSettings:
    """How the reader of a file reads it, by the settings of a task."""
    found = format_of(kind, path, files.format)
    return FileSettings(
        format=found,
        encoding=files.encoding,
        phrases=files.phrases,
        shortest_phrase=files.shortest_phrase,
        **_columns(found, path, files),
    )


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


def _columns(found: Format, path: str | Path, files: FilesConfig) -> dict[str, Any]:
    if found in FIXED:
        _check_none(found, path, files)
        return {}
    if found == "columns":
        return _of_columns(path, files)
    if found == "conllu":
        return _of_conllu(path, files)
    table = TableSettings(
        label=files.label,
        texts=files.texts,
        header=files.header,
        skip_bad_rows=files.skip_bad_rows,
    )
    return {"table": table}


def _check_none(found: Format, path: str | Path, files: FilesConfig) -> None:
    named = [*([] if files.label is None else [LABEL]), *([TEXT] if files.texts else [])]
    if named:
        raise InputError(
            f"{path}: is read as {found!r}, in which no column can be chosen; leave out "
            f"{' and '.join(named)}, or say that it is something else (--format)"
        )


def _of_columns(path: str | Path, files: FilesConfig) -> dict[str, int]:
    """Numbers of the columns that are named."""
    word = _word_column(path, files)
    named = {"word": (TEXT, word), "tag": (LABEL, files.label)}
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


def _of_conllu(path: str | Path, files: FilesConfig) -> dict[str, PartOfSpeech]:
    """Which of its two columns of tags is named; that of the words can be none but its own."""
    word = _word_column(path, files)
    if word is not None and str(word) != CONLLU_WORDS:
        raise InputError(
            f"{path}: is CoNLL-U, whose words are column {CONLLU_WORDS}, and not {word!r}; leave "
            f"out {TEXT}, or say that it is something else (--format columns)"
        )
    if files.label is None:
        return {}
    tag = CONLLU_TAGS.get(str(files.label))
    if tag is None:
        raise InputError(
            f"{path}: is CoNLL-U, whose tags are upos (column 4) or xpos (column 5), and not "
            f"{files.label!r}; give one of them ({LABEL})"
        )
    return {"part_of_speech": tag}


def _word_column(path: str | Path, files: FilesConfig) -> Column | None:
    """The column of the words, if it is named."""
    if len(files.texts) > 1:
        named = ", ".join(map(repr, files.texts))
        raise InputError(f"{path}: the words are to be in {named}; name one column ({TEXT})")
    return files.texts[0] if files.texts else None
