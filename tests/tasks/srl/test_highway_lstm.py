from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from closeness import EXACT, assert_close
from tasks.small_words import (
    LENGTHS,
    assert_every_parameter_learns,
    random_words,
)
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.tasks.srl.network import HighwayLayer, HighwayLSTM

HIDDEN = 3


def small_lstm(layers: int = 2, dropout: float = 0.0) -> HighwayLSTM:
    torch.manual_seed(0)
    lstm = HighwayLSTM(5, hidden=HIDDEN, layers=layers, dropout=dropout)
    with torch.no_grad():
        for layer in lstm.layers:
            layer.inputs.bias.uniform_(-1, 1)
    return lstm


def by_the_equations(
    lstm: HighwayLSTM, sentence: Tensor, dropout: Sequence[Tensor] | None = None
) -> Tensor:
    """What the paper's equations give for one sentence (words, size), word by word.

    Dropout is the z of each layer, (hidden,); without it, 1.
    """
    for depth, layer in enumerate(lstm.layers):
        z = torch.ones(HIDDEN) if dropout is None else dropout[depth]
        words = list(sentence) if depth % 2 == 0 else list(sentence)[::-1]
        output = cell = sentence.new_zeros(HIDDEN)
        outputs = []
        for word in words:
            *gates, carried = layer.inputs(word).chunk(6)
            recurrent = (layer.recurrent_weight @ output).chunk(5)
            o, r, i, f, j = (gate + add for gate, add in zip(gates, recurrent, strict=True))
            cell = f.sigmoid() * cell + i.sigmoid() * j.tanh()
            hidden = o.sigmoid() * cell.tanh()
            output = z * (r.sigmoid() * hidden + (1 - r.sigmoid()) * carried)
            outputs.append(output)
        sentence = torch.stack(outputs if depth % 2 == 0 else outputs[::-1])
    return sentence


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equals_the_papers_equations_word_by_word(layers: int) -> None:
    lstm = small_lstm(layers).double()
    words = random_words((4, 1, 6, 2))
    outputs = lstm(words.at_input.double(), words.mask)
    for row, length in enumerate((4, 1, 6, 2)):
        expected = by_the_equations(lstm, words.at_input[row, :length].double())
        assert_close(outputs[row, :length], expected, EXACT)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_dropout_is_that_of_the_equations_and_scales_up_what_is_left(layers: int) -> None:
    lstm = small_lstm(layers, dropout=0.4).double()
    lengths = (6, 4, 2, 1)  # as they are packed, so that the rows of z are theirs
    words = random_words(lengths)
    left: list[Tensor] = []
    for layer in lstm.layers:
        layer.register_forward_pre_hook(lambda module, inputs: left.append(inputs[1] != 0))

    outputs = lstm(words.at_input.double(), words.mask)

    assert len({tuple(z.tolist()) for of_layer in left for z in of_layer}) > 1
    for row, length in enumerate(lengths):
        dropout = [of_layer[row].double() / (1 - 0.4) for of_layer in left]
        expected = by_the_equations(lstm, words.at_input[row, :length].double(), dropout)
        assert_close(outputs[row, :length], expected, EXACT)


@pytest.mark.parametrize(("layers", "dropout"), [*product((1, 2, 3), (0.0, 0.4))])
def test_gradients_are_those_of_finite_differences(layers: int, dropout: float) -> None:
    lstm = small_lstm(layers, dropout).double()
    words = random_words((3, 0, 1, 3))
    vectors = words.at_input.double().requires_grad_()

    def run(vectors: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(1)
        return lstm(vectors, words.mask)

    assert torch.autograd.gradcheck(run, (vectors, *lstm.parameters()), fast_mode=True)


def test_a_sentence_depends_on_itself_alone() -> None:
    lstm = small_lstm(3)
    words = random_words(padding=3)
    outputs = lstm(words.at_input, words.mask)
    assert outputs.shape == (len(LENGTHS), 9, HIDDEN)
    assert not outputs[~words.mask].any()
    for row, length in enumerate(LENGTHS):
        alone = random_words((length,))
        assert_close(outputs[row, :length], lstm(alone.at_input, alone.mask)[0])


@pytest.mark.parametrize(("layers", "changed", "same"), [(1, 0, []), (1, 3, [0, 1, 2])])
def test_the_first_layer_reads_from_the_left(layers: int, changed: int, same: list[int]) -> None:
    lstm, words = small_lstm(layers), random_words((4,))
    other = words.at_input.clone()
    other[0, changed] += 1
    difference = (lstm(words.at_input, words.mask) - lstm(other, words.mask))[0].abs().sum(1)
    assert [word for word in range(4) if difference[word] == 0] == same


def test_two_layers_read_the_sentence_from_both_sides() -> None:
    lstm, words = small_lstm(2), random_words((4,))
    for changed in range(4):
        other = words.at_input.clone()
        other[0, changed] += 1
        difference = (lstm(words.at_input, words.mask) - lstm(other, words.mask))[0]
        assert difference.abs().sum(1).all()


def test_dropout_leaves_out_the_same_cells_of_all_words_of_a_sentence() -> None:
    lstm, words = small_lstm(1, dropout=0.5), random_words((5, 5, 4, 6, 3))
    torch.manual_seed(3)
    outputs = lstm(words.at_input, words.mask)
    dropped = [
        (outputs[row, : len(of_sentence.nonzero())] == 0)
        for row, of_sentence in enumerate(words.mask)
    ]
    for of_sentence in dropped:
        assert (of_sentence == of_sentence[0]).all()
    assert len({tuple(of_sentence[0].tolist()) for of_sentence in dropped}) > 1


def test_outside_of_training_nothing_is_dropped() -> None:
    words = random_words()
    without, with_dropout = small_lstm(2), small_lstm(2, dropout=0.5).eval()
    assert_close(with_dropout(words.at_input, words.mask), without(words.at_input, words.mask))


def test_every_gate_starts_orthonormal_and_forgets_little() -> None:
    layer = HighwayLayer(5, HIDDEN)
    for weight in (*layer.inputs.weight.chunk(6), *layer.recurrent_weight.chunk(5)):
        assert_close(weight @ weight.t(), torch.eye(HIDDEN))
    assert layer.inputs.bias.tolist() == [0] * 9 + [1] * 3 + [0] * 6


def test_every_parameter_learns() -> None:
    lstm, words = small_lstm(4, dropout=0.2), random_words()
    assert_every_parameter_learns(lstm, lstm(words.at_input, words.mask).square().sum())


@pytest.mark.parametrize("lengths", [(0,), (0, 0)])
def test_a_batch_without_words_gives_no_error(lengths: tuple[int, ...]) -> None:
    words = random_words(lengths)
    outputs = small_lstm(2, dropout=0.5)(words.at_input.requires_grad_(), words.mask)
    outputs.sum().backward()
    assert outputs.shape == (len(lengths), 0, HIDDEN)


def test_no_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match="layers"):
        HighwayLSTM(5, hidden=3, layers=0)
