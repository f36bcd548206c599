"""The activations that the original TensorFlow code produced, against the oracle and the package.

Both fixtures run ten batches of three sentences in order, the state carried from one to the next.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from closeness import assert_agree
from oracle import Oracle, oracle_carry
from random_models import read_files

from elmokit.inference.embedder import Embedder

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
GOLDEN = SHARED / "data"
MODELS = ("golden-allennlp", "golden-bilm-tf")

pytestmark = pytest.mark.skipif(
    not all((GOLDEN / model).is_dir() for model in MODELS),
    reason="the golden files are in ../shared/data, which is not here",
)


def model_files(model: str) -> tuple[Path, Path]:
    return GOLDEN / model / "options.json", GOLDEN / model / "lm_weights.hdf5"


def golden_batches(model: str) -> list[list[list[str]]]:
    """Batch k is the k-th sentence of each of the three lists."""
    rows = json.loads((GOLDEN / model / "sentences.json").read_text(encoding="utf-8"))
    return [[sentence.split() for sentence in batch] for batch in zip(*rows, strict=True)]


def golden_top_layers(model: str) -> list[list[np.ndarray]]:
    """(words, 2 * projection) for each sentence of each batch: the top layer's halves joined."""
    rows = []
    for path in sorted((GOLDEN / model).glob("lm_embeddings_*.hdf5")):
        with h5py.File(path, "r") as file:
            halves = [file[str(batch)][...] for batch in range(len(file))]
        rows.append([np.concatenate(list(pair), axis=-1) for pair in halves])
    return [list(batch) for batch in zip(*rows, strict=True)]


def cached_vocabulary() -> tuple[list[str], np.ndarray]:
    """The words of golden-allennlp's cached vocabulary and their token vectors."""
    folder = GOLDEN / "golden-allennlp"
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "r") as file:
        return words, file["embedding"][...]


@pytest.mark.parametrize("model", MODELS)
def test_oracle_gives_the_original_top_layer_batch_after_batch(model: str) -> None:
    options, weights = read_files(*model_files(model))

    batches = oracle_carry(options, weights, golden_batches(model))

    for batch, expected in zip(batches, golden_top_layers(model), strict=True):
        assert_agree([layers[-1] for layers in batch], expected)


def test_oracle_gives_the_cached_vectors_of_the_vocabulary() -> None:
    oracle = Oracle(*read_files(*model_files("golden-allennlp")))
    words, expected = cached_vocabulary()

    vectors = [oracle.token_vector(word) for word in words]

    assert_agree(vectors, list(expected))


@pytest.mark.parametrize("model", MODELS)
def test_embedder_gives_the_original_top_layer_batch_after_batch(model: str) -> None:
    embedder = Embedder.load(*model_files(model), state="carry")

    batches = [embedder.embed_layers(batch) for batch in golden_batches(model)]

    for batch, expected in zip(batches, golden_top_layers(model), strict=True):
        assert_agree([layers[-1] for layers in batch], expected)


@pytest.mark.parametrize("model", MODELS)
def test_embedder_gives_the_first_batch_whatever_its_state(model: str) -> None:
    embedder = Embedder.load(*model_files(model), state="zero")

    vectors = embedder.embed(golden_batches(model)[0], layers="top")

    assert_agree(vectors, golden_top_layers(model)[0])


@pytest.mark.filterwarnings("ignore:unusual word '<S>'")  # the vocabulary has the markers
def test_embedder_gives_the_cached_vectors_of_the_vocabulary_in_its_token_layer() -> None:
    embedder = Embedder.load(*model_files("golden-allennlp"), state="zero")
    words, expected = cached_vocabulary()

    layers = embedder.embed_layers([[word] for word in words])

    assert_agree([sentence[0, 0] for sentence in layers], list(np.tile(expected, 2)))
