"""A sentence with one word marked by stars: which word it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from elmokit.analysis.occurrence import Occurrence
from elmokit.errors import InputError
from elmokit.text.tokenizer import Token, Tokenizer

MARKED = re.compile(r"(?<![\w*])\*([^\s*]+)\*(?![\w*])")
SHOWN = 60
EXAMPLE = '"He sat on the river *bank* ."'


def find_marked(text: str, tokenizer: Tokenizer) -> Occurrence:
    """The marked word in its sentence; of a text of several, the sentence that has the mark."""
    mark = only_mark(text)
    start, end = mark.start(), mark.start() + len(mark[1])
    plain = text[: mark.start()] + mark[1] + text[mark.end() :]
    for sentence in tokenizer.sentences(plain):
        inside = [n for n, token in enumerate(sentence) if token.start < end and token.end > start]
        if inside:
            check_whole(mark[1], [sentence[number] for number in inside], start, end)
            return Occurrence(tuple(token.text for token in sentence), inside[0])
    raise InputError(f"{shown(text)}: {mark[1]!r} is no word; mark another one")


def only_mark(text: str) -> re.Match[str]:
    """The only mark of a text; refused where it has none, or several."""
    marks = list(MARKED.finditer(text))
    if len(marks) != 1:
        found = "has no marked word" if not marks else f"has {len(marks)} marked words"
        raise InputError(f"{shown(text)} {found}; put stars around one word: {EXAMPLE}")
    return marks[0]


def check_whole(marked: str, tokens: Sequence[Token], start: int, end: int) -> None:
    """Refuse a mark around several words, or around a piece of one."""
    if len(tokens) > 1:
        words = " ".join(token.text for token in tokens)
        raise InputError(f"{marked!r} is {len(tokens)} words: {words}; put stars around one word")
    if (tokens[0].start, tokens[0].end) != (start, end):
        raise InputError(
            f"{marked!r} is but a piece of {tokens[0].text!r}; put stars around all of it"
        )


def shown(text: str) -> str:
    """The beginning of a text, quoted."""
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
