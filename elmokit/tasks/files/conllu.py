"""CoNLL-U, the format of Universal Dependencies: ten columns, of which two are parts of speech.

Comments, the ranges of multiword tokens (3-4) and empty nodes (8.1) are left out: what remains are
the words of the syntax, each with its tags.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args

from elmokit.config import check_choice
from elmokit.errors import FormatError, InputError
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.files.lines import ENCODING, Line, paragraphs, read_lines

PartOfSpeech = Literal["upos", "xpos"]

COLUMNS = 10
FORM = 1
POSITIONS: dict[str, int] = {"upos": 3, "xpos": 4}
UNSPECIFIED = "_"
WORD_ID = re.compile(r"[1-9][0-9]*")
OTHER_ID = re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")


def read_conllu(
    path: str | Path, *, tag: PartOfSpeech = "upos", encoding: str = ENCODING
) -> list[TaggedSentence]:
    """The sentences of a file.

    Args:
        path: The file.
        tag: "upos" for the universal parts of speech, "xpos" for the language's own.
        encoding: How the file writes characters as bytes.
    """
    check_choice("tag", tag, get_args(PartOfSpeech))
    found = (_sentence(lines, tag) for lines in paragraphs(read_lines(path, encoding)))
    sentences = [sentence for sentence in found if sentence.words]
    if not sentences:
        raise InputError(f"{path}: holds no sentence; name a file that has some")
    if all(name == UNSPECIFIED for sentence in sentences for name in sentence.labels):
        raise InputError(f"{path}: has no {tag} tags, only {UNSPECIFIED!r}; take the other column")
    return sentences


def _sentence(lines: list[Line], tag: PartOfSpeech) -> TaggedSentence:
    """The words of a sentence; none if there are only comments."""
    rows = [_values(line) for line in lines if not line.text.startswith("#")]
    words = [values for values in rows if WORD_ID.fullmatch(values[0])]
    return TaggedSentence(
        words=tuple(values[FORM] for values in words),
        tags=tuple(values[POSITIONS[tag]] for values in words),
        place=lines[0].place,
    )


def _values(line: Line) -> list[str]:
    """The ten values of a line."""
    values = line.text.split("\t")
    if len(values) != COLUMNS:
        raise FormatError(
            f"{line.place}: has {len(values)} values between tabs; a line of CoNLL-U has {COLUMNS}"
        )
    if not WORD_ID.fullmatch(values[0]) and not OTHER_ID.fullmatch(values[0]):
        raise FormatError(
            f"{line.place}: begins with {values[0]!r}; a line of CoNLL-U begins with the number of "
            "its word, as 3, 3-4 or 8.1"
        )
    if not all(values):
        raise FormatError(f"{line.place}: has an empty value; CoNLL-U writes it as {UNSPECIFIED!r}")
    return values
