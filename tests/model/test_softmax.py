from collections.abc import Callable

import pytest
import torch
from closeness import EXACT, assert_agree, assert_close
from torch import Tensor

from elmokit.model import softmax as cross_entropy
from elmokit.model.softmax import AdaptiveSoftmax, Softmax

WORDS, SIZE = 12, 8

AnySoftmax = Softmax | AdaptiveSoftmax
MAKERS: dict[str, Callable[[], AnySoftmax]] = {
    "whole": lambda: Softmax(WORDS, SIZE),
    "one cluster": lambda: AdaptiveSoftmax(WORDS, SIZE, (5,), division=2),
    "three clusters": lambda: AdaptiveSoftmax(WORDS, SIZE, (3, 4, 9), division=4),
    "head of one": lambda: AdaptiveSoftmax(WORDS, SIZE, (1, 2), division=1),
}


@pytest.fixture(params=MAKERS.keys())
def softmax(request: pytest.FixtureRequest) -> AnySoftmax:
    """Random, biases included, in float64."""
    torch.manual_seed(0)
    made = MAKERS[request.param]().double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made


def random_outputs(tokens: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(tokens, SIZE, dtype=dtype, generator=generator)


def test_probabilities_of_all_words_add_up_to_one(softmax):
    probabilities = softmax(random_outputs(3)).exp()
    assert probabilities.shape == (3, WORDS)
    assert_close(probabilities.sum(-1), torch.ones(3, dtype=torch.float64), EXACT)


def test_whole_softmax_is_that_of_its_logits():
    torch.manual_seed(0)
    softmax = Softmax(words=7, token_size=4)
    outputs = torch.randn(3, 4)
    logits = outputs @ softmax.weight.t() + softmax.bias
    assert_close(softmax(outputs).exp(), logits.softmax(-1))


def test_word_of_a_cluster_is_as_probable_as_cluster_and_word_together():
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(WORDS, SIZE, (3, 4, 9), division=4).double()
    output = random_outputs(1)
    head = (softmax.head.weight @ output[0] + softmax.head.bias).softmax(0)
    expected = [head[:3]]
    for number, cluster in enumerate(softmax.clusters):
        logits = cluster.softmax.weight @ (cluster.project.weight @ output[0])
        expected.append(head[3 + number] * (logits + cluster.softmax.bias).softmax(0))
    assert [len(part) for part in expected] == [3, 1, 5, 3]
    assert_close(softmax(output)[0].exp(), torch.cat(expected), EXACT)


def test_clusters_have_smaller_vectors_the_rarer_their_words():
    softmax = AdaptiveSoftmax(100, 64, (10, 20, 40), division=4)
    shapes = [tuple(cluster.softmax.weight.shape) for cluster in softmax.clusters]
    assert shapes == [(10, 16), (20, 4), (60, 1)]
    assert softmax.head.weight.shape == (13, 64)


@pytest.mark.parametrize(
    "targets",
    [[*range(WORDS), 3, 3, 11], [0, 0], [0, 11], [4], []],
    ids=["all words", "head only", "first and last", "one", "none"],
)
def test_loss_and_gradients_are_those_of_plain_autograd(softmax, targets, monkeypatch):
    monkeypatch.setattr(cross_entropy, "PROBABILITIES_AT_ONCE", 25)
    outputs = random_outputs(len(targets)).requires_grad_()
    numbers = torch.tensor(targets, dtype=torch.int64)
    loss = softmax.loss(outputs, numbers)
    expected = -softmax(outputs)[torch.arange(len(targets)), numbers].sum()
    assert_close(loss, expected, EXACT)
    assert_close(softmax.log_likelihood(outputs, numbers).sum(), -expected, EXACT)
    leaves = [outputs, *softmax.parameters()]
    found = [torch.autograd.grad(one, leaves, materialize_grads=True) for one in (loss, expected)]
    assert_agree(*found, EXACT)


def test_cluster_without_targets_gets_a_gradient_of_zeros():
    # Processes that average their gradients need one of every weight in each.
    softmax = AdaptiveSoftmax(WORDS, SIZE, (3, 9), division=2)
    loss = softmax.loss(random_outputs(2, torch.float32), torch.tensor([0, 4]))
    used, unused = softmax.clusters
    for gradient in torch.autograd.grad(loss, [*used.parameters()], retain_graph=True):
        assert gradient.abs().max() > 0
    for gradient in torch.autograd.grad(loss, [*unused.parameters()]):
        assert gradient.abs().max() == 0


def test_expected_probabilities_are_those_of_outputs_of_zero(softmax):
    probabilities = torch.rand(
        WORDS, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    probabilities /= probabilities.sum()
    softmax.expect(probabilities)
    found = softmax(torch.zeros(2, SIZE, dtype=torch.float64)).exp()
    assert_close(found, probabilities.expand(2, -1), EXACT)
