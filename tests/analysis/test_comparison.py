from __future__ import annotations

import numpy as np
import pytest
from small_models import small_embedder

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
