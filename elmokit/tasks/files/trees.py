r"""Trees of the Stanford Sentiment Treebank: a sentence a line, a label at every phrase.

    (3 (2 It) (4 (2 (2 's) (4 lovely)) (2 .)))

Words are written as in the Penn Treebank: `(` as `-LRB-`, `/` as `\/`, quotation marks as two
strokes. Running text has none of that, and so the language models' text: they are undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.io.text_files import Line, TextSettings, read_lines
from elmokit.tasks.examples import TextExample
from elmokit.text.tokenizer import TREEBANK_MARKS

PIECE = re.compile(r"\(\s*(?P<label>[^\s()]*)|(?P<end>\))|(?P<word>[^\s()]+)")
ESCAPED = re.compile(r"\\([/*])")


class LabelledPhrase(NamedTuple):
    """A labelled part of a sentence: its words are `words[start:end]`."""

    label: str
    start: int
    end: int


def read_trees(path: str | Path, settings: TextSettings) -> list[TextExample]:
    """The sentences of a file, or all phrases, before their parts; none twice with one label."""
    examples: list[TextExample] = []
    blank: Line | None = None
    for line in read_lines(path, settings.encoding, settings.errors):
        if not line.text.strip():
            blank = blank or line
            continue
        if blank is not None:
            raise _no_tree(blank, "it is blank")
        found = _examples(line)
        examples.extend(found if settings.phrases else [next(found)])
    if not examples:
        raise InputError(f"{path}: holds no tree; name a file that has some")
    if not settings.phrases:
        return examples
    long_enough = (each for each in examples if len(each.words) >= settings.shortest_phrase)
    distinct: dict[tuple[object, ...], TextExample] = {}
    for example in long_enough:
        distinct.setdefault((example.words, example.label), example)
    return list(distinct.values())


def unescaped(word: str) -> str:
    r"""A word of the Penn Treebank as it is in running text.

    >>> unescaped("-LRB-"), unescaped(r"and\/or")
    ('(', 'and/or')
    """
    return TREEBANK_MARKS.get(word) or ESCAPED.sub(r"\1", word)


def _examples(line: Line) -> Iterator[TextExample]:
    """The phrases of a line's tree, the sentence first."""
    escaped, phrases = _parsed(line)
    words = [unescaped(word) for word in escaped]
    for phrase in phrases:
        yield TextExample(tuple(words[phrase.start : phrase.end]), phrase.label, line.place)


def _parsed(line: Line) -> tuple[list[str], list[LabelledPhrase]]:
    """The words of a line's tree and its phrases, each before the parts that it is made of."""
    words: list[str] = []
    opened: list[LabelledPhrase] = []  # those whose end is still to come
    closed: list[LabelledPhrase] = []
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
            opened.append(LabelledPhrase(piece["label"], len(words), len(words)))
    if opened:
        raise _no_tree(line, "a bracket is not closed")
    closed.reverse()  # a phrase closes after its parts, also after one that is as long as itself
    return words, sorted(closed, key=lambda phrase: (phrase.start, -phrase.end))


def _closed(opened: list[LabelledPhrase], end: int, line: Line) -> LabelledPhrase:
    if not opened:
        raise _no_tree(line, "a bracket is closed that was not opened")
    phrase = opened.pop()
    if phrase.start == end:
        raise _no_tree(line, "a phrase has no words")
    return phrase._replace(end=end)


def _no_tree(line: Line, why: str) -> FormatError:
    return FormatError(
        f"{line.place}: is not a tree, since {why}; a tree looks like (3 (2 It) (4 works)), and "
        "the name of a table ends in .csv, .tsv or .jsonl"
    )
