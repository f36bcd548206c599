"""Words that are spelt nearly as one that is missing."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MOST_FORMS = 4
WORDS_LOOKED_AT = 50_000


def near_forms(word: str, words: Sequence[str]) -> list[str]:
    """The words that begin alike and are spelt nearly so, the nearest first; then longer ones.

    Of many words, the first are looked at: the frequent ones, as a rule.

    >>> near_forms("banks", ["bank", "river", "bankers", "Bank"])
    ['bank', 'bankers', 'Bank']
    """
    first = word[:1].casefold()
    alike = [other for other in words[:WORDS_LOOKED_AT] if other[:1].casefold() == first]
    candidates = [other for other in alike if abs(len(other) - len(word)) <= len(word) // 2]
    near = get_close_matches(word, candidates, MOST_FORMS)
    longer = [other for other in alike if word and other.startswith(word)]
    return list(dict.fromkeys([*near, *longer]))[:MOST_FORMS]
