"""The bidirectional LSTM of all networks, and the highway LSTM of semantic roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from closeness import EXACT, assert_close
from tasks.small_words import (
    LENGTHS,
    assert_every_parameter_learns,
    no_default_device,
    random_words,
    read_all,
)
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmokit.tasks.recurrent import BidirectionalLSTM, LSTMDirection, VariationalDropout
from elmokit.tasks.srl.network import HighwayLayer, HighwayLSTM

HIDDEN = 3


def small_lstm(layers: int = 1, dropout: float = 0.0) -> BidirectionalLSTM:
    torch.manual_seed(0)
    return BidirectionalLSTM(5, hidden=HIDDEN, layers=layers, dropout=dropout)


def small_highway(layers: int = 2, dropout: float = 0.0) -> HighwayLSTM:
    torch.manual_seed(0)
    lstm = HighwayLSTM(5, hidden=HIDDEN, layers=layers, dropout=dropout)
    with torch.no_grad():
        for layer in lstm.layers:
            layer.inputs.bias.uniform_(-1, 1)
    return lstm


def outputs_of(lstm: nn.Module, vectors: Tensor, mask: Tensor) -> Tensor:
    return read_all(lstm, vectors, mask) if isinstance(lstm, HighwayLSTM) else lstm(vectors, mask)


both_kinds = pytest.mark.parametrize("small", [small_lstm, small_highway])
Small = Callable[..., nn.Module]


@both_kinds
@pytest.mark.parametrize("layers", [2, 3])
def test_a_sentence_depends_on_itself_alone_and_padding_gives_zeros(
    small: Small, layers: int
) -> None:
    lstm = small(layers)
    words = random_words(padding=3)
    outputs = outputs_of(lstm, words.at_input, words.mask)
    assert outputs.shape[:2] == (len(LENGTHS), 9)
    assert not outputs[~words.mask].any()
    assert outputs[words.mask].all()
    for row, length in enumerate(LENGTHS):
        alone = random_words((length,))
        assert_close(outputs[row, :length], outputs_of(lstm, alone.at_input, alone.mask)[0])


@both_kinds
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_are_those_of_finite_differences(
    small: Small, layers: int, dropout: float
) -> None:
    lstm = small(layers, dropout).double()
    words = random_words((3, 0, 1, 3))
    vectors = words.at_input.double().requires_grad_()

    def run(vectors: Tensor, *_: Tensor) -> Tensor:
        torch.manual_seed(1)
        return outputs_of(lstm, vectors, words.mask)

    assert torch.autograd.gradcheck(run, (vectors, *lstm.parameters()), fast_mode=True)


@both_kinds
@pytest.mark.parametrize("lengths", [(0,), (0, 0)])
def test_batch_without_words_gives_no_error(small: Small, lengths: tuple[int, ...]) -> None:
    words = random_words(lengths)
    outputs = outputs_of(small(2, dropout=0.5), words.at_input.requires_grad_(), words.mask)
    outputs.sum().backward()  # type: ignore[no-untyped-call]
    assert outputs.shape[:2] == (len(lengths), 0)


@both_kinds
def test_every_parameter_learns(small: Small) -> None:
    lstm, words = small(4, dropout=0.2), random_words()
    loss = outputs_of(lstm, words.at_input, words.mask).square().sum()
    assert_every_parameter_learns(lstm, loss)


# Both directions


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


# Highways


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
@pytest.mark.parametrize("training", [True, False])
def test_highways_equal_the_papers_equations_word_by_word(layers: int, training: bool) -> None:
    """In training with dropout, which scales up what is left; else without."""
    lstm = small_highway(layers, dropout=0.4).double().train(training)
    lengths = (6, 4, 2, 1)  # as they are packed, so that the rows of z are theirs
    words = random_words(lengths)
    left: list[Tensor | None] = []
    for layer in lstm.layers:
        layer.register_forward_pre_hook(lambda module, inputs: left.append(inputs[1]))

    outputs = read_all(lstm, words.at_input.double(), words.mask)

    for row, length in enumerate(lengths):
        kept = [(each[row] != 0).double() / (1 - 0.4) for each in left if each is not None]
        assert len(kept) == (layers if training else 0)
        expected = by_the_equations(lstm, words.at_input[row, :length].double(), kept or None)
        assert_close(outputs[row, :length], expected, EXACT)
    if training:
        assert len({tuple(z.tolist()) for some in left if some is not None for z in some}) > 1


def test_every_gate_of_a_highway_starts_orthonormal_and_forgets_little() -> None:
    layer = HighwayLayer(5, HIDDEN)
    for weight in (*layer.inputs.weight.chunk(6), *layer.recurrent_weight.chunk(5)):
        assert_close(weight @ weight.t(), torch.eye(HIDDEN))
    assert layer.inputs.bias.tolist() == [0] * 9 + [1] * 3 + [0] * 6
