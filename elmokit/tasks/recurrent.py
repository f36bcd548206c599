"""Bidirectional LSTM over padded sentences; padding costs nothing and changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.model.lstm import (
    Packing,
    output_gate,
    pack,
    previous_outputs,
    step_gradient,
    steps_of,
    tanh_,
    update_cell,
)


class VariationalDropout(nn.Module):
    """Dropout that leaves out the same dimensions of every word of a sentence."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, vectors: Tensor) -> Tensor:
        """Drop dimensions of (sentences, words, size); outside of training nothing is dropped."""
        if not self.training or not self.rate:
            return vectors
        sentences, _, size = vectors.shape
        return vectors * functional.dropout(vectors.new_ones(sentences, 1, size), self.rate)


class BidirectionalLSTM(nn.Module):
    """Layers of LSTMs that read every sentence both ways.

    A sentence's outputs depend on the sentence alone; they have the `hidden` cells of each
    direction, `output_size`. Dropout is variational, between the layers: neither of the inputs nor
    of the outputs.
    """

    def __init__(self, size: int, *, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_size = 2 * hidden
        sizes = [size, *[self.output_size] * (layers - 1)]
        self.layers = nn.ModuleList(BidirectionalLayer(each, hidden) for each in sizes)
        self.dropout = VariationalDropout(dropout)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Read (sentences, words, size); give (sentences, words, output_size), zero on padding."""
        packing = pack(mask.sum(1), mask.shape[1], mask.device)
        for depth, layer in enumerate(self.layers):
            vectors = layer(self.dropout(vectors) if depth else vectors, packing)
        return vectors


class BidirectionalLayer(nn.Module):
    """One layer: a direction that reads from the left, one that reads from the right."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.forward_direction = LSTMDirection(size, hidden)
        self.backward_direction = LSTMDirection(size, hidden)

    def forward(self, vectors: Tensor, packing: Packing) -> Tensor:
        """Read (sentences, words, size); give (sentences, words, 2 * hidden), zero on padding."""
        words = vectors.flatten(0, 1)
        ahead, back = self.forward_direction, self.backward_direction
        outputs: Tensor = Recurrence.apply(  # type: ignore[no-untyped-call]
            ahead.inputs(words.index_select(0, packing.forward)),
            back.inputs(words.index_select(0, packing.backward)),
            ahead.recurrent_weight,
            back.recurrent_weight,
            packing.step_sizes,
        )
        everywhere = outputs.new_zeros(len(words), outputs.shape[2])
        placed = [
            everywhere.index_copy(0, positions, each)
            for positions, each in zip((packing.forward, packing.backward), outputs, strict=True)
        ]
        return torch.cat(placed, dim=-1).view(*vectors.shape[:2], 2 * outputs.shape[2])


class LSTMDirection(nn.Module):
    """The weights of one direction of one layer; the gates stand in the order i, f, o, j."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(size, 4 * hidden)
        self.recurrent_weight = nn.Parameter(torch.empty(4 * hidden, hidden))
        # Glorot for the inputs, orthogonal for the recurrence, a bias of 1 to forget little.
        nn.init.xavier_uniform_(self.inputs.weight)
        nn.init.orthogonal_(self.recurrent_weight)
        nn.init.zeros_(self.inputs.bias)
        nn.init.ones_(self.inputs.bias[hidden : 2 * hidden])


class Recurrence(torch.autograd.Function):
    """What is left of both LSTMs once the inputs are multiplied: one step of autograd for all.

    Half the time of `torch.nn.LSTM` over a packed batch, of which autograd keeps every step. Both
    directions go step by step together, which changes no bit: networks this small wait for the
    number of operations more than for their size.
    """

    @staticmethod
    def forward(
        ctx: Any,
        forward_gates: Tensor,
        backward_gates: Tensor,
        forward_weight: Tensor,
        backward_weight: Tensor,
        step_sizes: list[int],
    ) -> Tensor:
        """Run the steps of packed gates (tokens, 4 * hidden): outputs (2, tokens, hidden)."""
        gates = torch.stack([forward_gates, backward_gates])
        weights = torch.stack([forward_weight, backward_weight])
        tokens, hidden = gates.shape[1], weights.shape[2]
        outputs, cells, tanh_cells = (gates.new_empty(2, tokens, hidden) for _ in range(3))
        zeros = gates.new_zeros(2, step_sizes[0] if step_sizes else 0, hidden)
        output = cell = zeros
        for step in steps_of(step_sizes):
            size = step.stop - step.start
            step_gates = gates[:, step].baddbmm_(output[:, :size], weights.mT)
            update_cell(step_gates, cell[:, :size], cells[:, step], None)
            output, cell = outputs[:, step], cells[:, step]
            tanh_cell = tanh_(tanh_cells[:, step].copy_(cell))
            torch.mul(tanh_cell, output_gate(step_gates), out=output)
        ctx.save_for_backward(weights, gates, cells, tanh_cells, outputs, zeros)
        ctx.step_sizes = step_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        """Walk the steps back; the weights' gradients are one product over all tokens."""
        weights, gates, cells, tanh_cells, outputs, zeros = ctx.saved_tensors
        d_gates = torch.empty_like(gates)
        d_outputs = d_outputs.clone()
        d_output, d_cell = torch.zeros_like(zeros), torch.zeros_like(zeros)
        steps = list(steps_of(ctx.step_sizes))
        for step, before in reversed([*zip(steps, [None, *steps], strict=False)]):
            size = step.stop - step.start
            old_cell = zeros if before is None else cells[:, before]
            step_gradient(
                d_gates[:, step], d_cell[:, :size], d_outputs[:, step].add_(d_output[:, :size]),
                gates[:, step], cells[:, step], tanh_cells[:, step], old_cell[:, :size], None,
            )  # fmt: skip
            torch.bmm(d_gates[:, step], weights, out=d_output[:, :size])
        d_weights = d_gates.mT @ previous_outputs(zeros, outputs, steps)
        return *d_gates, *d_weights, None
