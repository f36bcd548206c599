"""A projected LSTM layer for training: the whole layer is one step of autograd.

Autograd alone would keep a dozen small tensors for every step and add to every weight's gradient at
every step. Here the steps only fill buffers; what does not depend on the step before (the products
of the inputs, the gradients of all weights) is one large matrix product over all tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmokit.model.products import MixedProduct

MANY = 2**13
"""Of fewer numbers, four calls take longer than one."""


class LayerFunction(torch.autograd.Function):
    """One layer over all its steps, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # packed, (tokens, token_size)
        cell: Tensor,  # (rows, cell_size), before the first step
        output: Tensor,  # (rows, token_size), likewise
        input_weight: Tensor,  # (4 * cell_size, token_size), gates in the order i, f, o, j
        recurrent_weight: Tensor,  # (4 * cell_size, token_size)
        bias: Tensor,  # (4 * cell_size,), forget bias included
        projection_weight: Tensor | None,  # (token_size, cell_size)
        step_sizes: list[int],
        cell_clip: float | None,
        output_clip: float | None,
        dtype: torch.dtype | None,  # of matrix products; None, and all else, is that of the inputs
        carried: Tensor | None,  # (tokens,) is 0 for tokens that are read from zeros, else 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs (tokens, token_size), and each row's cell and output after its last step.

        Stores what the gradient needs: gates, cells, and their tanh.
        """
        product = MixedProduct(inputs.dtype, dtype or inputs.dtype)
        recurrent = product.prepare(recurrent_weight.t())
        projection = None if projection_weight is None else product.prepare(projection_weight.t())
        gates = product.add(bias, inputs, product.prepare(input_weight.t()))
        cells = inputs.new_empty(len(inputs), cell.shape[1])
        tanh_cells = torch.empty_like(cells)
        outputs = inputs.new_empty(len(inputs), output.shape[1])
        last_cell, last_output = cell.clone(), output.clone()
        step_cell, step_output = cell, output
        for step in steps_of(step_sizes):
            size = step.stop - step.start
            step_cell, step_output = step_cell[:size], step_output[:size]
            if carried is not None:
                step_cell = step_cell * carried[step, None]
                step_output = step_output * carried[step, None]
            product.add_to(gates[step], step_output, recurrent)
            opened = update_cell(gates[step], step_cell, cells[step], cell_clip)
            hidden = tanh_(tanh_cells[step].copy_(cells[step])) * opened
            product.write_to(outputs[step], hidden, projection)
            if output_clip is not None:
                outputs[step].clamp_(-output_clip, output_clip)
            step_cell, step_output = cells[step], outputs[step]
            last_cell[:size], last_output[:size] = step_cell, step_output
        ctx.save_for_backward(
            inputs, cell, output, input_weight, recurrent_weight, projection_weight,
            gates, cells, tanh_cells, outputs, carried,
        )  # fmt: skip
        ctx.step_sizes, ctx.product = step_sizes, product
        ctx.cell_clip, ctx.output_clip = cell_clip, output_clip
        return outputs, last_cell, last_output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cell: Tensor, d_output: Tensor) -> Any:
        """Walk the steps back, then multiply out the gradients of all tokens at once."""
        (inputs, cell, output, input_weight, recurrent_weight, projection_weight,
         gates, cells, tanh_cells, outputs, carried) = ctx.saved_tensors  # fmt: skip
        product: MixedProduct = ctx.product
        recurrent = product.prepare(recurrent_weight)
        projection = None if projection_weight is None else product.prepare(projection_weight)
        d_gates = torch.empty_like(gates)
        d_outputs = d_outputs.clone()
        d_cell, d_output = d_cell.clone(), d_output.clone()
        steps = list(steps_of(ctx.step_sizes))
        for step, before in reversed([*zip(steps, [None, *steps], strict=False)]):
            size = step.stop - step.start
            d_outputs[step] += d_output[:size]
            clip_gradient(d_outputs[step], outputs[step], ctx.output_clip)
            d_hidden = product.times(d_outputs[step], projection)
            old_cell = cell[:size] if before is None else cells[before][:size]
            if carried is not None:
                old_cell = old_cell * carried[step, None]
            step_gradient(
                d_gates[step], d_cell[:size], d_hidden,
                gates[step], cells[step], tanh_cells[step], old_cell, ctx.cell_clip,
            )  # fmt: skip
            product.write_to(d_output[:size], d_gates[step], recurrent)
            if carried is not None:
                d_cell[:size] *= carried[step, None]
                d_output[:size] *= carried[step, None]
        d_gates_t = product.prepare(d_gates.t())
        previous = previous_outputs(output, outputs, steps)
        if carried is not None:
            previous = previous * carried[:, None]
        d_weights = product.times(d_gates_t, torch.cat([inputs, previous], dim=1))
        d_input_weight, d_recurrent_weight = d_weights.tensor_split([inputs.shape[1]], dim=1)
        d_inputs = None
        if ctx.needs_input_grad[0]:
            d_inputs = product.times(d_gates, product.prepare(input_weight))
        d_projection = None
        if projection_weight is not None:
            d_projection = product.times(d_outputs.t(), output_gate(gates) * tanh_cells)
        return (
            d_inputs, d_cell, d_output, d_input_weight, d_recurrent_weight, d_gates.sum(0),
            d_projection, None, None, None, None, None,
        )  # fmt: skip


def steps_of(step_sizes: list[int]) -> Iterator[slice]:
    """Where each step's tokens stand in the packed batch."""
    starts = accumulate(step_sizes, initial=0)
    return (slice(start, start + size) for start, size in zip(starts, step_sizes, strict=False))


