"""One direction of the biLM: a stack of LSTM layers with projection, clips and residuals.

It reads a packed batch, step by step, so that padding costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.config import ModelConfig, Precision
from elmokit.model.products import MixedProduct, Product, best_product, has_bfloat16
from elmokit.model.weights import version_of, watch_optimisers

FORGET_BIAS = 1.0
"""Added to the forget gate at run time, as the original does: weight files do not contain it."""
MANY = 2**13  # of fewer numbers, four calls take longer than one
TOKENS_PER_INPUT_PRODUCT = 512
"""How many tokens' gates are computed ahead of the recurrence: enough rows for a fast product, few
enough that the gates are still in cache when their step comes."""


class Packing(NamedTuple):
    """Where each token of a padded batch stands in the order the LSTMs read it.

    Step t of a packed batch holds the t-th token of every sentence that has one, longest sentence
    first, so a step's tokens are consecutive rows and their sentences a prefix of the previous
    step's.
    """

    rows: Tensor  # (batch,) batch row of each sentence, longest first
    step_sizes: list[int]  # sentences still running at each step: never rises
    forward: Tensor  # (tokens,) flat position, row * words + word, reading left to right
    backward: Tensor  # (tokens,) the same, each sentence read from its own end


def pack(lengths: Tensor, words: int, device: torch.device | None = None) -> Packing:
    """Pack sentences of `lengths` (batch,) that stand padded in (batch, words) on a device."""
    # Sizes steer Python loops, so they are counted where Python can read them.
    lengths = lengths.cpu()
    sorted_lengths, rows = lengths.sort(descending=True, stable=True)
    steps = torch.arange(int(sorted_lengths[0]) if len(lengths) else 0)
    step_sizes = torch.searchsorted(-sorted_lengths, -steps)
    step = steps.repeat_interleave(step_sizes)
    start = (step_sizes.cumsum(0) - step_sizes).repeat_interleave(step_sizes)
    rank = torch.arange(len(step)) - start
    first = rows[rank] * words
    return Packing(
        rows=rows.to(device),
        step_sizes=step_sizes.tolist(),
        forward=(first + step).to(device),
        backward=(first + sorted_lengths[rank] - 1 - step).to(device),
    )


class LSTMState(NamedTuple):
    """What a stack remembers of each row after its last step."""

    cells: Tensor  # (layers, rows, cell_size), clipped
    outputs: Tensor  # (layers, rows, token_size), clipped, before the residual


class LayerState(NamedTuple):
    """What one layer remembers of each row."""

    cell: Tensor  # (rows, cell_size)
    output: Tensor  # (rows, token_size)


class InferenceProducts(NamedTuple):
    """A layer's weights, laid out for fast products without gradients."""

    version: tuple[object, ...]  # of the weights that these were made from
    inputs: Product
    recurrent: Product
    projection: Product | None
    bias: Tensor  # (4 * cell_size,), forget bias included


