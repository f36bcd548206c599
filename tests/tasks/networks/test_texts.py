from __future__ import annotations

from collections.abc import Callable, Sequence

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
from torch import nn
from torch.nn import functional

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import BatchVectors, Sizes
from elmokit.tasks.networks.texts import (
    BiattentiveClassifier,
    DenseLayer,
    PairNetwork,
    PooledClassifier,
    attend,
)

INPUT_ONLY = Sizes(5, 0)
FIRST = (4, 3, 1, 6, 2)
SECOND = (1, 3, 2, 5, 4)
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "mean": lambda **settings: small(PooledClassifier, pool="mean", **settings),
    "max": lambda **settings: small(PooledClassifier, pool="max", **settings),
    "maxout": lambda **settings: small(BiattentiveClassifier, dense="maxout", **settings),
    "relu": lambda **settings: small(BiattentiveClassifier, dense="relu", **settings),
    "pair": lambda **settings: small(PairNetwork, **settings),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def small(kind: type, sizes: Sizes = SIZES, dropout: float = 0.0, **settings: object) -> nn.Module:
    torch.manual_seed(0)
    return kind(sizes, 3, NetworkConfig(hidden=4, dropout=dropout, **settings))  # type: ignore[arg-type]


def inputs_of(
    name: str,
    first: Sequence[int] = FIRST,
    second: Sequence[int] = SECOND,
    sizes: Sizes = SIZES,
    padding: int = 0,
) -> tuple[BatchVectors, ...]:
    """One sentence for each example; two for a pair."""
    one = random_words(first, sizes, padding=padding)
    other = random_words(second, sizes, padding=2 * padding, seed=1)
    return (one, other) if name == "pair" else (one,)


@every_network
@pytest.mark.parametrize("sizes", [SIZES, INPUT_ONLY], ids=["with output", "input only"])
def test_an_example_depends_on_itself_alone(name: str, sizes: Sizes) -> None:
    network = NETWORKS[name](sizes=sizes)
    logits = network(*inputs_of(name, sizes=sizes, padding=2))
    assert logits.shape == (len(FIRST), 3)
    for row, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
        assert_close(logits[row], network(*inputs_of(name, (first,), (second,), sizes))[0])


@every_network
def test_dropout_is_for_training_only(name: str) -> None:
    assert_dropout_is_for_training_only(NETWORKS[name](dropout=0.5), *inputs_of(name))


@every_network
def test_every_parameter_learns(name: str) -> None:
    network = NETWORKS[name]()
    assert_every_parameter_learns(network, network(*inputs_of(name)).square().sum())


@every_network
def test_a_tiny_set_is_learnt_by_heart(name: str) -> None:
    network, examples = NETWORKS[name](), inputs_of(name, (3, 5, 2, 4), (2, 2, 4, 3))
    classes = torch.tensor([0, 2, 1, 2])
    loss = fit(
        network, lambda: functional.cross_entropy(network(*examples), classes), 80, rate=0.03
    )
    assert loss < 0.05


@every_network
def test_new_tensors_are_made_where_the_vectors_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, examples = NETWORKS[name](dropout=0.5), inputs_of(name)
    with no_default_device(monkeypatch):
        network(*examples).sum().backward()


def test_attention_is_over_what_is_allowed() -> None:
    vectors = torch.eye(3).unsqueeze(0)
    scores = torch.tensor([[[0.0, 5.0, 0.0], [1.0, 1.0, 1.0]]])
    allowed = torch.tensor([[[True, False, True], [False, False, False]]])
    found = attend(scores, vectors, allowed)
    assert_close(found, torch.tensor([[[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]]))


# Pooled words


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_logits_are_two_dense_layers_over_the_pooled_words(pool: str) -> None:
    network, words = NETWORKS[pool](sizes=INPUT_ONLY), random_words((4,), INPUT_ONLY)
    vectors = words.at_input[0]
    pooled = vectors.mean(0) if pool == "mean" else vectors.max(0).values
    assert isinstance(network, PooledClassifier)
    assert_close(network(words)[0], network.output(network.hidden(pooled).relu()))


def test_vectors_at_the_output_are_joined_to_the_input_of_pooled_words() -> None:
    words = random_words()
    assert words.at_output is not None
    joined = BatchVectors(torch.cat([words.at_input, words.at_output], -1), None, words.mask)
    assert_close(NETWORKS["mean"]()(words), NETWORKS["mean"](sizes=Sizes(9, 0))(joined))


# Biattention


def biattentive(sizes: Sizes = SIZES) -> BiattentiveClassifier:
    network = NETWORKS["maxout"](sizes=sizes)
    assert isinstance(network, BiattentiveClassifier)
    return network


def test_pooled_vector_is_maximum_mean_minimum_and_weighted_mean() -> None:
    network = biattentive(INPUT_ONLY)
    vectors = torch.randn(2, 3, 8)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    real = vectors[1, :2]
    weights = (real @ network.word_score.weight[0]).softmax(0)
    expected = [real.max(0).values, real.mean(0), real.min(0).values, weights @ real]
    assert_close(network.pool(vectors, mask)[1], torch.cat(expected))


def test_word_attends_to_the_words_of_its_own_sentence() -> None:
    network, words = biattentive(INPUT_ONLY), random_words((3,), INPUT_ONLY)
    seen = []
    network.integrator.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(words)
    encoded = network.encode(words)[0]
    attended = (encoded @ encoded.T).softmax(1) @ encoded
    assert_close(seen[0], torch.cat([encoded, encoded - attended, encoded * attended], -1))


def test_vectors_at_the_output_reach_the_logits_beside_the_integrator() -> None:
    network, words = biattentive(), random_words((3, 5))
    seen = []
    network.integrator.register_forward_hook(lambda *call: seen.append(call[-1]))
    assert words.at_output is not None
    changed = words._replace(at_output=words.at_output + 1)
    logits, others = network(words), network(changed)
    assert_close(*seen)
    assert distance(logits, others) > CLEARLY


def test_dense_layers_are_maxout_or_relu() -> None:
    vectors = torch.randn(4, 5)
    maxout, relu = DenseLayer(5, 2, maxout=True), DenseLayer(5, 2, maxout=False)
    values = maxout.linear(vectors)
    expected = torch.stack([values[:, :4].max(1).values, values[:, 4:].max(1).values], dim=1)
    assert_close(maxout(vectors), expected)
    assert_close(relu(vectors), relu.linear(vectors).clamp(min=0))


# Pairs


def test_words_are_compared_with_the_words_they_are_aligned_to() -> None:
    network = small(PairNetwork, INPUT_ONLY)
    first, second = inputs_of("pair", (3,), (4,), INPUT_ONLY)
    assert isinstance(network, PairNetwork)
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
    network, (first, second) = small(PairNetwork), inputs_of("pair", (3,), (4,))
    assert isinstance(network, PairNetwork)
    seen = []
    network.projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(first, second)
    assert first.at_output is not None
    encoded = network.encoder(first.at_input, first.mask)[0]
    assert_close(seen[0][:, :12], torch.cat([encoded, first.at_output[0]], -1))
    assert distance(network(first, second), network(second, first)) > CLEARLY
