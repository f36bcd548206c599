"""simple_elmo's calls, against the oracle and the embedder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adaptors.allennlp_samples import SENTENCES, SIZE, Files, averages
from closeness import CLEARLY, assert_agree, distance
from helpers import error_of, write
from oracle import oracle_carry
from random_models import Options, Weights

from elmokit import Embedder, LanguageModel
from elmokit.adaptors.simple_elmo import ElmoModel

MANY = [*SENTENCES, ["One", "more"], ["The", "last", "one"]]


@pytest.fixture
def loaded(files: Files) -> ElmoModel:
    model = ElmoModel()
    assert model.load(files[0].parent, max_batch_size=2) == "The model is now loaded."
    return model


def cut(vectors: np.ndarray) -> list[np.ndarray]:
    return [row[: len(words)] for row, words in zip(vectors, MANY, strict=True)]


def test_a_call_reads_its_first_batch_twice_and_continues(
    model: tuple[Options, Weights], loaded: ElmoModel
) -> None:
    batches = [MANY[:2], MANY[:2], MANY[2:4], MANY[4:]]
    expected = [averages(batch) for batch in oracle_carry(*model, batches)[1:]]

    found = loaded.get_elmo_vectors(MANY)

    assert found.shape == (5, 4, SIZE)
    assert_agree(cut(found), [array for batch in expected for array in batch])
    assert np.array_equal(loaded.get_elmo_vectors(MANY), found)
    assert not found[1, 2:].any()


def test_without_warmup_the_first_batch_starts_from_zeros(loaded: ElmoModel, files: Files) -> None:
    fresh = Embedder.load(*files).embed(MANY[:2], "top")

    found = loaded.get_elmo_vectors(MANY, warmup=False, layers="top")

    assert_agree(cut(found)[:2], fresh)
    other = loaded.get_elmo_vectors(MANY, warmup=False, layers="top", session=object())
    assert distance(cut(other)[:2], fresh) > CLEARLY


def test_all_layers_have_a_dimension_of_their_own(loaded: ElmoModel) -> None:
    layers = loaded.get_elmo_vectors(MANY, layers="all")

    assert layers.shape == (5, loaded.n_layers, 4, loaded.vector_size) == (5, 3, 4, SIZE)
    assert_agree([layers.mean(1)], [loaded.get_elmo_vectors(MANY)])
    assert_agree([layers[:, 2]], [loaded.get_elmo_vectors(MANY, layers="top")])


def test_averages_have_length_1_and_do_not_count_padding(loaded: ElmoModel) -> None:
    vectors = cut(loaded.get_elmo_vectors(MANY))
    means = np.stack([array.mean(0) for array in vectors])

    found = loaded.get_elmo_vector_average(MANY)

    assert_agree([found], [means / np.linalg.norm(means, axis=1, keepdims=True)])
    assert loaded.get_elmo_vector_average(MANY, layers="all").shape == (5, 3, SIZE)
    assert not loaded.get_elmo_vector_average([["a"], []])[1].any()


def test_substitutes_are_what_the_language_model_says() -> None:
    model, language_model = ElmoModel(), LanguageModel.load()
    model.load("english-small", full=True)
    words = ["The", "river", "bank", ".", "More"]
    ends, after = (language_model.next_words(words[:number], 5) for number in (4, 2))

    [found] = model.get_elmo_substitutes([" ".join(words)], topn=4)
    [with_markers] = model.get_elmo_substitutes([" ".join(words)], topn=5, nodelimiters=False)

    assert [one["word"] for one in found] == words
    assert found[2]["forward"]["candidate_words"] == [one.word for one in after][:4]
    before = language_model.previous_words(words[1:], 5)
    assert with_markers[0]["backward"]["candidate_words"] == [one.word for one in before]
    assert with_markers[4]["forward"]["candidate_words"] == [one.word for one in ends]
    assert ends[0].word == "</S>"
    assert found[4]["forward"]["candidate_words"] == [one.word for one in ends[1:]]
    forward = found[2]["forward"]
    assert forward["logp"] == sorted(forward["logp"], reverse=True)
    assert forward["candidates"] == [
        language_model.vocabulary.id_of(word) for word in forward["candidate_words"]
    ]


def test_what_was_not_loaded_is_said(loaded: ElmoModel, tmp_path: Path) -> None:
    assert "call load first" in error_of(ElmoModel().get_elmo_vectors, MANY)
    assert "full=True" in error_of(loaded.get_elmo_substitutes, ["a b"])
    assert "use 'average', 'top' or 'all'" in error_of(loaded.get_elmo_vectors, MANY, layers="low")
    with pytest.raises(FileNotFoundError):
        ElmoModel().load(tmp_path / "nowhere")


def test_the_words_of_a_softmax_lie_beside_the_model(files: Files, tmp_path: Path) -> None:
    write(tmp_path / "vocab.txt", ["<S>", "</S>", "<UNK>"])
    for file in files:
        write(tmp_path / file.name, file.read_bytes())

    assert "softmax" in error_of(ElmoModel().load, tmp_path, full=True)
