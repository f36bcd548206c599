from __future__ import annotations

import pytest

from elmokit.errors import ConfigError
from elmokit.static.training import centres

SENTENCE = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


def skip_gram_pairs(words: list[str], window: int) -> list[tuple[str, str]]:
    return [pair for centre in centres(words, window) for pair in centre.pairs]


def test_pairs_are_those_of_the_tutorials_picture() -> None:
    pairs = skip_gram_pairs(SENTENCE, window=2)
    assert pairs[:13] == [
        *[("the", "quick"), ("the", "brown")],
        *[("quick", "the"), ("quick", "brown"), ("quick", "fox")],
        *[("brown", "the"), ("brown", "quick"), ("brown", "fox"), ("brown", "jumps")],
        *[("fox", "quick"), ("fox", "brown"), ("fox", "jumps"), ("fox", "over")],
    ]
    assert pairs[-2:] == [("dog", "the"), ("dog", "lazy")]
    assert len(pairs) == 2 + 3 + 4 * 5 + 3 + 2


def test_every_pair_comes_in_both_directions() -> None:
    pairs = skip_gram_pairs(SENTENCE, window=3)
    assert sorted(pairs) == sorted((second, first) for first, second in pairs)


def test_a_word_alone_has_no_pair() -> None:
    assert skip_gram_pairs(["fox"], window=2) == []
    assert skip_gram_pairs([], window=2) == []


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="window is 0"):
        centres(SENTENCE, window=0)
