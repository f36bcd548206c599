"""CoNLL-U, the format of Universal Dependencies: ten columns, of which two are parts of speech.

Comments, the ranges of multiword tokens (3-4) and empty nodes (8.1) are left out: what remains are
the words of the syntax, each with its tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from elmokit.errors import FormatError
from elmokit.io.text_files import Line
from elmokit.system import counted

PartOfSpeech = Literal["upos", "xpos"]

COLUMNS = 10
FORM = 1
POSITIONS: dict[PartOfSpeech, int] = {"upos": 3, "xpos": 4}
UNSPECIFIED = "_"
DOCUMENT_START = "-DOCSTART-"
"""The word of lines of CoNLL-2003 that begin a document and belong to no sentence."""
WORD_ID = re.compile(r"[1-9][0-9]*")
OTHER_ID = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")


class TaggedWord(NamedTuple):
    """A word and its part of speech."""

    form: str
    tag: str
    place: str


def tagged_words(lines: Iterable[Line], tag: PartOfSpeech) -> list[TaggedWord]:
    """The words of one sentence of these lines; none where there are comments alone."""
    rows = [(line.place, values_of(*line[:2])) for line in lines if line.text[:1] != "#"]
    return [
        TaggedWord(values[FORM], values[POSITIONS[tag]], place)
        for place, values in rows
        if WORD_ID.fullmatch(values[0])
    ]


def columns_of(line: Line) -> list[str]:
    """The columns of a line that is not blank: between tabs, or between spaces without a tab."""
    if "\t" in line.text:
        return [column.strip() for column in line.text.split("\t")]
    # A no-break space and the like are part of a word, as in "10 000": only a space separates.
    return [column for column in line.text.split(" ") if column]


def column_words(lines: Iterable[Line], column: int) -> list[TaggedWord]:
    """The words of one sentence in CoNLL columns: the first, and its tag in another, from 1."""
    words = []
    for line in lines:
        columns = columns_of(line)
        if columns[0] == DOCUMENT_START:
            continue
        if not 1 < column <= len(columns):
            raise FormatError(
                f"{line.place}: has {counted(len(columns), 'column')}, so that its tag cannot be "
                f"in column {column}; name another (--tag N)"
            )
        words.append(TaggedWord(columns[0], columns[column - 1], line.place))
    return words


def values_of(place: str, text: str) -> list[str]:
    """The ten values of a line; an error names its place."""
    values = text.split("\t")
    if len(values) != COLUMNS:
        raise FormatError(
            f"{place}: has {len(values)} values between tabs; a line of CoNLL-U has {COLUMNS}"
        )
    if not WORD_ID.fullmatch(values[0]) and not OTHER_ID.fullmatch(values[0]):
        raise FormatError(
            f"{place}: begins with {values[0]!r}; a line of CoNLL-U begins with the number of "
            "its word, as 3, 3-4 or 8.1"
        )
    if not all(values):
        raise FormatError(f"{place}: has an empty value; CoNLL-U writes it as {UNSPECIFIED!r}")
    return values
