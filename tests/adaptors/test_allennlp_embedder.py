"""`ElmoEmbedder` of AllenNLP 0.9, and the files it writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from adaptors.allennlp_samples import BATCHES, LAYERS, SENTENCES, SIZE, Files
from closeness import assert_agree
from helpers import error_of, read_vectors
from oracle import oracle_carry, oracle_layers
from random_models import Options, Weights

from elmokit.adaptors.allennlp import ElmoEmbedder


def test_embedder_gives_all_layers_batch_after_batch_as_the_oracle(
    model: tuple[Options, Weights], files: Files
) -> None:
    embedder = ElmoEmbedder(*files)

    found = [embedder.embed_batch(batch) for batch in BATCHES]

    for batch, expected in zip(found, oracle_carry(*model, BATCHES), strict=True):
        assert_agree(batch, expected)
    embedder.reset_state()
    assert_agree(embedder.embed_batch(BATCHES[0]), found[0])


def test_embedder_without_state_gives_a_sentence_its_own_vectors(
    model: tuple[Options, Weights], files: Files
) -> None:
    embedder = ElmoEmbedder(*files, stateful=False)

    found = [embedder.embed_sentence(sentence) for sentence in SENTENCES]

    assert_agree(found, oracle_layers(*model, SENTENCES))
    assert_agree(list(embedder.embed_sentences(iter(SENTENCES), batch_size=2)), found)


def test_batch_to_embeddings_is_padded_with_zeros(files: Files) -> None:
    embeddings, mask = ElmoEmbedder(*files).batch_to_embeddings([*SENTENCES, []])

    assert embeddings.shape == (4, LAYERS, 4, SIZE)
    assert mask.sum(1).tolist() == [4, 2, 3, 0]
    assert not embeddings.transpose(1, 2)[~mask].any()
    expected = ElmoEmbedder(*files).embed_batch(SENTENCES)
    assert_agree([embeddings[1, :, :2].numpy()], [expected[1]])


def test_empty_sentence_has_layers_of_no_words(files: Files) -> None:
    embedder = ElmoEmbedder(*files)

    assert embedder.embed_sentence([]).shape == (LAYERS, 0, SIZE)
    assert embedder.embed_batch([[], ["a"]])[0].shape == (LAYERS, 0, SIZE)
    assert embedder.batch_to_embeddings([[], []])[0].shape == (2, LAYERS, 0, SIZE)
    assert embedder.embed_batch([]) == []
    embeddings, mask = embedder.batch_to_embeddings([])
    assert (embeddings.shape, mask.shape) == ((0, LAYERS, 0, SIZE), (0, 0))


def test_stream_carries_state_over_batches_of_the_given_size(
    model: tuple[Options, Weights], files: Files
) -> None:
    sentences = [*SENTENCES, ["one", "more"], ["and", "another", "one"]]

    found = list(ElmoEmbedder(*files).embed_sentences(sentences, batch_size=2))

    batches = [sentences[:2], sentences[2:4], sentences[4:]]
    expected = [layers for batch in oracle_carry(*model, batches) for layers in batch]
    assert_agree(found, expected)


# Files of vectors

LINES = ["The river bank .", "", "A bank", "The river bank ."]


def embed_lines(files: Files, path: Path, lines: list[str] = LINES, **settings: Any) -> None:
    text = io.StringIO("".join(f"{line}\n" for line in lines))
    ElmoEmbedder(*files).embed_file(text, str(path), batch_size=2, **settings)


def test_file_has_the_layout_of_the_allennlp_command(
    model: tuple[Options, Weights], files: Files, tmp_path: Path
) -> None:
    embed_lines(files, tmp_path / "out.hdf5")

    sentences = [line.split() for line in LINES]
    expected = oracle_carry(*model, [sentences[:2], sentences[2:]])
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
        assert_agree([file[str(n)][...] for n in range(4)], [*expected[0], *expected[1]])
        assert file["1"].shape == (LAYERS, 0, SIZE)
        assert file["0"].dtype == np.float32
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {"The river bank .": "3", "": "1", "A bank": "2"}


@pytest.mark.parametrize("output_format", ["top", "average"])
def test_file_may_have_one_layer(files: Files, tmp_path: Path, output_format: str) -> None:
    embed_lines(files, tmp_path / "all.hdf5")
    embed_lines(files, tmp_path / "one.hdf5", output_format=output_format, forget_sentences=True)

    layers = [item.vectors for item in read_vectors(tmp_path / "all.hdf5")]
    with h5py.File(tmp_path / "one.hdf5", "r") as file:
        assert set(file) == {"0", "1", "2", "3"}
        found = [file[str(n)][...] for n in range(4)]
    assert found[1].shape == (0, SIZE)
    assert_agree(found, [a[-1] if output_format == "top" else a.mean(0) for a in layers])


def test_sentences_may_be_keys_and_those_that_cannot_are_an_error_before_computing(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, path = ["The river bank .", "either and / or"], tmp_path / "out.hdf5"
    embed_lines(files, path, lines, use_sentence_keys=True)
    with h5py.File(path, "r") as file:
        assert [file[line].shape[1] for line in lines] == [4, 4]
        assert "sentence_to_index" not in file

    monkeypatch.setattr(ElmoEmbedder, "embed_batch", lambda *_: pytest.fail("computed"))
    for bad, message in ((["a", "b", "a"], "line 3, 'a'"), (["a", ""], "line 2, ''")):
        other = tmp_path / "other.hdf5"
        assert message in error_of(embed_lines, files, other, bad, use_sentence_keys=True)
        assert list(tmp_path.iterdir()) == [path]
