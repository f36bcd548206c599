"""What word2vec learns from: each word of a sentence with the words around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from elmokit.config import check_size


class Centre(NamedTuple):
    """A word of a sentence, and the words in its window, in their order."""

    words: tuple[str, ...]
    position: int
    context: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The training pairs of skip-gram: the word, and one that it is to predict."""
        return [(self.words[self.position], word) for word in self.context]


def centres(words: Sequence[str], window: int) -> list[Centre]:
    """Each word of a sentence with those up to `window` places away on either side.

    Training itself draws a smaller window for each word, from 1 to `window`, so that near words
    count more; and it leaves out some of the most frequent words.

    >>> [centre.pairs for centre in centres("the quick brown".split(), window=1)]
    [[('the', 'quick')], [('quick', 'the'), ('quick', 'brown')], [('brown', 'quick')]]
    """
    check_size("window", window)
    return [
        Centre(
            tuple(words),
            place,
            (*words[max(place - window, 0) : place], *words[place + 1 : place + 1 + window]),
        )
        for place in range(len(words))
    ]


def skip_gram_pairs(words: Sequence[str], window: int) -> list[tuple[str, str]]:
    """All training pairs of a sentence."""
    return [pair for centre in centres(words, window) for pair in centre.pairs]