class LSTMLayer(nn.Module):
    """One projected LSTM layer over a packed batch; gates are i, f, o, j: sigmoids in one block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.cell_size = config.cell_size
        self.cell_clip = config.cell_clip
        # Without a projection the output is not clipped, as in the original.
        self.output_clip = config.projection_clip if config.has_projection else None
        gates = 4 * config.cell_size
        self.input_weight = nn.Parameter(torch.empty(gates, config.token_size))
        self.recurrent_weight = nn.Parameter(torch.empty(gates, config.token_size))
        self.bias = nn.Parameter(torch.empty(gates))
        self.projection_weight = (
            nn.Parameter(torch.empty(config.token_size, config.cell_size))
            if config.has_projection
            else None
        )
        self._products: dict[tuple[Precision, torch.device], InferenceProducts] = {}
        self.initialise()

    def initialise(self) -> None:
        """Glorot uniform over the joined kernel [input; recurrent], as TensorFlow does."""
        outputs, inputs = self.input_weight.shape
        limit = math.sqrt(6 / (2 * inputs + outputs))
        nn.init.uniform_(self.input_weight, -limit, limit)
        nn.init.uniform_(self.recurrent_weight, -limit, limit)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            nn.init.xavier_uniform_(self.projection_weight)

    def forward(
        self,
        inputs: Tensor,
        step_sizes: list[int],
        state: LayerState,
        precision: Precision,
        carried: Tensor | None = None,
    ) -> tuple[Tensor, LayerState]:
        """Read packed inputs (tokens, token_size); give outputs (tokens, token_size) and state.

        Tokens whose `carried` (tokens,) is 0 are read from zeros, whatever was read before.
        """
        leading_here = (*self.weights(), inputs, *state)
        wants_gradients = any(tensor.requires_grad for tensor in leading_here)
        if (wants_gradients and torch.is_grad_enabled()) or carried is not None:
            return self.run_with_gradients(inputs, step_sizes, state, precision, carried)
        with torch.no_grad():
            return self.run(inputs, step_sizes, state, self.products(precision))

    def run(
        self, inputs: Tensor, step_sizes: list[int], state: LayerState, products: InferenceProducts
    ) -> tuple[Tensor, LayerState]:
        """Inference: gates and cells are updated in place, outputs land where they are wanted."""
        cell, output = state.cell.clone(), state.output
        outputs = inputs.new_empty(inputs.shape[0], output.shape[1])
        start = 0
        for gates in self.input_gates(inputs, step_sizes, products):
            size = gates.shape[0]
            products.recurrent.add_to(gates, output[:size])
            now = cell[:size]
            output_gate = update_cell(gates, now, now, self.cell_clip)
            hidden = tanh_(now.clone()).mul_(output_gate)
            output = outputs[start : start + size]
            if products.projection is None:
                output.copy_(hidden)
            else:
                products.projection.write_to(output, hidden)
            if self.output_clip is not None:
                output.clamp_(-self.output_clip, self.output_clip)
            start += size
        last_output = state.output.clone()
        if step_sizes:
            last_output[: step_sizes[0]] = outputs[last_tokens(step_sizes)]
        return outputs, LayerState(cell, last_output)

    def input_gates(
        self, inputs: Tensor, step_sizes: list[int], products: InferenceProducts
    ) -> Iterator[Tensor]:
        """What the inputs add to the gates of each step (size, 4 * cell_size), some steps ahead."""
        groups = group_steps(step_sizes, TOKENS_PER_INPUT_PRODUCT)
        # One buffer serves every group: when the next is filled, the steps of the last are done.
        buffer = inputs.new_empty(max(map(sum, groups), default=0), len(products.bias))
        start = 0
        for steps in groups:
            end = start + sum(steps)
            gates = buffer[: end - start].copy_(products.bias)
            products.inputs.add_to(gates, inputs[start:end])
            yield from gates.split_with_sizes(steps)
            start = end

    def run_with_gradients(
        self,
        inputs: Tensor,
        step_sizes: list[int],
        state: LayerState,
        precision: Precision,
        carried: Tensor | None,
    ) -> tuple[Tensor, LayerState]:
        """The same steps for autograd."""
        watch_optimisers()
        in_bfloat16 = precision == "fast" and has_bfloat16(inputs.device)
        outputs, *after = LayerFunction.apply(  # type: ignore[no-untyped-call]
            inputs,
            *state,
            self.input_weight,
            self.recurrent_weight,
            self.bias + self.forget_bias(),
            self.projection_weight,
            step_sizes,
            self.cell_clip,
            self.output_clip,
            torch.bfloat16 if in_bfloat16 else None,
            carried,
        )
        return outputs, LayerState(*after)

    def weights(self) -> list[Tensor]:
        """Every weight, by name: in a replica on another device `parameters()` is empty."""
        weights = [self.input_weight, self.recurrent_weight, self.bias, self.projection_weight]
        return [weight for weight in weights if weight is not None]

    def forget_bias(self) -> Tensor:
        """FORGET_BIAS on the forget gate, zero elsewhere: (4 * cell_size,)."""
        constant = torch.zeros_like(self.bias)
        constant[self.cell_size : 2 * self.cell_size] = FORGET_BIAS
        return constant

    def products(self, precision: Precision) -> InferenceProducts:
        """The weights laid out for inference, made again when the weights have changed."""
        version = version_of(self.weights())
        key = precision, self.bias.device
        products = self._products.get(key)
        if products is None or products.version != version:
            projection = self.projection_weight
            products = self._products[key] = InferenceProducts(
                version=version,
                inputs=best_product(self.input_weight, precision),
                recurrent=best_product(self.recurrent_weight, precision),
                projection=None if projection is None else best_product(projection, precision),
                bias=self.bias.detach() + self.forget_bias(),
            )
        return products

    def __getstate__(self) -> dict[str, Any]:
        # The laid-out weights are derived, and some layouts cannot be copied.
        return {**self.__dict__, "_products": {}}


class LayerFunction(torch.autograd.Function):
    """One layer over all its steps, and its gradient: one step of autograd.

    Autograd alone would keep a dozen small tensors for every step and add to every weight's
    gradient at every step. Here the steps only fill buffers; what does not depend on the step
    before (the products of the inputs, the gradients of all weights) is one large matrix product
    over all tokens.
    """

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


class LSTMStack(nn.Module):
    """The layers of one direction."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LSTMLayer(config) for _ in range(config.lstm_layers))

    def forward(
        self,
        inputs: Tensor,
        step_sizes: list[int],
        state: LSTMState,
        precision: Precision = "exact",
        dropout: float = 0.0,
        carried: Tensor | None = None,
    ) -> tuple[list[Tensor], LSTMState]:
        """Read packed tokens (tokens, token_size); give each layer's outputs, and the state.

        Dropout is of every layer's input; the residual adds the input that is left of it. Tokens
        whose `carried` (tokens,) is 0 are read from zeros, whatever was read before.
        """
        outputs, states = [], []
        for depth, layer in enumerate(self.layers):
            inputs = functional.dropout(inputs, dropout) if dropout else inputs
            before = LayerState(state.cells[depth], state.outputs[depth])
            layer_output, after = layer(inputs, step_sizes, before, precision, carried)
            # The residual stands outside the recurrence, and the first layer has none.
            if self.config.skip_connections and depth > 0:
                layer_output = layer_output + inputs
            outputs.append(layer_output)
            states.append(after)
            inputs = layer_output
        cells, last_outputs = zip(*states, strict=True)
        return outputs, LSTMState(torch.stack(cells), torch.stack(last_outputs))

    def weights(self) -> list[Tensor]:
        """Every weight, layer by layer."""
        layers = cast(Iterable[LSTMLayer], self.layers)
        return [weight for layer in layers for weight in layer.weights()]

    def zero_state(self, rows: int, like: Tensor) -> LSTMState:
        """The state before the first step: zeros, on the device and in the type of `like`."""
        config = self.config
        return LSTMState(
            like.new_zeros(config.lstm_layers, rows, config.cell_size),
            like.new_zeros(config.lstm_layers, rows, config.token_size),
        )


def group_steps(step_sizes: list[int], tokens: int) -> list[list[int]]:
    """Group consecutive steps into runs of about `tokens` tokens.

    >>> group_steps([3, 3, 2, 1], tokens=5)
    [[3, 3], [2, 1]]
    """
    groups: list[list[int]] = []
    room = 0
    for size in step_sizes:
        if room <= 0:
            groups.append([])
            room = tokens
        groups[-1].append(size)
        room -= size
    return groups


def last_tokens(step_sizes: list[int]) -> list[int]:
    """The packed row of each sentence's last token, longest sentence first.

    >>> last_tokens([3, 2, 2])
    [5, 6, 2]
    """
    ends = accumulate(step_sizes)
    last: list[int] = []
    for end, size, after in reversed([*zip(ends, step_sizes, [*step_sizes[1:], 0], strict=True)]):
        last += range(end - size + after, end)
    return last
