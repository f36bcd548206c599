"""Questions of words, and judgements of people, read from a line or from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.text.corpus import read_chunks, text_of


class Judgement(NamedTuple):
    """How alike people find two words."""

    first: str
    second: str
    score: float


class Question(NamedTuple):
    """An analogy: `first` is to `second` as `third` is to `answer`."""

    section: str
    first: str
    second: str
    third: str
    answer: str


def parse_analogy(question: str) -> tuple[list[str], list[str]]:
    """Read `king - man + woman` as its positive and its negative words.

    >>> parse_analogy("king - man + woman")
    (['king', 'woman'], ['man'])
    """
    pieces = question.split()
    if pieces and pieces[0] not in ("+", "-"):
        pieces.insert(0, "+")
    signs, words = pieces[::2], pieces[1::2]
    if not words or len(signs) != len(words) or {*signs} - {"+", "-"} or {*words} & {"+", "-"}:
        raise InputError(
            f"{question!r} is no question of words with + or - between them, and blanks around; "
            "write it as 'king - man + woman'"
        )
    signed = list(zip(signs, words, strict=True))
    return [word for sign, word in signed if sign == "+"], [w for sign, w in signed if sign == "-"]


def read_judgements(path: str | Path) -> list[Judgement]:
    """Read a similarity set: two words and a score on each line; # begins a remark."""
    found = []
    for number, line in _lines(Path(path)):
        if line.startswith("#"):
            continue
        try:
            first, second, score = line.split()
            found.append(Judgement(first, second, float(score)))
        except ValueError:
            raise FormatError(
                f"{path}, line {number}: {line[:60]!r} is not two words and a score; mend it"
            ) from None
    if not found:
        raise FormatError(f"{path}: has no pair of words; get it anew")
    return found


def read_questions(path: str | Path) -> list[Question]:
    """Read analogies: four words on each line, below lines such as `: capital-common-countries`."""
    found = []
    section = Path(path).name.partition(".")[0]
    for number, line in _lines(Path(path)):
        if line.startswith(":"):
            section = line.lstrip(": ").strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise FormatError(
                f"{path}, line {number}: {line[:60]!r} is not four words, nor a section such as "
                "': family'; mend it"
            )
        found.append(Question(section, *words))
    if not found:
        raise FormatError(f"{path}: has no question; get it anew")
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers; compressed files too."""
    for chunk in read_chunks(path):
        for number, line in enumerate(text_of(chunk).split("\n"), start=chunk.first_line):
            if line.strip():
                yield number, line.strip()
