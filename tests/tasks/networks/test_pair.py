from __future__ import annotations

import pytest
import torch
from closeness import CLEARLY, assert_close, distance
from tasks.small_words import (
    SIZES,
    assert_dropout_is_for_training_only,
    assert_every_parameter_learns,
    fit,
    no_default_device,
    random_words,
)
from torch.nn import functional

from elmokit.errors import ConfigError
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.networks.texts import PairNetwork

FIRST = (4, 0, 1, 6, 2, 0)
SECOND = (1, 3, 2, 5, 0, 0)
"""Also beside a sentence without words, and two of these."""


def small_network(sizes: Sizes = SIZES, dropout: float = 0.0) -> PairNetwork:
    torch.manual_seed(0)
    return PairNetwork(sizes, 3, hidden=4, dropout=dropout)


def random_pairs(
    first: tuple[int, ...] = FIRST,
    second: tuple[int, ...] = SECOND,
    sizes: Sizes = SIZES,
    padding: int = 0,
) -> tuple[BatchVectors, BatchVectors]:
    return (
        random_words(first, sizes, padding=padding),
        random_words(second, sizes, padding=2 * padding, seed=1),
    )


@pytest.mark.parametrize("sizes", [SIZES, Sizes(5, 0)], ids=["with output", "input only"])
def test_a_pair_depends_on_itself_alone(sizes: Sizes) -> None:
    network = small_network(sizes)
    logits = network(*random_pairs(sizes=sizes, padding=2))
    assert logits.shape == (len(FIRST), 3)
    for row, lengths in enumerate(zip(FIRST, SECOND, strict=True)):
        first, second = lengths
        assert_close(logits[row], network(*random_pairs((first,), (second,), sizes))[0])


def test_words_are_compared_with_the_words_they_are_aligned_to() -> None:
    network, (first, second) = small_network(Sizes(5, 0)), random_pairs((3,), (4,), Sizes(5, 0))
    seen = []
    network.projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(first, second)
    one = network.encoder(first.at_input, first.mask)[0]
    other = network.encoder(second.at_input, second.mask)[0]
    one_aligned = (one @ other.T).softmax(1) @ other
    other_aligned = (other @ one.T).softmax(1) @ one
    for found, words, aligned in zip(seen, (one, other), (one_aligned, other_aligned), strict=True):
        assert_close(found, torch.cat([words, aligned, words - aligned, words * aligned], -1))


def test_vectors_at_the_output_are_aligned_too() -> None:
    network, (first, second) = small_network(), random_pairs((3,), (4,))
    seen = []
    network.projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(first, second)
    assert first.at_output is not None
    encoded = network.encoder(first.at_input, first.mask)[0]
    assert_close(seen[0][:, :12], torch.cat([encoded, first.at_output[0]], -1))


def test_order_of_the_two_sentences_matters() -> None:
    network, (first, second) = small_network(), random_pairs((3,), (4,))
    assert distance(network(first, second), network(second, first)) > CLEARLY


def test_batch_without_words_gives_no_error() -> None:
    network = small_network()
    logits = network(*random_pairs((0, 0), (0, 0)))
    logits.sum().backward()
    assert_close(logits, network(*random_pairs((0, 2), (0, 1)))[:1].expand(2, -1))


def test_dropout_is_for_training_only() -> None:
    assert_dropout_is_for_training_only(small_network(dropout=0.5), *random_pairs())


def test_every_parameter_learns() -> None:
    network = small_network()
    assert_every_parameter_learns(network, network(*random_pairs()).square().sum())


def test_a_tiny_set_is_learnt_by_heart() -> None:
    network, pairs = small_network(), random_pairs((3, 5, 2, 4), (2, 2, 4, 3))
    classes = torch.tensor([0, 2, 1, 2])
    loss = fit(network, lambda: functional.cross_entropy(network(*pairs), classes), 60, rate=0.03)
    assert loss < 0.05


def test_new_tensors_are_made_where_the_vectors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    network, pairs = small_network(dropout=0.5), random_pairs()
    with no_default_device(monkeypatch):
        network(*pairs).sum().backward()


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="size of the word vectors is 0"):
        small_network(Sizes(0, 4))
    with pytest.raises(ConfigError, match="classes is 0"):
        PairNetwork(SIZES, 0, hidden=4, dropout=0.0)
