"""Where words stand in a raw text: their first character, and the one after their last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Offsets = tuple[int, int]


def place_of_words(offsets: Sequence[Offsets], first_word: int, end_word: int) -> Offsets:
    """Where some words, one or more, begin and end in the text.

    >>> place_of_words([(0, 3), (4, 9), (9, 10)], 1, 3)
    (4, 10)
    """
    return offsets[first_word][0], offsets[end_word - 1][1]


def words_between(offsets: Sequence[Offsets], start: int, end: int) -> tuple[int, int]:
    """The first and the end of the words that text[start:end] touches; the same where none is.

    >>> words_between([(0, 3), (4, 9), (9, 10)], 5, 10)
    (1, 3)
    """
    first = bisect_right(offsets, start, key=lambda each: each[1])
    return first, max(first, bisect_left(offsets, end, key=lambda each: each[0]))