def output_gate(gates: Tensor) -> Tensor:
    """The third of the four gates, (rows, cell_size)."""
    return gates.chunk(4, dim=-1)[2]


def tanh_(values: Tensor) -> Tensor:
    """The hyperbolic tangent, in place.

    torch's own takes six times as long as its sigmoid on a CPU (docs/log.md), and is made of it
    here where that pays: tanh(x) = 2 sigmoid(2x) - 1, with an error of 2e-7 at most.
    """
    if values.numel() < MANY or values.dtype != torch.float32 or values.device.type != "cpu":
        return values.tanh_()
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


def update_cell(gates: Tensor, old_cell: Tensor, cell: Tensor, clip: float | None) -> Tensor:
    """Open the gates (rows, 4 * cell_size) in place, and write the cell; give the output gate."""
    size = cell.shape[-1]
    gates[..., : 3 * size].sigmoid_()
    input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)
    tanh_(candidate)
    torch.mul(forget_gate, old_cell, out=cell).addcmul_(input_gate, candidate)
    if clip is not None:
        cell.clamp_(-clip, clip)
    return output_gate


def step_gradient(
    d_gates: Tensor,
    d_cell: Tensor,
    d_hidden: Tensor,
    gates: Tensor,
    cell: Tensor,
    tanh_cell: Tensor,
    old_cell: Tensor,
    cell_clip: float | None,
) -> None:
    """Write the gradient before the gates' activations, and pass `d_cell` on to the step before."""
    size = cell.shape[-1]
    input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)
    d_input_gate, d_forget_gate, d_output_gate, d_candidate = d_gates.chunk(4, dim=-1)
    torch.mul(d_hidden, tanh_cell, out=d_output_gate)
    d_hidden.mul_(output_gate)
    d_cell.add_(torch.ops.aten.tanh_backward(d_hidden, tanh_cell))
    clip_gradient(d_cell, cell, cell_clip)
    torch.mul(d_cell, candidate, out=d_input_gate)
    torch.mul(d_cell, old_cell, out=d_forget_gate)
    torch.mul(d_cell, input_gate, out=d_candidate)
    d_cell.mul_(forget_gate)
    d_sigmoids, sigmoids = d_gates[..., : 3 * size], gates[..., : 3 * size]
    torch.ops.aten.sigmoid_backward.grad_input(d_sigmoids, sigmoids, grad_input=d_sigmoids)
    torch.ops.aten.tanh_backward.grad_input(d_candidate, candidate, grad_input=d_candidate)


def clip_gradient(gradient: Tensor, clipped: Tensor, clip: float | None) -> None:
    """Stop the gradient, in place, where a value stands at its clip."""
    if clip is not None:
        torch.ops.aten.hardtanh_backward.grad_input(
            gradient, clipped, -clip, clip, grad_input=gradient
        )


def previous_outputs(output: Tensor, outputs: Tensor, steps: list[slice]) -> Tensor:
    """What each token's recurrent product was of, (tokens, token_size)."""
    if not steps:
        return outputs
    sizes = [step.stop - step.start for step in steps]
    earlier = [
        outputs[..., step.start : step.start + size, :]
        for step, size in zip(steps, sizes[1:], strict=False)
    ]
    return torch.cat([output[..., : sizes[0], :], *earlier], dim=-2)
