from __future__ import annotations

import pytest
import torch

from elmokit.errors import ConfigError
from elmokit.word_cache import WordCache


def counting_cache(capacity: int) -> tuple[WordCache, list[str]]:
    encoded: list[str] = []

    def encode(words):
        encoded.extend(words)
        return torch.tensor([[float(len(word)), float(ord(word[0]))] for word in words])

    return WordCache(encode, capacity), encoded


def expected(words: list[str]) -> torch.Tensor:
    return torch.tensor([[float(len(word)), float(ord(word[0]))] for word in words])


def test_a_word_is_encoded_once():
    cache, encoded = counting_cache(10)
    for words in (["a", "bb", "a"], ["bb", "c"]):
        assert torch.equal(cache.vectors(words), expected(words))
    assert encoded == ["a", "bb", "c"]
    assert (cache.hits, cache.misses) == (1, 3)


def test_a_full_cache_starts_afresh_and_stays_right():
    cache, _ = counting_cache(3)
    for words in (["a", "bb"], ["c", "dd"], ["a", "c", "eee"], ["bb", "a"]):
        assert torch.equal(cache.vectors(words), expected(words))


@pytest.mark.parametrize("capacity", [0, 2])
def test_more_words_than_it_holds_are_computed_without_it(capacity):
    cache, encoded = counting_cache(capacity)
    words = ["a", "bb", "c", "a"]
    assert torch.equal(cache.vectors(words), expected(words))
    assert encoded == ["a", "bb", "c"]


def test_a_cleared_cache_computes_again():
    cache, encoded = counting_cache(5)
    cache.vectors(["a"])
    cache.clear()
    cache.vectors(["a"])
    assert encoded == ["a", "a"]


def test_a_negative_capacity_is_refused():
    with pytest.raises(ConfigError, match="cache_words is -1"):
        counting_cache(-1)
