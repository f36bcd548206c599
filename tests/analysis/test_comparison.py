from __future__ import annotations

import numpy as np
import pytest
from small_models import small_embedder
from static.small_vectors import TABLE, small_vectors

from elmokit.analysis.comparison import compare_occurrences, cosine
from elmokit.errors import InputError

SENTENCES = ["a river bank", "the bank lends", "Bank of England"]


def test_cosines_are_those_of_the_word_s_vectors():
    embedder = small_embedder()
    comparison = compare_occurrences(embedder, "bank", SENTENCES)
    layers = embedder.embed_layers([sentence.split() for sentence in SENTENCES])
    first, second = layers[0][:, 2], layers[1][:, 1]
    for number, name in enumerate(["layer 0 (static)", "layer 1", "layer 2 (top)"]):
        assert comparison.cosines[name][0] == pytest.approx(cosine(first[number], second[number]))
    assert comparison.pairs == ((0, 1), (0, 2), (1, 2))


def test_the_static_vector_of_the_same_spelling_is_the_same():
    comparison = compare_occurrences(small_embedder(), "bank", SENTENCES)
    assert comparison.cosines["layer 0 (static)"][0] == pytest.approx(1)
    assert comparison.cosines["layer 0 (static)"][1] < 0.9999  # "Bank" is spelt otherwise


def test_a_word_that_is_not_there_names_its_sentence():
    with pytest.raises(InputError, match="'bank' is not a word of sentence 2: no such thing"):
        compare_occurrences(small_embedder(), "bank", ["a bank", "no such thing"])


def test_a_zero_vector_is_like_no_other():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0


def test_rounding_leads_to_no_cosine_above_one():
    vectors = np.random.default_rng(0).normal(size=(200, 300)).astype(np.float32)
    assert all(cosine(vector, vector) <= 1 for vector in vectors)
    assert all(cosine(vector, -vector) >= -1 for vector in vectors)


def test_the_row_of_static_vectors_comes_first_and_is_1_for_the_same_spelling():
    static = small_vectors(name="word2vec")
    comparison = compare_occurrences(small_embedder(), "bank", SENTENCES, static)
    assert next(iter(comparison.cosines)) == "word2vec (static)"
    assert comparison.cosines["word2vec (static)"] == pytest.approx((1, 1, 1))
    assert comparison.table().splitlines()[5] == "word2vec (static)     1.000    1.000    1.000"


def test_forms_with_static_vectors_of_their_own_are_told_apart():
    sentences = ["a king", "the King", "no king"]
    found = compare_occurrences(small_embedder(), "king", sentences, small_vectors())
    row = found.cosines["static vectors (static)"]
    assert row == pytest.approx((cosine(TABLE[0], TABLE[4]), 1, cosine(TABLE[0], TABLE[4])))


def test_a_word_without_a_static_vector_has_no_cosine():
    sentences = ["a zebra", "the zebra"]
    found = compare_occurrences(small_embedder(), "zebra", sentences, small_vectors())
    assert found.cosines["static vectors (static)"] == (None,)
    assert found.to_dict()["cosines"]["static vectors (static)"] == [None]
    row = next(line for line in found.table().splitlines() if line.startswith("static vectors"))
    assert row.split() == ["static", "vectors", "(static)", "-"]


def test_rows_of_long_names_are_aligned():
    static = small_vectors(name="a very long name of vectors")
    lines = compare_occurrences(small_embedder(), "bank", SENTENCES, static).table().splitlines()
    assert len({len(line) for line in lines[4:]}) == 1


def test_static_vectors_are_compared_in_the_place_of_an_embedder():
    comparison = compare_occurrences(small_vectors(), "bank", SENTENCES)
    assert list(comparison.cosines) == ["static vectors (static)"]
    assert comparison.cosines["static vectors (static)"] == pytest.approx((1, 1, 1))
