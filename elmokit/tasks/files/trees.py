r"""Trees of the Stanford Sentiment Treebank: a sentence a line, a label at every phrase.

    (3 (2 It) (4 (2 (2 's) (4 lovely)) (2 .)))

Words are written as in the Penn Treebank: `(` as `-LRB-`, `/` as `\/`, quotation marks as two
strokes. Running text has none of that, and so the language models' text: they are undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.io.text_files import ENCODING, Line, read_lines
from elmokit.tasks.examples import TextExample

PIECE = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<end>\))|(?P<word>[^\s()]+)")
SPELLINGS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "``": '"',
    "''": '"',
}
ESCAPED = re.compile(r"\\([/*])")


class Phrase(NamedTuple):
    """A labelled part of a sentence: its words are `words[start:end]`."""

    label: str
    start: int
    end: int


def read_trees(
    path: str | Path,
    *,
    phrases: bool = False,
    shortest_phrase: int = 1,
    encoding: str = ENCODING,
) -> list[TextExample]:
    """The sentences of a file, or all of their phrases.

    Args:
        path: The file.
        phrases: Every phrase is an example, a sentence before its parts; a phrase that comes once
            more with the same label is left out.
        shortest_phrase: The fewest words of a phrase, or of a sentence, among phrases.
        encoding: How the file writes characters as bytes.
    """
    examples: list[TextExample] = []
    for line in read_lines(path, encoding):
        if line.text.strip():
            found = _examples(line)
            examples.extend(found if phrases else [next(found)])
    if not examples:
        raise InputError(f"{path}: holds no tree; name a file that has some")
    if not phrases:
        return examples
    return _without_repetitions(each for each in examples if len(each.words) >= shortest_phrase)


def unescaped(word: str) -> str:
    r"""A word of the Penn Treebank as it is in running text.

    >>> unescaped("-LRB-"), unescaped(r"and\/or")
    ('(', 'and/or')
    """
    return SPELLINGS.get(word) or ESCAPED.sub(r"\1", word)


def _examples(line: Line) -> Iterator[TextExample]:
    """The phrases of a line's tree, the whole sentence first."""
    escaped, phrases = _parsed(line)
    words = [unescaped(word) for word in escaped]
    for phrase in phrases:
        yield TextExample(tuple(words[phrase.start : phrase.end]), phrase.label, line.place)


def _parsed(line: Line) -> tuple[list[str], list[Phrase]]:
    """The words of a line's tree and its phrases, each before the parts that it is made of."""
    words: list[str] = []
    opened: list[Phrase] = []  # those whose end is still to come
    closed: list[Phrase] = []
    for piece in PIECE.finditer(line.text):
        if closed and not opened:
            raise _no_tree(line, "it continues after its end")
        if piece["word"] and not opened:
            raise _no_tree(line, "a word is outside of the brackets")
        if piece["word"]:
            words.append(piece["word"])
        elif piece["end"]:
            closed.append(_closed(opened, len(words), line))
        elif not piece["label"]:
            raise _no_tree(line, "a phrase has no label")
        else:
            opened.append(Phrase(piece["label"], len(words), len(words)))
    if opened:
        raise _no_tree(line, "a bracket is not closed")
    closed.reverse()  # a phrase closes after its parts, also after one that is as long as itself
    return words, sorted(closed, key=lambda phrase: (phrase.start, -phrase.end))


def _closed(opened: list[Phrase], end: int, line: Line) -> Phrase:
    """The phrase that a closing bracket ends."""
    if not opened:
        raise _no_tree(line, "a bracket is closed that was not opened")
    phrase = opened.pop()
    if phrase.start == end:
        raise _no_tree(line, "a phrase has no words")
    return phrase._replace(end=end)


def _no_tree(line: Line, why: str) -> FormatError:
    return FormatError(
        f"{line.place}: is no tree, since {why}; a tree looks like (3 (2 It) (4 works)), and the "
        "name of a table ends in .csv, .tsv or .jsonl"
    )


def _without_repetitions(examples: Iterable[TextExample]) -> list[TextExample]:
    """The first of all examples that have the same words and label."""
    distinct: dict[tuple[object, ...], TextExample] = {}
    for example in examples:
        distinct.setdefault((example.words, example.label), example)
    return list(distinct.values())
