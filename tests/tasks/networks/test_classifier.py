from __future__ import annotations

import pytest
import torch
from closeness import assert_close
from tasks.small_words import (
    LENGTHS,
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
from elmokit.tasks.networks.texts import Pool, PooledClassifier

POOLS: list[Pool] = ["mean", "max"]


def small_network(
    pool: Pool = "mean", sizes: Sizes = SIZES, dropout: float = 0.0
) -> PooledClassifier:
    torch.manual_seed(0)
    return PooledClassifier(sizes, 3, hidden=6, dropout=dropout, pool=pool)


@pytest.mark.parametrize("pool", POOLS)
def test_a_sentence_depends_on_itself_alone(pool: Pool) -> None:
    network = small_network(pool)
    logits = network(random_words(padding=3))
    assert logits.shape == (len(LENGTHS), 3)
    for row, length in enumerate(LENGTHS):
        assert_close(logits[row], network(random_words((length,)))[0])


@pytest.mark.parametrize("pool", POOLS)
def test_logits_are_two_dense_layers_over_the_pooled_words(pool: Pool) -> None:
    network, words = small_network(pool, Sizes(5, 0)), random_words((4,), Sizes(5, 0))
    vectors = words.at_input[0]
    pooled = vectors.mean(0) if pool == "mean" else vectors.max(0).values
    assert_close(network(words)[0], network.output(network.hidden(pooled).relu()))


def test_vectors_at_the_output_are_joined_to_the_input() -> None:
    words = random_words()
    assert words.at_output is not None
    joined = BatchVectors(torch.cat([words.at_input, words.at_output], -1), None, words.mask)
    assert_close(small_network()(words), small_network(sizes=Sizes(9, 0))(joined))


@pytest.mark.parametrize("pool", POOLS)
def test_batch_without_words_gives_no_error(pool: Pool) -> None:
    network = small_network(pool)
    logits = network(random_words((0, 0)))
    logits.sum().backward()
    assert_close(logits, network(random_words((0, 2)))[:1].expand(2, -1))


def test_dropout_is_for_training_only() -> None:
    assert_dropout_is_for_training_only(small_network(dropout=0.5), random_words())


def test_every_parameter_learns() -> None:
    network = small_network("max")
    assert_every_parameter_learns(network, network(random_words()).square().sum())


def test_a_tiny_set_is_learnt_by_heart() -> None:
    network, words = small_network(), random_words((3, 5, 2, 4))
    classes = torch.tensor([0, 2, 1, 2])
    loss = fit(network, lambda: functional.cross_entropy(network(words), classes), 60, rate=0.05)
    assert loss < 0.05


def test_new_tensors_are_made_where_the_vectors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    network, words = small_network("max", dropout=0.5), random_words()
    with no_default_device(monkeypatch):
        network(words).sum().backward()


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="pool is 'sum'; use one of 'mean', 'max'"):
        PooledClassifier(SIZES, 3, hidden=6, dropout=0.0, pool="sum")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="size of the word vectors is 0"):
        PooledClassifier(Sizes(0, 0), 3, hidden=6, dropout=0.0)
