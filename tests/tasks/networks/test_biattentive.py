from __future__ import annotations

import pytest
import torch
from closeness import CLEARLY, assert_close, distance
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
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.networks.texts import BiattentiveClassifier, Maxout


def small_network(sizes: Sizes = SIZES, dropout: float = 0.0) -> BiattentiveClassifier:
    torch.manual_seed(0)
    return BiattentiveClassifier(sizes, 3, hidden=4, dropout=dropout)


@pytest.mark.parametrize("sizes", [SIZES, Sizes(5, 0)], ids=["with output", "input only"])
def test_a_sentence_depends_on_itself_alone(sizes: Sizes) -> None:
    network = small_network(sizes)
    logits = network(random_words(sizes=sizes, padding=3))
    assert logits.shape == (len(LENGTHS), 3)
    for row, length in enumerate(LENGTHS):
        assert_close(logits[row], network(random_words((length,), sizes))[0])


def test_pooled_vector_is_maximum_mean_minimum_and_weighted_mean() -> None:
    network = small_network(Sizes(5, 0))
    vectors = torch.randn(2, 3, 8)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    real = vectors[1, :2]
    weights = (real @ network.word_score.weight[0]).softmax(0)
    expected = [real.max(0).values, real.mean(0), real.min(0).values, weights @ real]
    assert_close(network.pool(vectors, mask)[1], torch.cat(expected))


def test_word_attends_to_the_words_of_its_own_sentence() -> None:
    network, words = small_network(Sizes(5, 0)), random_words((3,), Sizes(5, 0))
    seen = []
    network.integrator.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0]))
    network(words)
    encoded = network.encode(words)[0]
    attended = (encoded @ encoded.T).softmax(1) @ encoded
    assert_close(seen[0], torch.cat([encoded, encoded - attended, encoded * attended], -1))


def test_vectors_at_the_output_reach_the_logits_beside_the_integrator() -> None:
    network, words = small_network(), random_words((3, 5))
    seen = []
    network.integrator.register_forward_hook(lambda *call: seen.append(call[-1]))
    assert words.at_output is not None
    changed = words._replace(at_output=words.at_output + 1)
    logits, others = network(words), network(changed)
    assert_close(*seen)
    assert distance(logits, others) > CLEARLY


def test_maxout_keeps_the_largest_of_each_group() -> None:
    maxout, vectors = Maxout(5, 2, pool=3), torch.randn(4, 5)
    values = maxout.linear(vectors)
    expected = torch.stack([values[:, :3].max(1).values, values[:, 3:].max(1).values], dim=1)
    assert_close(maxout(vectors), expected)


def test_dense_layers_are_maxout_or_relu() -> None:
    usual = small_network()
    assert [layer.linear.out_features // 4 for layer in usual.dense] == [16, 8]
    papers = BiattentiveClassifier(SIZES, 3, hidden=4, dropout=0.0, dense="relu")
    assert [layer.linear.out_features for layer in papers.dense] == [16, 8]
    seen = []
    papers.dense[0].register_forward_hook(lambda *call: seen.append(call[1:]))
    assert papers(random_words()).shape == (len(LENGTHS), 3)
    [((vectors,), outputs)] = seen
    assert_close(outputs, papers.dense[0].linear(vectors).clamp(min=0))
    assert_every_parameter_learns(papers, papers(random_words()).square().sum())


def test_batch_without_words_gives_no_error() -> None:
    network = small_network()
    logits = network(random_words((0, 0)))
    logits.sum().backward()
    assert_close(logits, network(random_words((0, 2)))[:1].expand(2, -1))


def test_dropout_is_for_training_only() -> None:
    assert_dropout_is_for_training_only(small_network(dropout=0.5), random_words())


def test_every_parameter_learns() -> None:
    network = small_network()
    assert_every_parameter_learns(network, network(random_words()).square().sum())


def test_a_tiny_set_is_learnt_by_heart() -> None:
    network, words = small_network(), random_words((3, 5, 2, 4))
    classes = torch.tensor([0, 2, 1, 2])
    assert fit(network, lambda: functional.cross_entropy(network(words), classes), 40) < 0.05


def test_new_tensors_are_made_where_the_vectors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    network, words = small_network(dropout=0.5), random_words()
    with no_default_device(monkeypatch):
        network(words).sum().backward()


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="size of the word vectors is 0"):
        small_network(Sizes(0, 4))
    with pytest.raises(ConfigError, match="dense is 'tanh'"):
        BiattentiveClassifier(SIZES, 3, hidden=4, dropout=0.0, dense="tanh")  # type: ignore[arg-type]
