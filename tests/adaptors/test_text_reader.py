"""What is remembered of texts, and for how long."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import small_embedder

from elmokit.adaptors.text_reader import MEGABYTE, TextCache, TextReader, bytes_of

TEXTS = [f"text number {number}" for number in range(2000)]


@pytest.fixture
def asked() -> list[str]:
    return []


def cache_of(room: int, asked: list[str]) -> TextCache:
    """Has room for so many texts of one letter."""

    def compute(texts):
        for text in texts:
            asked.append(text)
            yield np.array([ord(text)], np.float32)

    return TextCache(compute, room * bytes_of("a", np.zeros(1, np.float32)))


def test_texts_asked_for_longest_ago_are_forgotten_first(asked):
    cache = cache_of(2, asked)
    cache.get(["a", "b"])
    cache.get(["a"])
    cache.get(["c"])
    assert [text for text in "abc" if text in cache] == ["a", "c"]
    assert asked == ["a", "b", "c"]


def test_more_texts_than_there_is_room_for_are_given_all_the_same(asked):
    cache = cache_of(1, asked)
    assert [array.item() for array in cache.get(list("abca"))] == [97, 98, 99, 97]
    assert asked == ["a", "b", "c"]
    assert len(cache) == 1


def test_without_room_nothing_is_remembered(asked):
    cache = cache_of(0, asked)
    cache.get(["a"])
    cache.get(["a"])
    assert (asked, len(cache)) == (["a", "a"], 0)


def test_long_texts_count_for_more_than_their_vectors():
    cache = TextCache(lambda texts: (np.zeros(1, np.float32) for _ in texts), MEGABYTE)
    cache.get([letter * (MEGABYTE // 2) for letter in "abc"])
    assert len(cache) == 1


def test_reading_ahead_ends_where_it_would_push_out_what_it_read():
    told = []
    reader = TextReader(small_embedder(), "spaces", megabytes=0)
    reader.read_ahead(TEXTS, pooled=True, progress=lambda *done: told.append(done))
    assert told == [(1024, 2000)]


def test_reading_ahead_goes_on_where_there_is_room(monkeypatch):
    told = []
    reader = TextReader(small_embedder(), "spaces")
    reader.read_ahead(TEXTS, pooled=True, progress=lambda *done: told.append(done))
    assert told == [(1024, 2000), (2000, 2000)]
    monkeypatch.setattr(reader.embedder, "embed_stream", None)  # is not needed any more
    assert len(reader.pooled(TEXTS)) == 2000


def test_words_limit_is_of_the_text_and_not_of_its_sentences():
    reader = TextReader(small_embedder(), words=3)
    assert reader.sentences("a b\nc d\ne") == [["a", "b"], ["c"]]
    assert [layers.shape[1] for layers in reader.layers(["a b\nc d\ne", "a", ""])] == [3, 1, 0]
