from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from closeness import assert_close
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.comparison import cosine, draw_heat_map, heat_map
from elmokit.errors import InputError

SENTENCES = ["a river bank", "the bank lends"]


def test_cells_are_the_cosines_between_words_of_a_layer() -> None:
    embedder = small_embedder()
    found = heat_map(embedder, SENTENCES)
    layers = np.concatenate(embedder.embed_layers([one.split() for one in SENTENCES]), axis=1)
    assert list(found.cosines) == ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]
    assert found.words == ["a", "river", "bank", "the", "bank", "lends"]
    assert found.borders == [3]
    top = found.cosines["layer 2 (top)"]
    assert top.shape == (6, 6)
    assert_close(top[2, 4], cosine(layers[2, 2], layers[2, 4]))
    average = cosine(layers[:, 1].mean(0), layers[:, 5].mean(0))
    assert_close(found.cosines["average"][1, 5], average)


def test_a_map_is_symmetric_and_1_on_its_diagonal() -> None:
    for matrix in heat_map(small_embedder(), SENTENCES).cosines.values():
        assert_close(matrix, matrix.T)
        assert_close(np.diag(matrix), 1)


def test_static_vectors_come_first_with_nothing_for_unknown_words() -> None:
    found = heat_map(small_embedder(), SENTENCES, small_vectors(name="word2vec"))
    assert next(iter(found.cosines)) == "word2vec (static)"
    static = found.cosines["word2vec (static)"]
    assert static[2, 4] == pytest.approx(1)
    assert np.isnan(static[0]).all()
    assert not np.isnan(static[1, 2])
    assert found.to_dict()["cosines"]["word2vec (static)"][0] == [None] * 6


def test_static_vectors_alone_have_one_map() -> None:
    found = heat_map(small_vectors(), ["river bank"])
    assert list(found.cosines) == ["static vectors (static)"]


@pytest.mark.parametrize("sentences", [[], [""], ["a bank", " "]])
def test_a_sentence_without_words_is_refused(sentences: list[str]) -> None:
    with pytest.raises(InputError, match="give sentences with words"):
        heat_map(small_embedder(), sentences)


def test_very_many_words_are_refused() -> None:
    with pytest.raises(InputError, match="the sentences have 201 words; a heat map is of 200"):
        heat_map(small_embedder(), ["a " * 201])


def test_a_picture_is_drawn_with_a_panel_for_each_layer(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    found = heat_map(small_embedder(), SENTENCES, small_vectors())
    draw_heat_map(found, tmp_path / "map.svg")
    contents = (tmp_path / "map.svg").read_bytes()
    for layer in found.cosines:
        assert contents.count(f"<!-- {layer} -->".encode()) == 1


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    found = heat_map(small_vectors(), ["river bank"])
    with pytest.raises(InputError, match=r"map\.gif: .* \.png or \.svg"):
        draw_heat_map(found, tmp_path / "map.gif")
