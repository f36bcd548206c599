"""What is cached of texts, and for how long."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from closeness import assert_close
from random_models import random_options, random_weights, write_files
from small_checkpoints import training_names, write_checkpoint
from small_models import small_embedder

from elmokit.adaptors.text_reader import MEGABYTE, TextReader, load_shared

TEXTS = [f"text number {number}" for number in range(2000)]


def reader_of(texts: int, **settings: Any) -> TextReader:
    """Has room for so many texts of one letter."""
    reader = TextReader(small_embedder(), "spaces", **settings)
    [array] = reader.read(["a"], pooled=True)
    reader.forget()
    reader._room = texts * (array.nbytes + sys.getsizeof("a"))
    return reader


@pytest.mark.parametrize(
    ("room", "asked", "read"),
    [
        (2, ["ab", "a", "c", "a", "b"], [2, 1, 1]),  # b was asked for longest ago
        (1, ["abca", "c", "a"], [3, 1]),  # all are given though there is no room for them
        (0, ["a", "a"], [1, 1]),
    ],
)
def test_texts_asked_for_longest_ago_are_forgotten_first(room, asked, read, count_reading):
    reader = reader_of(room)
    expected = dict(zip("abc", reader_of(9).read(list("abc"), pooled=True), strict=True))
    counts = count_reading(reader.embedder)
    for texts in asked:
        assert_close(reader.read(list(texts), pooled=True), [expected[text] for text in texts])
    assert counts == read


def test_long_texts_count_for_more_than_their_vectors(count_reading):
    reader = TextReader(small_embedder(), lambda text: [text[0]], megabytes=1)
    texts = [letter * (MEGABYTE // 2) for letter in "abc"]
    counts = count_reading(reader.embedder)
    reader.read(texts, pooled=True)
    reader.read(texts[:2], pooled=True)
    assert counts == [3, 2]


@pytest.mark.parametrize(("megabytes", "told"), [(0, [1024]), (512, [1024, 2000])])
def test_reading_ahead_ends_where_it_would_push_out_what_it_read(megabytes, told, count_reading):
    found = []
    reader = TextReader(small_embedder(), "spaces", megabytes=megabytes)
    reader.read_ahead(TEXTS, pooled=True, progress=lambda *done: found.append(done))
    assert found == [(done, 2000) for done in told]
    counts = count_reading(reader.embedder)
    reader.read(TEXTS, pooled=True)
    assert sum(counts) == (0 if megabytes else 2000)


def test_words_limit_is_of_the_text_and_not_of_its_sentences():
    reader = TextReader(small_embedder(), words=3)
    assert reader.sentences("a b\nc d\ne") == [["a", "b"], ["c"]]
    found = reader.read(["a b\nc d\ne", "a", ""], pooled=False)
    assert [layers.shape[1] for layers in found] == [3, 1, 0]


def test_a_checkpoint_that_was_written_again_is_another_model(tmp_path):
    options = random_options()
    models = []
    for seed in (1, 2):
        weights = random_weights(options, seed=seed)
        write_files(tmp_path, options, weights)[1].unlink()
        prefix = write_checkpoint(tmp_path / "model.ckpt-1", training_names(weights))
        models.append(load_shared(prefix))
        assert load_shared(prefix) is models[-1]
    assert models[0].checksum != models[1].checksum
