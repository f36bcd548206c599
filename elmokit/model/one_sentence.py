"""Both directions over one sentence in lock step: the fastest way for a single row on a CPU.

A row of its own reads a whole weight for one product, so memory is the limit, and next to it the
number of calls. Here each call serves both directions. Products are weighted sums of the rows of a
table (`embedding_bag`), which reads memory faster than a matrix product of one row does; between
them NumPy computes, whose calls cost less than torch's on a few thousand numbers (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import Precision
from elmokit.model import products
from elmokit.model.lstm import LSTMLayer, LSTMStack, LSTMState

Array = NDArray[np.float32]

BLOCK = 256
"""Outputs whose weights stand side by side: sums that fit into registers, read in long runs."""
LARGEST_WEIGHT = 2**20
"""Larger weights are read from main memory, where a matrix product of one row is as fast."""


def pays_in_lock_step(tokens: Tensor, stacks: Sequence[LSTMStack], precision: Precision) -> bool:
    """Whether weights and tokens are such that lock step is right, and faster."""
    if not products.is_x86(tokens.device) or any(map(has_hooks, stacks)):
        return False
    weights = [weight for stack in stacks for weight in stack.weights()]
    kind = torch.float32, tokens.device
    return all((w.dtype, w.device) == kind for w in (tokens, *weights)) and all(
        w.numel() <= LARGEST_WEIGHT and is_exact(w, precision) for w in weights
    )


def has_hooks(stack: LSTMStack) -> bool:
    """Whether somebody wants to be called with what the layers of a stack read or give."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in stack.modules())


def is_exact(weight: Tensor, precision: Precision) -> bool:
    """Whether a precision multiplies a weight as `exact` does: `fast` does so where it is small."""
    return precision == "exact" or (
        products.best_way(weight, precision) is products.best_way(weight, "exact")
    )


class LockStep:
    """The stacks of both directions, copies of their weights laid out to read one sentence."""

    def __init__(self, stacks: Sequence[LSTMStack], version: object) -> None:
        self.version = version
        self.skip_connections = stacks[0].config.skip_connections
        self.layers = [PairedLayer(pair) for pair in zip(*(s.layers for s in stacks), strict=True)]

    def run(self, tokens: Tensor, state: Sequence[LSTMState], result: Tensor) -> list[LSTMState]:
        """Read (words, token_size) into (layers, words, 2 * token_size); give the state after."""
        size = tokens.shape[1]
        inputs = torch.stack([tokens, tokens.flip(0)])
        cells = torch.cat([half.cells for half in state], dim=1)
        last = torch.cat([half.outputs for half in state], dim=1)
        for depth, layer in enumerate(self.layers):
            with np.errstate(all="ignore"):  # numbers out of range are as silent as torch's
                outputs = layer.run(inputs, cells[depth].numpy(), last[depth].numpy())
            last[depth] = outputs[:, -1]
            # The residual stands outside the recurrence, and the first layer has none.
            inputs = outputs + inputs if self.skip_connections and depth > 0 else outputs
            result[depth, :, :size] = inputs[0]
            result[depth, :, size:] = inputs[1].flip(0)
        return [LSTMState(cells[:, row, None], last[:, row, None]) for row in range(len(state))]


class PairedLayer:
    """A layer of each direction."""

    def __init__(self, layers: Sequence[LSTMLayer]) -> None:
        self.cell_clip = layers[0].cell_clip or np.inf
        self.output_clip = layers[0].output_clip or np.inf
        laid_out = [layer.products("exact") for layer in layers]
        self.input_products = [each.inputs for each in laid_out]
        self.bias = torch.stack([each.bias.view(4, -1) for each in laid_out], dim=1)
        gates = [w.view(4, -1, w.shape[1]) for w in (layer.recurrent_weight for layer in layers)]
        self.recurrent = PairedProduct(torch.stack(gates, dim=1))
        projections: list[Tensor] = [
            w for layer in layers if (w := layer.projection_weight) is not None
        ]
        self.projection = PairedProduct(torch.stack(projections)) if projections else None

    def run(self, inputs: Tensor, cell: Array, output: Array) -> Tensor:
        """Read (2, words, token_size), give outputs of that shape; move the cell (2, cell_size)."""
        recur = self.recurrent.ready()
        project = self.projection.ready() if self.projection is not None else None
        outputs = np.empty((inputs.shape[1], *output.shape), np.float32)
        for step, input_gates in enumerate(self.input_gates(inputs)):
            gates = recur(output)
            gates += input_gates
            hidden = update_cell(gates, cell, self.cell_clip)
            output = outputs[step]
            projected = hidden if project is None else project(hidden)
            projected.clip(-self.output_clip, self.output_clip, out=output)
        return torch.from_numpy(outputs).transpose(0, 1)

    def input_gates(self, inputs: Tensor) -> Array:
        """What inputs (2, words, token_size) add to each step's gates: (words, 4, 2, cell_size)."""
        gates = [product(rows) for product, rows in zip(self.input_products, inputs, strict=True)]
        by_step = torch.stack([each.view(len(each), 4, -1) for each in gates], dim=2)
        return by_step.add_(self.bias).numpy()


class PairedProduct:
    """Products of two rows, each with a weight of its own: weights (…, 2, outputs, inputs)."""

    def __init__(self, weights: Tensor) -> None:
        self.shape = weights.shape[:-1]
        outputs, inputs = weights.shape[-2:]
        block = BLOCK if outputs % BLOCK == 0 else outputs
        blocks = weights.detach().reshape(*weights.shape[:-2], -1, block, inputs)
        blocks = blocks.transpose(-1, -2).contiguous()
        self.factors_shape = blocks.shape[:-1]
        self.table = blocks.flatten(0, -2)
        self.rows = torch.arange(len(self.table), dtype=torch.int32)
        self.starts = self.rows[::inputs].clone()

    def ready(self) -> Callable[[Array], Array]:
        """A function that multiplies (2, inputs) into (…, 2, outputs), for one thread."""
        factors = torch.empty(self.factors_shape)
        flat, of_blocks = factors.view(-1), factors.numpy()
        table, rows, starts, shape = self.table, self.rows, self.starts, self.shape

        def multiply(vectors: Array) -> Array:
            of_blocks[...] = vectors[:, None]
            # The mode is 0: sums.
            sums, *_ = torch.embedding_bag(table, rows, starts, False, 0, False, flat)
            return sums.numpy().reshape(shape)

        return multiply


def update_cell(gates: Array, cell: Array, limit: float) -> Array:
    """Move the cells (2, cell_size) one step by gates (4, 2, cell_size), both in place."""
    sigmoids = gates[:3]
    sigmoids *= 0.5
    np.tanh(gates, out=gates)
    sigmoids *= 0.5  # sigmoid(x) = (tanh(x / 2) + 1) / 2
    sigmoids += 0.5
    input_gate, forget_gate, output_gate, candidate = gates
    cell *= forget_gate
    candidate *= input_gate
    cell += candidate
    cell.clip(-limit, limit, out=cell)
    hidden = np.tanh(cell, out=candidate)
    hidden *= output_gate
    return hidden
