"""ELMoForManyLangs' calls, against the embedder."""

from __future__ import annotations

import pytest
from adaptors.allennlp_samples import SENTENCES, Files
from helpers import assert_same_bits, error_of

import elmokit
from elmokit.adaptors.elmoformanylangs import Embedder


@pytest.mark.parametrize(
    ("output_layer", "layers"), [(-1, "average"), (-2, "all"), (0, 0), (1, 1), (2, "top")]
)
def test_output_layers_are_counted_as_there(
    files: Files, output_layer: int, layers: str | int
) -> None:
    expected = elmokit.Embedder.load(*files).embed(SENTENCES, layers)

    found = Embedder(files[0].parent, batch_size=1).sents2elmo(SENTENCES, output_layer)

    assert_same_bits(dict(enumerate(found)), dict(enumerate(expected)))


def test_the_average_is_the_default(files: Files) -> None:
    found = Embedder(files[0].parent).sents2elmo(SENTENCES)

    assert [array.shape for array in found] == [(4, 16), (2, 16), (3, 16)]


def test_a_layer_that_is_not_there_is_an_error(files: Files) -> None:
    assert "3" in error_of(Embedder(files[0].parent).sents2elmo, SENTENCES, 3)
    assert "-3" in error_of(Embedder(files[0].parent).sents2elmo, SENTENCES, -3)
