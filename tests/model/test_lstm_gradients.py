import math
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
import torch
from closeness import EXACT, assert_agree, assert_close
from small_models import small_config
from torch import Tensor, nn

from elmokit.model.lstm import MANY, LayerFunction, LayerState, LSTMStack, tanh_

BFLOAT16_ERROR = 0.05
"""Of a gradient, relative to its largest value; bfloat16 keeps about three digits of a product."""
TOKEN_SIZE, CELL_SIZE = 3, 5


class Clips(NamedTuple):
    cell: float | None
    output: float | None


class PackedOutputs(NamedTuple):
    outputs: Tensor  # (tokens, token_size)
    cell: Tensor  # (rows, cell_size) after each row's last step
    output: Tensor  # (rows, token_size) likewise


NO_CLIPS = Clips(None, None)
CLIPS = [NO_CLIPS, Clips(0.4, None), Clips(None, 0.3), Clips(0.4, 0.3)]
STEPS = {"one row": [1, 1, 1], "falling": [4, 3, 3, 1], "rows outside": [2, 2, 1]}
ROWS = 4


class Layer(NamedTuple):
    """Everything that a gradient can lead to."""

    inputs: Tensor  # (tokens, token_size)
    cell: Tensor  # (rows, cell_size)
    output: Tensor  # (rows, token_size)
    input_weight: Tensor
    recurrent_weight: Tensor
    bias: Tensor
    projection: Tensor | None

    def differentiable(self) -> list[Tensor]:
        return [tensor for tensor in self if tensor is not None]


def random_layer(
    step_sizes: list[int], has_projection: bool = True, dtype: torch.dtype = torch.float64
) -> Layer:
    generator = torch.Generator().manual_seed(len(step_sizes))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=dtype, generator=generator)

    token_size = TOKEN_SIZE if has_projection else CELL_SIZE
    layer = Layer(
        inputs=normal(sum(step_sizes), token_size),
        cell=normal(ROWS, CELL_SIZE) / 2,
        output=normal(ROWS, token_size),
        input_weight=normal(4 * CELL_SIZE, token_size),
        recurrent_weight=normal(4 * CELL_SIZE, token_size),
        bias=normal(4 * CELL_SIZE),
        projection=normal(token_size, CELL_SIZE) if has_projection else None,
    )
    for tensor in layer.differentiable():
        tensor.requires_grad_()
    return layer


def some_carried(step_sizes: list[int]) -> Tensor:
    """Every third token, and the first of each of the first two steps, from zeros: (tokens,)."""
    carried = torch.ones(sum(step_sizes), dtype=torch.float64)
    carried[[0, *step_sizes[:1]]] = 0
    carried[::3] = 0
    return carried


def plain_steps(
    layer: Layer, step_sizes: list[int], clips: Clips, carried: Tensor | None = None
) -> PackedOutputs:
    """The equations, one row and one step at a time, left to autograd."""
    cells, lasts = list(layer.cell), list(layer.output)
    outputs = []
    start = 0
    for size in step_sizes:
        for row in range(size):
            if carried is not None and not carried[start + row]:
                cells[row], lasts[row] = 0 * cells[row], 0 * lasts[row]
            gates = layer.bias + layer.input_weight @ layer.inputs[start + row]
            i, f, o, j = (gates + layer.recurrent_weight @ lasts[row]).chunk(4)
            cell = i.sigmoid() * j.tanh() + f.sigmoid() * cells[row]
            cells[row] = cell if clips.cell is None else cell.clamp(-clips.cell, clips.cell)
            output = o.sigmoid() * cells[row].tanh()
            output = output if layer.projection is None else layer.projection @ output
            if clips.output is not None:
                output = output.clamp(-clips.output, clips.output)
            lasts[row] = output
            outputs.append(output)
        start += size
    return PackedOutputs(torch.stack(outputs), torch.stack(cells), torch.stack(lasts))


