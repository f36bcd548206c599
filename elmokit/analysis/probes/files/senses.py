"""Words with their senses: sense keys of WordNet, and sentences in which some words have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from elmokit.errors import FormatError

SENSE_KEY = re.compile(r"(?P<lemma>\S+)%(?P<kind>[1-5]):\d\d:\d\d:[^:\s]*:\d*")
SATELLITE, ADJECTIVE = "5", "3"
TREEBANK_MARKS = {
    "``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{",
    "-RCB-": "}",
}  # fmt: skip
"""How the Penn Treebank writes marks, and how running text does, which models have read."""


class Occurrence(NamedTuple):
    """A word, or several that are one, at a place in a sentence: words[start:end]."""

    start: int
    end: int
    lemma: str  # with its part of speech, as `lemma_of` writes it
    senses: tuple[str, ...]  # sense keys; more than one where the annotators could not decide


class SenseSentence(NamedTuple):
    """Words, and which of them have a sense."""

    words: tuple[str, ...]
    occurrences: tuple[Occurrence, ...]


class Unit(NamedTuple):
    """What a text marks as one: its words, and its senses if it has some."""

    words: tuple[str, ...]
    lemma: str
    senses: tuple[str, ...]


def lemma_of(sense: str, place: str) -> str:
    """The lemma and part of speech that a sense key is of; `place` is where it was read.

    >>> lemma_of("bank%1:17:01::", ""), lemma_of("peculiar%5:00:00:specific:00", "")
    ('bank%1', 'peculiar%3')
    """
    found = SENSE_KEY.fullmatch(sense)
    if found is None:
        raise FormatError(
            f"{place}: {sense[:40]!r} is no sense key; they look like 'bank%1:17:01::'"
        )
    # A satellite is an adjective as well: one whose meaning is near another's.
    return f"{found['lemma']}%{ADJECTIVE if found['kind'] == SATELLITE else found['kind']}"


def words_of(text: str) -> tuple[str, ...]:
    """The words between blanks, their marks as running text has them.

    >>> words_of("-LRB- belong to")
    ('(', 'belong', 'to')
    """
    return tuple(TREEBANK_MARKS.get(word, word) for word in text.split())


def sentence_of(units: Iterable[Unit]) -> SenseSentence:
    """A sentence out of its units, one after another."""
    words: list[str] = []
    occurrences = []
    for unit in units:
        start = len(words)
        words += unit.words
        if unit.senses and unit.words:
            occurrences.append(Occurrence(start, len(words), unit.lemma, unit.senses))
    return SenseSentence(tuple(words), tuple(occurrences))
