from __future__ import annotations

import pytest
import torch
from closeness import EXACT, assert_close
from tasks.small_words import (
    LENGTHS,
    assert_every_parameter_learns,
    no_default_device,
    random_words,
)
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmokit.errors import ConfigError
from elmokit.tasks.recurrent import BidirectionalLSTM, LSTMDirection, VariationalDropout


def small_lstm(layers: int = 1, dropout: float = 0.0) -> BidirectionalLSTM:
    torch.manual_seed(0)
    return BidirectionalLSTM(5, hidden=3, layers=layers, dropout=dropout)


def same_in_torch(lstm: BidirectionalLSTM) -> nn.LSTM:
    """`torch.nn.LSTM` with the same weights; its gates stand in the order i, f, j, o."""

    def torch_order(weight: Tensor) -> Tensor:
        i, f, o, j = weight.detach().chunk(4)
        return torch.cat([i, f, j, o])

    twin = nn.LSTM(5, 3, num_layers=len(lstm.layers), bidirectional=True, batch_first=True).double()
    for depth, layer in enumerate(lstm.layers):
        for end, direction in (
            (f"l{depth}", layer.forward_direction),
            (f"l{depth}_reverse", layer.backward_direction),
        ):
            assert isinstance(direction, LSTMDirection)
            state = {
                f"weight_ih_{end}": torch_order(direction.inputs.weight),
                f"weight_hh_{end}": torch_order(direction.recurrent_weight),
                f"bias_ih_{end}": torch_order(direction.inputs.bias),
                f"bias_hh_{end}": torch.zeros(12),
            }
            twin.load_state_dict(state, strict=False)
    return twin


@pytest.mark.parametrize("layers", [1, 2])
def test_equals_torch_over_a_packed_batch(layers: int) -> None:
    lstm = small_lstm(layers).double()
    words = random_words((4, 1, 6, 2))
    vectors = words.at_input.double()
    packed = pack_padded_sequence(
        vectors, words.mask.sum(1), batch_first=True, enforce_sorted=False
    )
    expected, _ = pad_packed_sequence(same_in_torch(lstm)(packed)[0], batch_first=True)
    assert_close(lstm(vectors, words.mask), expected, EXACT)


def test_gradients_are_those_of_finite_differences() -> None:
    lstm = small_lstm(2).double()
    words = random_words((3, 0, 1))
    vectors = words.at_input.double().requires_grad_()

    def run(vectors: Tensor, *_: Tensor) -> Tensor:
        return lstm(vectors, words.mask)

    assert torch.autograd.gradcheck(run, (vectors, *lstm.parameters()), fast_mode=True)


def test_a_sentence_depends_on_itself_alone() -> None:
    lstm = small_lstm(2)
    words = random_words(padding=3)
    outputs = lstm(words.at_input, words.mask)
    for row, length in enumerate(LENGTHS):
        alone = random_words((length,))
        assert_close(outputs[row, :length], lstm(alone.at_input, alone.mask)[0])


def test_padding_gives_zeros() -> None:
    words = random_words(padding=2)
    outputs = small_lstm(2)(words.at_input, words.mask)
    assert outputs.shape == (len(LENGTHS), 8, 6)
    assert not outputs[~words.mask].any()
    assert outputs[words.mask].all()


def test_reversing_a_sentence_and_swapping_the_directions_reverses_the_outputs() -> None:
    lstm, words = small_lstm(), random_words((5,))
    outputs = lstm(words.at_input, words.mask)
    layer = lstm.layers[0]
    layer.forward_direction, layer.backward_direction = (
        layer.backward_direction,
        layer.forward_direction,
    )
    reversed_outputs = lstm(words.at_input.flip(1), words.mask)
    assert_close(torch.cat(reversed_outputs.flip(1).chunk(2, -1)[::-1], -1), outputs)


@pytest.mark.parametrize("lengths", [(0,), (0, 0), ()])
def test_batch_without_words_gives_no_error(lengths: tuple[int, ...]) -> None:
    words = random_words(lengths or (0,))
    vectors, mask = words.at_input[: len(lengths)], words.mask[: len(lengths)]
    outputs = small_lstm(2)(vectors.requires_grad_(), mask)
    outputs.sum().backward()
    assert outputs.shape == (len(lengths), 0, 6)


def test_every_parameter_learns() -> None:
    lstm, words = small_lstm(2, dropout=0.2), random_words()
    assert_every_parameter_learns(lstm, lstm(words.at_input, words.mask).square().sum())


def test_forget_gate_starts_open() -> None:
    direction = LSTMDirection(5, 3)
    assert direction.inputs.bias.tolist() == [0] * 3 + [1] * 3 + [0] * 6


def test_dropout_leaves_out_the_same_dimensions_of_every_word() -> None:
    torch.manual_seed(1)
    dropped = VariationalDropout(0.5)(torch.ones(4, 7, 20))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped == dropped[:1]).all()


def test_dropout_is_between_layers_and_only_in_training() -> None:
    words = random_words()
    one, two = small_lstm(1, dropout=0.5), small_lstm(2, dropout=0.5)

    def varies(lstm: BidirectionalLSTM) -> bool:
        outputs = [lstm(words.at_input, words.mask) for _ in range(2)]
        return not torch.equal(*outputs)

    assert not varies(one)
    assert varies(two)
    assert not varies(two.eval())


def test_new_tensors_are_made_where_the_vectors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lstm, words = small_lstm(2, dropout=0.5), random_words()
    with no_default_device(monkeypatch):
        lstm(words.at_input, words.mask).sum().backward()


def test_sizes_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="size of the word vectors is 0"):
        BidirectionalLSTM(0, hidden=3)
    with pytest.raises(ConfigError, match="layers is 0"):
        BidirectionalLSTM(5, hidden=3, layers=0)
    with pytest.raises(ConfigError, match=r"dropout is 1\.0"):
        BidirectionalLSTM(5, hidden=3, dropout=1.0)
