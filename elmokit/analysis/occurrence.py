"""A word in its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

STARS = ("*", "*")
BRACKETS = ("[", "]")


class Occurrence(NamedTuple):
    """A word at a position of a sentence."""

    words: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        """The word as it stands there."""
        return self.words[self.position]

    def __str__(self) -> str:
        return with_mark(self.words, self.position)


def with_mark(words: Sequence[str], position: int, marks: tuple[str, str] = STARS) -> str:
    """A sentence with one word marked; with stars, as a question marks it.

    >>> with_mark(["the", "river", "bank"], 2)
    'the river *bank*'
    """
    before, after = words[:position], words[position + 1 :]
    first, last = marks
    return " ".join([*before, f"{first}{words[position]}{last}", *after])
