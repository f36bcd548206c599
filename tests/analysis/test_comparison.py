from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from closeness import assert_close
from helpers import error_of
from small_models import small_embedder
from static.small_vectors import TABLE, small_vectors

from elmokit.analysis.comparison import compare_occurrences, cosine, draw_heat_map, heat_map
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
    assert comparison.cosines["layer 0 (static)"][0] == pytest.approx(1)
    assert comparison.cosines["layer 0 (static)"][1] < 0.9999  # "Bank" is spelt otherwise


def test_a_word_that_is_not_there_names_its_sentence():
    with pytest.raises(InputError, match="'bank' is not a word of sentence 2: no such thing"):
        compare_occurrences(small_embedder(), "bank", ["a bank", "no such thing"])


def test_rounding_leads_to_no_cosine_above_one_and_a_zero_vector_is_like_no_other():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0
    vectors = np.random.default_rng(0).normal(size=(200, 300)).astype(np.float32)
    assert all(cosine(vector, vector) <= 1 for vector in vectors)
    assert all(cosine(vector, -vector) >= -1 for vector in vectors)


def test_the_row_of_static_vectors_comes_first_and_is_1_for_the_same_spelling():
    static = small_vectors(name="a very long name")
    comparison = compare_occurrences(small_embedder(), "bank", SENTENCES, static)
    assert next(iter(comparison.cosines)) == "a very long name (static)"
    assert comparison.cosines["a very long name (static)"] == pytest.approx((1, 1, 1))
    lines = comparison.table().splitlines()[5:]
    assert lines[1] == "a very long name (static)     1.000    1.000    1.000"
    assert len({len(line) for line in lines}) == 1


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


def test_static_vectors_are_compared_in_the_place_of_an_embedder():
    assert list(heat_map(small_vectors(), ["river bank"]).cosines) == ["static vectors (static)"]
    comparison = compare_occurrences(small_vectors(), "bank", SENTENCES)
    assert list(comparison.cosines) == ["static vectors (static)"]
    assert comparison.cosines["static vectors (static)"] == pytest.approx((1, 1, 1))


# Heat maps

TWO = ["a river bank", "the bank lends"]


def test_cells_are_the_cosines_between_words_of_a_layer() -> None:
    embedder = small_embedder()
    found = heat_map(embedder, TWO)
    layers = np.concatenate(embedder.embed_layers([one.split() for one in TWO]), axis=1)
    assert list(found.cosines) == ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]
    assert found.words == ["a", "river", "bank", "the", "bank", "lends"]
    assert found.borders == [3]
    top = found.cosines["layer 2 (top)"]
    assert top.shape == (6, 6)
    assert_close(top[2, 4], cosine(layers[2, 2], layers[2, 4]))
    average = cosine(layers[:, 1].mean(0), layers[:, 5].mean(0))
    assert_close(found.cosines["average"][1, 5], average)
    for matrix in found.cosines.values():
        assert_close(matrix, matrix.T)
        assert_close(np.diag(matrix), 1)


def test_static_vectors_come_first_with_nothing_for_unknown_words() -> None:
    found = heat_map(small_embedder(), TWO, small_vectors(name="word2vec"))
    assert next(iter(found.cosines)) == "word2vec (static)"
    static = found.cosines["word2vec (static)"]
    assert static[2, 4] == pytest.approx(1)
    assert np.isnan(static[0]).all()
    assert not np.isnan(static[1, 2])
    assert found.to_dict()["cosines"]["word2vec (static)"][0] == [None] * 6


@pytest.mark.parametrize("sentences", [[], [""], ["a bank", " "], ["a " * 201]])
def test_no_words_in_a_sentence_and_very_many_words_are_an_error(sentences: list[str]) -> None:
    error_of(heat_map, small_embedder(), sentences, kind=InputError)


def test_a_picture_is_drawn_with_a_panel_for_each_layer(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    found = heat_map(small_embedder(), TWO, small_vectors())
    draw_heat_map(found, tmp_path / "map.svg")
    contents = (tmp_path / "map.svg").read_bytes()
    for layer in found.cosines:
        assert contents.count(f"<!-- {layer} -->".encode()) == 1
    with pytest.raises(InputError, match=r"map\.gif: .* \.png or \.svg"):
        draw_heat_map(found, tmp_path / "map.gif")


def test_a_word_in_other_letters_than_asked_for_is_named():
    said = "BANK is not written so everywhere; compared: bank, Bank"
    assert said in compare_occurrences(small_embedder(), "BANK", SENTENCES).table().splitlines()
    assert "written so" not in compare_occurrences(small_embedder(), "a", ["a", "a b"]).table()
