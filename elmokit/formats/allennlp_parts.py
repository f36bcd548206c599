"""Which dataset of AllenNLP's weight file is which tensor of ours, to read and to write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.formats.shapes import Shape, expected_shapes

EMBEDDING = "embedding"
"""Table of word vectors: word-input models and cached vocabularies have one."""


class Layout:
    """How a dataset holds tensors of the state_dict. This one: a single tensor, as it is."""

    def shape(self, *kept: Shape) -> Shape:
        """The dataset's shape, from the shapes of the tensors."""
        return kept[0]

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """From the dataset to the tensors."""
        return (stored,)

    def write(self, *kept: Tensor) -> Tensor:
        """From the tensors to the dataset."""
        return kept[0]


class Transposed(Layout):
    """The file multiplies `x @ W`, torch `x @ W.T`."""

    def shape(self, *kept: Shape) -> Shape:
        """From (out, in) to (in, out)."""
        return kept[0][::-1]

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """From (in, out) to (out, in)."""
        return (stored.T,)

    def write(self, *kept: Tensor) -> Tensor:
        """From (out, in) to (in, out)."""
        return kept[0].T


class Convolution(Layout):
    """Filters over a picture one character high, (1, width, character_size, filters)."""

    def shape(self, *kept: Shape) -> Shape:
        """From (filters, character_size, width)."""
        return (1, *kept[0][::-1])

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """To (filters, character_size, width)."""
        return (stored.squeeze(0).permute(2, 1, 0),)

    def write(self, *kept: Tensor) -> Tensor:
        """From (filters, character_size, width)."""
        return kept[0].permute(2, 1, 0).unsqueeze(0)


class WithoutPadding(Layout):
    """Our row 0, all zeros for a padded word, is not in the file."""

    def shape(self, *kept: Shape) -> Shape:
        """One row less."""
        return (kept[0][0] - 1, *kept[0][1:])

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """Put the row of zeros before the others."""
        return (functional.pad(stored, (0, 0, 1, 0)),)

    def write(self, *kept: Tensor) -> Tensor:
        """Leave row 0 out, whatever it holds: padded words are masked."""
        return kept[0][1:]


class Gates(Layout):
    """Four gates side by side, in the file's order i, j, f, o, where we keep i, f, o, j.

    TensorFlow adds 1 to the forget gate when it runs, not in the file, and so does our LSTM: the
    numbers are the same on both sides.
    """

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """From (4 * cell,)."""
        i, j, f, o = stored.chunk(4)
        return (torch.cat([i, f, o, j]),)

    def write(self, *kept: Tensor) -> Tensor:
        """To (4 * cell,)."""
        i, f, o, j = kept[0].chunk(4)
        return torch.cat([i, j, f, o])


class GateWeights(Gates):
    """Input weights above recurrent ones, (input + recurrent, 4 * cell); both equally high."""

    def shape(self, *kept: Shape) -> Shape:
        """From the shapes of both weights, (4 * cell, size)."""
        inputs, recurrent = kept
        return (inputs[1] + recurrent[1], inputs[0])

    def read(self, stored: Tensor) -> tuple[Tensor, ...]:
        """To input and recurrent weight, (4 * cell, size) each."""
        (gates,) = super().read(stored.T)
        return gates.chunk(2, dim=1)

    def write(self, *kept: Tensor) -> Tensor:
        """From input and recurrent weight."""
        return super().write(torch.cat(kept, dim=1)).T


AS_IT_IS = Layout()
TRANSPOSED = Transposed()
CONVOLUTION = Convolution()
WITHOUT_PADDING = WithoutPadding()
GATES = Gates()
GATE_WEIGHTS = GateWeights()


@dataclass(frozen=True)
class Part:
    """One dataset of the file, and the tensors of the state_dict that it holds."""

    dataset: str
    layout: Layout
    keys: tuple[str, ...]
    other_name: str | None = None
    """What else the dataset may be called."""


def parts(config: ModelConfig) -> list[Part]:
    """The datasets of a model of this config."""
    shapes = expected_shapes(config)
    return [part for part in _possible_parts(config) if part.keys[0] in shapes]


def dataset_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The shape of every dataset of a model of this config, by name."""
    shapes = expected_shapes(config)
    return {
        part.dataset: part.layout.shape(*(shapes[key] for key in part.keys))
        for part in parts(config)
    }


def parts_without_place(config: ModelConfig) -> list[Part]:
    """Projections between equal sizes: some files may have one, this config has none."""
    shapes = expected_shapes(config)
    return [part for part in _possible_parts(config) if part.keys[0] not in shapes]


def _possible_parts(config: ModelConfig) -> Iterator[Part]:
    """Every dataset, the projections included that equal sizes do without."""
    if isinstance(config.encoder, WordEncoderConfig):
        yield Part(EMBEDDING, WITHOUT_PADDING, ("encoder.words.weight",))
    else:
        yield from _character_encoder_parts(config.encoder)
    for direction, stack in enumerate(("forward_lstm", "backward_lstm")):
        for layer in range(config.lstm_layers):
            yield from _lstm_parts(direction, f"{stack}.layers.{layer}", layer, config.lstm_layers)
    if config.softmax_words is not None:
        yield Part("softmax/W", AS_IT_IS, ("softmax.weight",))
        yield Part("softmax/b", AS_IT_IS, ("softmax.bias",))


def _character_encoder_parts(encoder: CharacterEncoderConfig) -> Iterator[Part]:
    yield Part("char_embed", WITHOUT_PADDING, ("encoder.characters.weight",))
    for number in range(len(encoder.filters)):
        name = f"encoder.convolutions.{number}"
        yield Part(f"CNN/W_cnn_{number}", CONVOLUTION, (f"{name}.weight",))
        yield Part(f"CNN/b_cnn_{number}", AS_IT_IS, (f"{name}.bias",))
    for number in range(encoder.highways):
        # "Carry" in the file gates what is transformed, as our gate does: no sign changes.
        for theirs, ours in (("carry", "gate"), ("transform", "transform")):
            name = f"encoder.highways.{number}.{ours}"
            yield Part(f"CNN_high_{number}/W_{theirs}", TRANSPOSED, (f"{name}.weight",))
            yield Part(f"CNN_high_{number}/b_{theirs}", AS_IT_IS, (f"{name}.bias",))
    yield Part("CNN_proj/W_proj", TRANSPOSED, ("encoder.projection.weight",))
    yield Part("CNN_proj/b_proj", AS_IT_IS, ("encoder.projection.bias",))


def _lstm_parts(direction: int, name: str, layer: int, layers: int) -> Iterator[Part]:
    table = (
        ("W_0", GATE_WEIGHTS, (f"{name}.input_weight", f"{name}.recurrent_weight")),
        ("B", GATES, (f"{name}.bias",)),
        ("W_P_0", TRANSPOSED, (f"{name}.projection_weight",)),
    )
    stack = f"RNN_{direction}/RNN"
    for dataset, layout, keys in table:
        # The original code stacks nothing, and names no stack, where there is one layer.
        alone = f"{stack}/LSTMCell/{dataset}" if layers == 1 else None
        yield Part(f"{stack}/MultiRNNCell/Cell{layer}/LSTMCell/{dataset}", layout, keys, alone)
