"""Coreference in the columns of CoNLL-2012: documents, sentences, words, and brackets of chains.

A document stands between `#begin document (name); part 000` and `#end document`, a blank line
between its sentences. Of each line the fourth column is the word and the last one the chains that
begin or end there: `(3` begins a mention of chain 3, `3)` ends it, `(3)` is one of a single word,
`|` stands between several, `-` for none. Columns are separated by tabs, or by blanks on a line
without a tab.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError
from elmokit.tasks.coref.documents import PART, Cluster, Document, Span, make_clusters
from elmokit.tasks.files.lines import ENCODING, Line, columns_of, paragraphs, read_lines
from elmokit.tasks.files.trees import unescaped

BEGIN, END = "#begin document", "#end document"
WORD = 3
FEWEST_COLUMNS = 5
NONE = ("-", "_", "*")
BRACKET = re.compile(r"(\()?([^()|\s]+)(\))?")
NAME = re.compile(rf"{BEGIN}\s*\((?P<name>.*?)\)\s*(?:;\s*part\s+(?P<part>\S+))?\s*")


class Opened(NamedTuple):
    """A bracket that is not closed yet."""

    start: int  # the number of its word in the document
    line: Line


def read_conll_coref(path: str | Path, *, encoding: str = ENCODING) -> list[Document]:
    """The documents of a file, those without any mention too.

    Args:
        path: The file.
        encoding: How the file writes characters as bytes.
    """
    return [
        _document(begin, lines) for begin, lines in _documents(read_lines(path, encoding), path)
    ]


def _documents(lines: Iterable[Line], path: str | Path) -> Iterator[tuple[Line, list[Line]]]:
    """The line that begins each document, and those up to its end."""
    begin: Line | None = None
    inside: list[Line] = []
    for line in lines:
        if line.text.startswith(END):
            if begin is None:
                raise FormatError(
                    f"{line.place}: ends a document that did not begin; mend the file"
                )
            yield begin, inside
            begin, inside = None, []
        elif line.text.startswith(BEGIN):
            _check_ended(begin)
            begin = line
        elif begin is not None:
            inside.append(line)
        elif line.text.strip():
            raise FormatError(
                f"{line.place}: is in no document; files of coreference have the columns of "
                f"CoNLL-2012, and each document begins with {BEGIN!r} and a name"
            )
    _check_ended(begin)


def _check_ended(begin: Line | None) -> None:
    if begin is not None:
        raise FormatError(
            f"{begin.place}: begins a document without an end ({END!r}); is the file cut off?"
        )


def _document(begin: Line, lines: Sequence[Line]) -> Document:
    rows = [[(line, _columns(line)) for line in some] for some in paragraphs(lines)]
    if not rows:
        raise FormatError(f"{begin.place}: the document has no words; leave it out")
    chains = ((line, columns[-1]) for sentence in rows for line, columns in sentence)
    return Document(
        sentences=tuple(
            tuple(unescaped(columns[WORD]) for _, columns in sentence) for sentence in rows
        ),
        clusters=_clusters(chains),
        place=begin.place,
        name=_name(begin),
    )


def _name(begin: Line) -> str:
    found = NAME.fullmatch(begin.text)
    if found is None:
        raise FormatError(
            f"{begin.place}: the document has no name in brackets; write {BEGIN} (name); part 000"
        )
    return found["name"] if found["part"] is None else f"{found['name']}{PART}{found['part']}"


def _columns(line: Line) -> list[str]:
    columns = columns_of(line)
    if len(columns) < FEWEST_COLUMNS or not columns[WORD]:
        raise FormatError(
            f"{line.place}: has {len(columns)} columns; the columns of CoNLL-2012 are document, "
            "part, number, word (the fourth), others, and coreference (the last)"
        )
    return columns


def _clusters(words: Iterable[tuple[Line, str]]) -> tuple[Cluster, ...]:
    """The clusters that the brackets of all words stand for."""
    opened: dict[str, list[Opened]] = {}
    chains: dict[str, list[Span]] = {}
    for number, (line, column) in enumerate(words):
        for opens, chain, closes in _brackets(line, column):
            if opens:
                opened.setdefault(chain, []).append(Opened(number, line))
            if closes:
                # As in the reference scorer: a bracket closes the one of its chain opened last.
                before = opened.get(chain)
                if not before:
                    raise FormatError(
                        f"{line.place}: {chain}) closes a mention that was not opened; mend the "
                        "brackets"
                    )
                chains.setdefault(chain, []).append(Span(before.pop().start, number + 1))
    for chain, left in opened.items():
        if left:
            raise FormatError(
                f"{left[-1].line.place}: ({chain} opens a mention that is not closed in its "
                "document; mend the brackets"
            )
    return make_clusters(chains.values())


def _brackets(line: Line, column: str) -> Iterator[tuple[bool, str, bool]]:
    """For each chain of a word, whether a mention opens there, and whether one closes."""
    if column in NONE:
        return
    for part in column.split("|"):
        found = BRACKET.fullmatch(part)
        if found is None or not (found[1] or found[3]):
            raise FormatError(
                f"{line.place}: the last column is {column!r}, which says nothing of coreference; "
                "write (3, 3) or (3) with | between them, or -"
            )
        yield bool(found[1]), found[2], bool(found[3])
