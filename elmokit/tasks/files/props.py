"""Semantic roles in columns: a word on each line, and a column of brackets for each predicate.

| format | columns |
|---|---|
| `propbank` | number, word, part of speech, lemma, roleset, one column for each predicate |
| `conll2012` | the eleven of CoNLL-2012, one for each predicate, coreference |

Of those eleven, the third is the number and the fourth the word. A phrase opens with `(ARG0*` and
closes with `*)`, `(V*)` is one of a single word, `*` stands elsewhere; the phrases of a column do
not overlap. Columns are separated by tabs, or by blanks on a line without a tab; a blank line ends
a sentence, and lines that begin with `#` are left out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.plurals import counted
from elmokit.tasks.files.lines import ENCODING, Line, columns_of, paragraphs, read_lines
from elmokit.tasks.files.trees import unescaped
from elmokit.tasks.srl.propositions import VERB, Proposition, RoleSentence
from elmokit.tasks.tags import Span

PropsFormat = Literal["propbank", "conll2012"]
COMMENT = "#"
NONE = "-"
BRACKET = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")


class Layout(NamedTuple):
    """Where what is in a line of a format."""

    number: int
    word: int
    roleset: int | None  # None where a row may have one without being a predicate
    first: int  # the first column of a predicate
    after: int  # columns after those of the predicates
    columns: str  # all of them, in words

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a line can be one of this format."""
        return len(columns) >= self.first + self.after and columns[self.number].isdecimal()


LAYOUTS: dict[PropsFormat, Layout] = {
    "propbank": Layout(
        0, 1, 4, 5, 0,
        "number, word, part of speech, lemma, roleset, and one for each predicate",
    ),
    "conll2012": Layout(
        2, 3, None, 11, 1,
        "the eleven of CoNLL-2012 (the third the number, the fourth the word), one for each "
        "predicate, and coreference",
    ),
}  # fmt: skip


class Row(NamedTuple):
    """A line and its columns."""

    line: Line
    columns: list[str]


class Opened(NamedTuple):
    """A phrase that is not closed yet."""

    role: str
    start: int
    line: Line


def read_props(
    path: str | Path, format: PropsFormat, *, encoding: str = ENCODING
) -> list[RoleSentence]:
    """The sentences of a file, those without a predicate too.

    Args:
        path: The file.
        format: What its columns are.
        encoding: How the file writes characters as bytes.
    """
    lines = (line for line in read_lines(path, encoding) if not line.text.startswith(COMMENT))
    sentences = [_sentence(some, LAYOUTS[format]) for some in paragraphs(lines)]
    if not any(sentence.propositions for sentence in sentences):
        raise InputError(
            f"{path}: no word of it is a predicate; name a file with semantic roles: "
            f"{LAYOUTS[format].columns}"
        )
    _note_marks_elsewhere(sentences)
    return sentences


def _note_marks_elsewhere(sentences: Sequence[RoleSentence]) -> None:
    """Say it where columns seem to be those of other predicates."""
    places = [
        sentence.place
        for sentence in sentences
        for each in sentence.propositions or ()
        for role, start, end in each.phrases
        if role == VERB and each.predicate not in range(start, end)
        if any(other in range(start, end) for other in sentence.predicates)
    ]
    if places:
        warnings.warn(
            f"{places[0]} and after: of {counted(len(places), 'predicate')} ({VERB}*) stands at "
            "another one; are the columns in the order of the predicates?",
            ElmoWarning,
            stacklevel=3,
        )


def _sentence(lines: Sequence[Line], layout: Layout) -> RoleSentence:
    rows = [_row(line, layout) for line in lines]
    width = len(rows[0].columns)
    for line, columns in rows:
        if len(columns) != width:
            raise FormatError(
                f"{line.place}: has {counted(len(columns), 'column')}, but its sentence begins "
                f"with {width}; mend the line"
            )
    return RoleSentence(
        words=tuple(unescaped(columns[layout.word]) for _, columns in rows),
        propositions=tuple(_propositions(rows, layout)),
        place=lines[0].place,
    )


def _row(line: Line, layout: Layout) -> Row:
    columns = columns_of(line)
    if not layout.fits(columns):
        raise FormatError(
            f"{line.place}: has {counted(len(columns), 'column')} which are not those of semantic "
            f"roles: {layout.columns}"
        )
    if not columns[layout.word]:
        raise FormatError(f"{line.place}: has no word; mend the line")
    return Row(line, columns)


def _propositions(rows: Sequence[Row], layout: Layout) -> Iterator[Proposition]:
    """The proposition of each column."""
    numbers = range(layout.first, len(rows[0].columns) - layout.after)
    phrases = [_phrases(rows, number) for number in numbers]
    predicates = [
        _verb(rows[0].line, some, number) for number, some in zip(numbers, phrases, strict=True)
    ]
    if layout.roleset is not None:
        # What is marked as the predicate may be another word of it: "off" of "take off".
        predicates = [
            n for n, row in enumerate(rows) if row.columns[layout.roleset] not in (NONE, "")
        ]
        _check_one_each(rows[0].line, len(predicates), len(phrases))
    for predicate, some in zip(predicates, phrases, strict=True):
        yield Proposition(predicate, some)


def _check_one_each(line: Line, predicates: int, columns: int) -> None:
    if predicates != columns:
        raise FormatError(
            f"{line.place}: the sentence has {counted(predicates, 'word')} with a roleset, but "
            f"{counted(columns, 'column')} of arguments; give each predicate one"
        )


def _verb(line: Line, phrases: Sequence[Span], number: int) -> int:
    """The first word of a column's predicate."""
    for role, start, _ in phrases:
        if role == VERB:
            return start
    raise FormatError(
        f"{line.place}: column {number + 1} of the sentence has no predicate; mark it ({VERB}*)"
    )


def _phrases(rows: Sequence[Row], number: int) -> tuple[Span, ...]:
    """The phrases of a column."""
    found: list[Span] = []
    opened: Opened | None = None
    for position, (line, columns) in enumerate(rows):
        role, closes = _bracket(line, columns[number], number)
        if role is not None:
            if opened is not None:
                raise _unbalanced(line, number, f"opens ({role} while ({opened.role} is open")
            opened = Opened(role, position, line)
        if closes:
            if opened is None:
                raise _unbalanced(line, number, "closes a phrase that was not opened")
            found.append(Span(opened.role, opened.start, position + 1))
            opened = None
    if opened is not None:
        problem = f"opens ({opened.role}, which is not closed in its sentence"
        raise _unbalanced(opened.line, number, problem)
    return tuple(found)


def _bracket(line: Line, column: str, number: int) -> tuple[str | None, bool]:
    """The role of a phrase that opens at a word, if one does, and whether one closes."""
    bracket = BRACKET.fullmatch(column)
    if bracket is None:
        raise FormatError(
            f"{line.place}: column {number + 1} is {column!r}; write (ARG0* where a phrase opens, "
            "*) where it closes, (ARG0*) for one word, * elsewhere"
        )
    return bracket[1], bracket[2] is not None


def _unbalanced(line: Line, number: int, problem: str) -> FormatError:
    return FormatError(f"{line.place}: column {number + 1} {problem}; mend the brackets")