def fast_steps(
    layer: Layer,
    step_sizes: list[int],
    clips: Clips,
    carried: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> PackedOutputs:
    return PackedOutputs(*LayerFunction.apply(*layer, step_sizes, *clips, dtype, carried))


def everything(results: PackedOutputs) -> Tensor:
    """A number that every result leads to, each of its own weight."""
    return sum((result.square() * (2 + result.sin())).sum() for result in results)  # type: ignore[return-value]


@pytest.mark.parametrize("has_projection", [True, False])
@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("step_sizes", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("carries", [True, False], ids=["carried", "some from zeros"])
def test_results_and_all_gradients_are_those_of_plain_autograd(
    step_sizes, clips, has_projection, carries
):
    layer = random_layer(step_sizes, has_projection)
    carried = None if carries else some_carried(step_sizes)
    found = fast_steps(layer, step_sizes, clips, carried)
    expected = plain_steps(layer, step_sizes, clips, carried)
    assert_agree(found, expected, EXACT)
    leaves = layer.differentiable()
    gradients = [
        torch.autograd.grad(everything(one), leaves, materialize_grads=True)
        for one in (found, expected)
    ]
    assert_agree(*gradients, EXACT)


def test_batch_without_a_step_hands_everything_through():
    layer = random_layer([])
    results = fast_steps(layer, [], NO_CLIPS)
    assert results.outputs.shape == (0, TOKEN_SIZE)
    assert torch.equal(results.cell, layer.cell)
    leaves = layer.differentiable()
    gradients = torch.autograd.grad(everything(results), leaves)
    assert torch.equal(gradients[3], torch.zeros_like(layer.input_weight))
    assert gradients[1].abs().min() > 0


def test_nothing_that_was_given_is_written_to():
    step_sizes = STEPS["falling"]
    layer = random_layer(step_sizes)
    before = [tensor.detach().clone() for tensor in layer.differentiable()]
    results = fast_steps(layer, step_sizes, Clips(0.4, 0.3))
    gradients = [torch.ones_like(result) for result in results]
    torch.autograd.backward(list(results), gradients)
    assert all(torch.equal(gradient, torch.ones_like(gradient)) for gradient in gradients)
    for tensor, old in zip(layer.differentiable(), before, strict=True):
        assert torch.equal(tensor, old)


@pytest.mark.parametrize("has_projection", [True, False])
def test_bfloat16_products_give_gradients_near_those_of_float32(has_projection):
    step_sizes = STEPS["falling"]
    layer = random_layer(step_sizes, has_projection, torch.float32)
    gradients = []
    for dtype in (None, torch.bfloat16):
        results = fast_steps(layer, step_sizes, NO_CLIPS, dtype=dtype)
        assert {result.dtype for result in results} == {torch.float32}
        gradients.append(torch.autograd.grad(everything(results), layer.differentiable()))
    assert not torch.equal(gradients[0][0], gradients[1][0])
    for exact, near in zip(*gradients, strict=True):
        assert near.dtype == torch.float32
        assert (exact - near).abs().max() < BFLOAT16_ERROR * exact.abs().max()


# Dropout between the layers


class Reading(NamedTuple):
    """What every layer of a stack was given, what it gave, and the outputs of the stack."""

    inputs: list[Tensor]
    raw: list[Tensor]  # before the residual
    outputs: list[Tensor]


TOKENS, DEPTH = 400, 3


def read_with(dropout: float, seed: int = 0) -> tuple[Tensor, Reading]:
    """Read random tokens, one row of them; give the tokens too."""
    torch.manual_seed(1)
    stack = LSTMStack(small_config(lstm_layers=DEPTH, cell_clip=None, projection_clip=None))
    tokens = torch.randn(TOKENS, 6)
    reading = Reading([], [], [])

    def note(_: nn.Module, given: tuple[Tensor, ...], result: tuple[Tensor, LayerState]) -> None:
        reading.inputs.append(given[0])
        reading.raw.append(result[0])

    for layer in stack.layers:
        layer.register_forward_hook(note)
    torch.manual_seed(seed)
    outputs, _ = stack(tokens, [1] * TOKENS, stack.zero_state(1, tokens), dropout=dropout)
    return tokens, reading._replace(outputs=outputs)


def test_dropout_takes_its_share_of_every_layers_input_and_scales_the_rest():
    tokens, reading = read_with(dropout=0.25)
    before_dropout = [tokens, *reading.outputs[:-1]]
    for given, before in zip(reading.inputs, before_dropout, strict=True):
        dropped = given == 0
        assert dropped.double().mean() == pytest.approx(0.25, abs=0.04)
        assert_close(given[~dropped], before[~dropped] / 0.75)


def test_residual_adds_the_input_that_dropout_has_left():
    _, reading = read_with(dropout=0.25)
    assert torch.equal(reading.outputs[0], reading.raw[0])
    for depth in range(1, DEPTH):
        residual = reading.raw[depth] + reading.inputs[depth]
        assert torch.equal(reading.outputs[depth], residual)


def test_masks_are_fresh_at_each_step_layer_and_reading():
    readings = [read_with(0.5, seed)[1] for seed in (0, 1)]
    masks = [given == 0 for reading in readings for given in reading.inputs]
    for one, other in combinations(masks, 2):
        assert (one != other).double().mean() == pytest.approx(0.5, abs=0.06)
    for mask in masks:
        # Steps of independent masks of 6 numbers are the same once in 64 times.
        same = [torch.equal(step, after) for step, after in pairwise(mask)]
        assert sum(same) < TOKENS / 20


def test_no_dropout_draws_nothing_and_changes_nothing():
    tokens, reading = read_with(dropout=0.0, seed=3)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert torch.equal(reading.inputs[0], tokens)
    for given, before in zip(reading.inputs[1:], reading.outputs[:-1], strict=True):
        assert torch.equal(given, before)


@pytest.mark.parametrize("count", [MANY - 1, MANY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tanh_of_few_and_of_many_numbers_is_tanh(count, dtype):
    values = torch.linspace(-20, 20, count).to(dtype)
    values[:3] = torch.tensor([math.inf, -math.inf, 1e-8])
    expected = torch.tanh(values.double())
    step = 2e-7 if dtype == torch.float32 else torch.finfo(dtype).eps
    assert (tanh_(values).double() - expected).abs().max() <= step


def test_tanh_of_what_is_no_number_is_no_number():
    assert tanh_(torch.full((MANY,), math.nan)).isnan().all()
