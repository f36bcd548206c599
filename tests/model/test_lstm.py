import copy
import pickle

import pytest
import torch
from closeness import assert_agree, assert_close
from small_models import small_config
from torch import Tensor

from elmokit.model.lstm import LayerState, LSTMLayer, LSTMStack

STEP_SIZES = [3, 3, 2, 1]


def layer_and_inputs(**changes: object):
    torch.manual_seed(1)
    config = small_config(**changes)
    layer = LSTMLayer(config)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.7)
    inputs = torch.randn(sum(STEP_SIZES), config.token_size)
    state = LayerState(torch.randn(3, config.cell_size), torch.randn(3, config.token_size))
    return layer, inputs, state


def plain_loop(layer: LSTMLayer, inputs: Tensor, state: LayerState) -> tuple[Tensor, LayerState]:
    """The equations, one sentence and one step at a time."""
    starts = [0, 3, 6, 8]
    lengths = [4, 3, 2]
    outputs: dict[int, Tensor] = {}
    cells, lasts = [], []
    for row, length in enumerate(lengths):
        cell, output = state.cell[row], state.output[row]
        for step in range(length):
            place = starts[step] + row
            gates = (
                layer.input_weight @ inputs[place] + layer.recurrent_weight @ output + layer.bias
            )
            i, f, o, j = gates.chunk(4)
            cell = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f + 1) * cell
            if layer.cell_clip is not None:
                cell = cell.clamp(-layer.cell_clip, layer.cell_clip)
            output = torch.sigmoid(o) * torch.tanh(cell)
            if layer.projection_weight is not None:
                output = layer.projection_weight @ output
            if layer.output_clip is not None:
                output = output.clamp(-layer.output_clip, layer.output_clip)
            outputs[place] = output
        cells.append(cell)
        lasts.append(output)
    ordered = torch.stack([outputs[place] for place in sorted(outputs)])
    return ordered, LayerState(torch.stack(cells), torch.stack(lasts))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cell_clip": 0.3, "projection_clip": 0.2},
        {"cell_clip": None, "projection_clip": None},
        {"token_size": 10, "projection_clip": 0.1},
    ],
)
def test_inference_equals_the_plain_loop(changes):
    layer, inputs, state = layer_and_inputs(**changes)
    with torch.no_grad():
        outputs, after = layer(inputs, STEP_SIZES, state, "exact")
        expected, expected_after = plain_loop(layer, inputs, state)
    assert_agree([outputs, *after], [expected, *expected_after])


def test_training_a_weight_is_seen_by_the_next_inference():
    layer, inputs, state = layer_and_inputs()
    with torch.no_grad():
        before, _ = layer(inputs, STEP_SIZES, state, "exact")
        layer.recurrent_weight.add_(0.5)
        after, _ = layer(inputs, STEP_SIZES, state, "exact")
        expected, _ = plain_loop(layer, inputs, state)
    assert (before - after).abs().max() > 0.01
    assert_close(after, expected)


def test_a_used_layer_can_be_copied_and_pickled():
    layer, inputs, state = layer_and_inputs()
    with torch.no_grad():
        expected, _ = layer(inputs, STEP_SIZES, state, "exact")
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            outputs, _ = other(inputs, STEP_SIZES, state, "exact")
            assert torch.equal(outputs, expected)


def test_one_long_run_equals_two_runs_that_hand_the_state_over():
    torch.manual_seed(2)
    stack = LSTMStack(small_config(lstm_layers=3))
    inputs = torch.randn(12, 6)
    with torch.no_grad():
        zero = stack.zero_state(2, inputs)
        whole, end = stack(inputs, [2] * 6, zero)
        first, middle = stack(inputs[:4], [2] * 2, zero)
        second, last = stack(inputs[4:], [2] * 4, middle)
    for layer, parts in zip(whole, zip(first, second, strict=True), strict=True):
        assert_close(layer, torch.cat(parts))
    assert_agree(end.cells, last.cells)
    assert_agree(end.outputs, last.outputs)


def test_residuals_are_added_above_the_first_layer_only():
    torch.manual_seed(3)
    with_skip = LSTMStack(small_config(skip_connections=True))
    without = LSTMStack(small_config(skip_connections=False))
    without.load_state_dict(with_skip.state_dict())
    inputs = torch.randn(4, 6)
    with torch.no_grad():
        zero = with_skip.zero_state(1, inputs)
        skipped, _ = with_skip(inputs, [1] * 4, zero)
        plain, _ = without(inputs, [1] * 4, zero)
    assert torch.equal(skipped[0], plain[0])
    assert_close(skipped[1], plain[1] + plain[0])
