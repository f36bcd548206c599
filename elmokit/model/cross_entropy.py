"""The loss of a large softmax, without ever holding the probabilities of all tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.model.mixed_precision import MixedProduct

PROBABILITIES_AT_ONCE = 2**23
"""Numbers of one chunk: large enough for fast products, small enough to stay near the processor."""


def cross_entropy(
    outputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum of -log p(target) over tokens, (), for the softmax of `outputs @ weight.T + bias`.

    The gradient is computed along with the loss, chunk by chunk, while a chunk's probabilities are
    at hand; it could not be if each token's loss could be weighted differently afterwards.
    """
    dtype = dtype or outputs.dtype
    return CrossEntropyFunction.apply(outputs, weight, bias, targets, dtype)  # type: ignore[no-untyped-call]


def log_likelihood(outputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """The logarithm of p(target) for each token, (tokens,)."""
    parts = [
        functional.log_softmax(functional.linear(outputs[chunk], weight, bias), dim=1)
        .gather(1, targets[chunk, None])
        .squeeze(1)
        for chunk in chunks(len(outputs), len(weight))
    ]
    return torch.cat(parts) if parts else outputs.new_empty(0)


def chunks(tokens: int, words: int) -> Iterator[slice]:
    """Runs of tokens whose probabilities fit into one chunk."""
    size = max(1, PROBABILITIES_AT_ONCE // words)
    return (slice(start, start + size) for start in range(0, tokens, size))


class CrossEntropyFunction(torch.autograd.Function):
    """Loss and gradient in one pass."""

    @staticmethod
    def forward(
        ctx: Any,
        outputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        """Sum the loss; keep its gradients for a factor of one."""
        product = MixedProduct(outputs.dtype, dtype)
        rows, columns = product.prepare(weight), product.prepare(weight.t())
        d_outputs = torch.empty_like(outputs)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        total = outputs.new_zeros(())
        for chunk in chunks(len(outputs), len(weight)):
            logits = product.add(bias, outputs[chunk], columns)
            log_probabilities = functional.log_softmax(logits, dim=1)
            target = targets[chunk, None]
            total -= log_probabilities.gather(1, target).sum()
            d_logits = log_probabilities.exp_()
            d_logits.scatter_add_(1, target, -torch.ones_like(target, dtype=d_logits.dtype))
            product.write_to(d_outputs[chunk], d_logits, rows)
            product.add_to(d_weight, d_logits.t(), outputs[chunk])
            d_bias += d_logits.sum(0)
        ctx.save_for_backward(d_outputs, d_weight, d_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> Any:
        """Scale the gradients that are there already."""
        d_outputs, d_weight, d_bias = ctx.saved_tensors
        return d_outputs * factor, d_weight * factor, d_bias * factor, None, None
