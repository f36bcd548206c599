from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.inference.token_vectors import KnownWords, WordCache


def counting_cache(capacity: int, version=lambda: 0) -> tuple[WordCache, list[str]]:
    encoded: list[str] = []

    def encode(words):
        encoded.extend(words)
        return torch.tensor([[float(len(word)), float(ord(word[0]))] for word in words])

    return WordCache(encode, capacity, version), encoded


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


def test_another_version_of_the_encoder_computes_again():
    versions = [1, 1, 2, 2]
    cache, encoded = counting_cache(5, lambda: versions.pop(0))
    for _ in range(3):
        cache.vectors(["a"])
    assert encoded == ["a", "a"]


def test_a_negative_capacity_is_refused():
    with pytest.raises(ConfigError, match="cache_words is -1"):
        counting_cache(-1)


def test_every_word_that_is_encoded_counts_as_a_miss():
    cache, encoded = counting_cache(3)
    for words in (["a", "bb"], ["a", "c", "dd"], ["a", "bb", "c", "dd"]):
        cache.vectors(words)
        assert cache.misses == len(encoded)
    assert cache.hits == 0
    cache.vectors(["dd"])
    assert (cache.hits, cache.hit_rate) == (1, 1 / (1 + len(encoded)))


def test_words_learnt_after_a_mark_are_handed_on_to_the_bit() -> None:
    cache, other = WordCache(encode_for_test, 10, bool), WordCache(fail_to_encode, 10, bool)
    cache.vectors(["a", "b"])
    mark = cache.mark()
    assert cache.learnt_since(mark).words == []
    cache.vectors(["b", "c", "d"])
    first, later = cache.learnt_since((mark[0], 0)), cache.learnt_since(mark)
    assert (first.words, later.words) == (["a", "b", "c", "d"], ["c", "d"])
    assert not later.afresh
    other.learn(first, torch.device("cpu"))
    assert torch.equal(other.vectors(["d", "a"]), cache.vectors(["d", "a"]))


def test_what_was_forgotten_is_not_handed_on() -> None:
    cache = WordCache(encode_for_test, 3, bool)
    cache.vectors(["a", "b"])
    mark = cache.mark()
    cache.vectors(["c", "d"])  # full: it starts afresh
    learnt = cache.learnt_since(mark)
    assert learnt.afresh
    assert learnt.words == ["c", "d"]
    other = WordCache(fail_to_encode, 3, bool)
    other.learn(KnownWords(["x"], np.ones((1, 2), dtype=np.float32)), torch.device("cpu"))
    other.learn(learnt, torch.device("cpu"))
    assert other.mark()[1] == 2
    assert torch.equal(other.vectors(["c"]), cache.vectors(["c"]))


def test_words_can_be_learnt_after_others_were_computed() -> None:
    cache = WordCache(encode_for_test, 3, bool)
    with torch.inference_mode():
        cache.vectors(["a"])
    cache.learn(KnownWords(["x"], np.ones((1, 2), dtype=np.float32)), torch.device("cpu"))
    assert torch.equal(cache.vectors(["x"]), torch.ones(1, 2))


def encode_for_test(words: Sequence[str]) -> Tensor:
    """Token vectors that tell which word, and beside how many others it was encoded."""
    return torch.tensor([[float(ord(word)), float(len(words))] for word in words])


def fail_to_encode(words: Sequence[str]) -> Tensor:
    raise AssertionError(f"{words} should be known")
