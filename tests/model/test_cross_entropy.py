from typing import NamedTuple

import pytest
import torch
from closeness import EXACT, assert_agree, assert_close
from torch import Tensor, nn

from elmokit.model import softmax as module
from elmokit.model.softmax import Softmax, chunks

BFLOAT16_ERROR = 0.05
"""Of a gradient, relative to its largest value."""
TOKENS, WORDS, SIZE = 11, 7, 4


class Layer(NamedTuple):
    outputs: Tensor  # (tokens, size)
    weight: Tensor  # (words, size)
    bias: Tensor  # (words,)


def layer_and_targets(
    tokens: int = TOKENS, dtype: torch.dtype = torch.float64
) -> tuple[Layer, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = ((tokens, SIZE), (WORDS, SIZE), (WORDS,))
    tensors = (torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes)
    targets = torch.randint(WORDS, (tokens,), generator=generator)
    return Layer(*map(nn.Parameter, tensors)), targets


def softmax_of(layer: Layer) -> Softmax:
    softmax = Softmax(WORDS, SIZE)
    softmax.weight, softmax.bias = layer.weight, layer.bias
    return softmax


def plain_log_likelihood(layer: Layer, targets: Tensor) -> Tensor:
    """Log p(target), (tokens,), by the definition of the softmax."""
    exponentials = (layer.outputs @ layer.weight.T + layer.bias).exp()
    probabilities = exponentials / exponentials.sum(1, keepdim=True)
    rows = [probabilities[token, target] for token, target in enumerate(targets.tolist())]
    return torch.stack(rows).log()


@pytest.mark.parametrize("at_once", [1, 2 * WORDS, 3 * WORDS + 2, TOKENS * WORDS, 10**6])
def test_borders_between_chunks_do_not_matter(monkeypatch, at_once):
    layer, targets = layer_and_targets()
    expected = -plain_log_likelihood(layer, targets)
    monkeypatch.setattr(module, "PROBABILITIES_AT_ONCE", at_once)
    loss = softmax_of(layer).loss(layer.outputs, targets)
    assert_close(loss, expected.sum(), EXACT)
    assert_close(softmax_of(layer).log_likelihood(layer.outputs, targets), -expected, EXACT)
    # A loss is scaled before it is differentiated, so the factor has to reach every gradient.
    found = [torch.autograd.grad(0.3 * one, layer) for one in (loss, expected.sum())]
    assert_agree(*found, EXACT)


@pytest.mark.parametrize(
    ("at_once", "sizes"), [(100, [4, 4, 2]), (25, [1] * 10), (1, [1] * 10), (250, [10])]
)
def test_chunks_hold_as_many_tokens_as_fit_and_never_none(monkeypatch, at_once, sizes):
    monkeypatch.setattr(module, "PROBABILITIES_AT_ONCE", at_once)
    tokens = list(range(10))
    parts = [tokens[chunk] for chunk in chunks(10, words=25)]
    assert [len(part) for part in parts] == sizes
    assert [token for part in parts for token in part] == tokens


def test_log_likelihood_can_be_differentiated_token_by_token():
    layer, targets = layer_and_targets()
    factors = torch.linspace(-1, 1, TOKENS, dtype=torch.float64)
    both = (
        softmax_of(layer).log_likelihood(layer.outputs, targets),
        plain_log_likelihood(layer, targets),
    )
    found = [torch.autograd.grad((factors * one).sum(), layer) for one in both]
    assert_agree(*found, EXACT)


def test_logits_that_overflow_exp_are_no_trouble():
    outputs = torch.tensor([[1000.0], [-1000.0]], requires_grad=True)
    weight, bias = torch.tensor([[1.0], [0.0]]), torch.zeros(2)
    layer = Layer(outputs, nn.Parameter(weight), nn.Parameter(bias))
    loss = softmax_of(layer).loss(outputs, torch.tensor([1, 1]))
    assert loss == 1000
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert gradient.tolist() == [[1.0], [0.0]]


def test_bfloat16_products_give_gradients_near_those_of_float32():
    layer, targets = layer_and_targets(dtype=torch.float32)
    exact, near = (
        softmax_of(layer).loss(layer.outputs, targets, dtype) for dtype in (None, torch.bfloat16)
    )
    assert near.dtype == torch.float32
    assert near != exact
    assert near.item() == pytest.approx(exact.item(), rel=0.02)
    pairs = zip(torch.autograd.grad(exact, layer), torch.autograd.grad(near, layer), strict=True)
    for one, other in pairs:
        assert other.dtype == torch.float32
        assert (one - other).abs().max() < BFLOAT16_ERROR * one.abs().max()
