"""CoNLL columns: a word and its tags on each line, a blank line between sentences.

Columns are separated by tabs, or by blanks on a line without a tab. `-DOCSTART-` lines, which begin
a document in the files of CoNLL-2003, belong to no sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from elmokit.errors import FormatError, InputError
from elmokit.plurals import counted
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.lines import ENCODING, Line, paragraphs, read_lines

DOCUMENT_START = "-DOCSTART-"


def read_columns(
    path: str | Path, *, word: int = 1, tag: int = -1, encoding: str = ENCODING
) -> list[TaggedSentence]:
    """The sentences of a file.

    Args:
        path: The file.
        word: The column of the words, from 1; -1 is the last one, -2 the one before it.
        tag: The column of the tags, likewise.
        encoding: How the file writes characters as bytes.
    """
    lines = _without_document_starts(read_lines(path, encoding))
    sentences = list(paragraphs(lines))
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    first = sentences[0][0]
    width = len(_fields(first))
    word_at, tag_at = _positions(word, tag, width, first.place)
    return [_sentence(lines, width, word_at, tag_at) for lines in sentences]


def _without_document_starts(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, with a blank one where a document starts: no sentence goes on across it."""
    for line in lines:
        starts = line.text.startswith(DOCUMENT_START) and _fields(line)[0] == DOCUMENT_START
        yield line._replace(text="") if starts else line


def _sentence(lines: list[Line], width: int, word_at: int, tag_at: int) -> TaggedSentence:
    rows = [_fields(line) for line in lines]
    for line, row in zip(lines, rows, strict=True):
        _check_row(row, width, line)
    words = tuple(row[word_at] for row in rows)
    tags = tuple(row[tag_at] for row in rows)
    return TaggedSentence(words, tags, lines[0].place)


def _fields(line: Line) -> list[str]:
    """The columns of a line that is not blank."""
    if "\t" in line.text:
        return [field.strip() for field in line.text.split("\t")]
    # A no-break space and the like are part of a word: only plain blanks separate.
    return [field for field in line.text.split(" ") if field]


def _check_row(row: list[str], width: int, line: Line) -> None:
    if len(row) != width:
        mend = "name a CoNLL-U file .conllu" if line.text.startswith("#") else "mend the line"
        raise FormatError(
            f"{line.place}: has {counted(len(row), 'column')}, but the lines before have {width}; "
            f"{mend}"
        )
    if not all(row):
        raise FormatError(f"{line.place}: has an empty column; mend the line")


def _positions(word: int, tag: int, width: int, place: str) -> tuple[int, int]:
    """Where the word and its tag are among the `width` values of a line."""
    if width < 2:
        raise InputError(
            f"{place}: has one column only; a word and its tag are needed, with a tab or a blank "
            "between them"
        )
    word_at, tag_at = _position("word", word, width, place), _position("tag", tag, width, place)
    if word_at == tag_at:
        raise InputError(f"{place}: the word and the tag are both column {word_at + 1}; name two")
    return word_at, tag_at


def _position(name: str, column: int, width: int, place: str) -> int:
    if column == 0 or abs(column) > width:
        raise InputError(
            f"{place}: has {counted(width, 'column')}, so {column} is not the column of the "
            f"{name}; count from 1, or from -1 for the last"
        )
    return column - 1 if column > 0 else width + column
