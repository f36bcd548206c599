"""ELMoForManyLangs' calls, against the embedder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from adaptors.allennlp_samples import SENTENCES, Files
from helpers import assert_same_bits, error_of

import elmokit
from elmokit.adaptors.elmoformanylangs import Embedder

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "golden-efml"


@pytest.mark.parametrize(
    ("output_layer", "layers"), [(-1, "average"), (-2, "all"), (0, 0), (1, 1), (2, "top")]
)
def test_output_layers_are_counted_as_there(
    files: Files, output_layer: int, layers: str | int
) -> None:
    expected = elmokit.Embedder.load(*files).embed(SENTENCES, layers)

    found = Embedder(files[0].parent, batch_size=1).sents2elmo(SENTENCES, output_layer)

    assert_same_bits(dict(enumerate(found)), dict(enumerate(expected)))


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared")
@pytest.mark.filterwarnings("ignore:unusual word")
def test_a_folder_of_theirs_gives_their_layers() -> None:
    sentences = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
    expected = np.load(GOLDEN / "expected" / "words-and-characters.npz")

    embedder = Embedder(GOLDEN / "words-and-characters")

    for output_layer in (-1, 0, 1, 2):
        for number, found in enumerate(embedder.sents2elmo(sentences, output_layer)):
            np.testing.assert_allclose(
                found, expected[f"{number}/{output_layer}"], rtol=0, atol=1e-5
            )


def test_the_average_is_the_default(files: Files) -> None:
    found = Embedder(files[0].parent).sents2elmo(SENTENCES)

    assert [array.shape for array in found] == [(4, 16), (2, 16), (3, 16)]


def test_a_layer_that_is_not_there_is_an_error(files: Files) -> None:
    assert "3" in error_of(Embedder(files[0].parent).sents2elmo, SENTENCES, 3)
    assert "-3" in error_of(Embedder(files[0].parent).sents2elmo, SENTENCES, -3)
