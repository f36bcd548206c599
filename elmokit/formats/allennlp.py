"""Models as AllenNLP and the original TensorFlow code keep them: options.json and weights.hdf5."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.allennlp_options import (
    UNCOUNTED_WORDS,
    naming,
    options_of,
    parse_options,
)
from elmokit.formats.native import (
    Shape,
    check_finite,
    expected_shapes,
    grouped,
    misfit,
    state_dict_misfit,
)
from elmokit.io.files import read_object, write_atomically, write_object
from elmokit.io.hdf5 import hdf5_damage, open_hdf5

EMBEDDING = "embedding"
"""Table of word vectors: word-input models and cached vocabularies have one."""


class DatasetLayout:
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


class Transposed(DatasetLayout):
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


class Convolution(DatasetLayout):
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


class WithoutPadding(DatasetLayout):
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


class Gates(DatasetLayout):
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


AS_IT_IS = DatasetLayout()
TRANSPOSED = Transposed()
CONVOLUTION = Convolution()
WITHOUT_PADDING = WithoutPadding()
GATES = Gates()
GATE_WEIGHTS = GateWeights()


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and the tensors of the state_dict that it holds."""

    dataset: str
    layout: DatasetLayout
    keys: tuple[str, ...]
    other_name: str | None = None
    """What else the dataset may be called."""


def parts(config: ModelConfig) -> list[Dataset]:
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


def parts_without_place(config: ModelConfig) -> list[Dataset]:
    """Projections between equal sizes: some files may have one, this config has none."""
    shapes = expected_shapes(config)
    return [part for part in _possible_parts(config) if part.keys[0] not in shapes]


def _possible_parts(config: ModelConfig) -> Iterator[Dataset]:
    """Every dataset, the projections included that equal sizes do without."""
    if isinstance(config.encoder, WordEncoderConfig):
        yield Dataset(EMBEDDING, WITHOUT_PADDING, ("encoder.words.weight",))
    else:
        yield from _character_encoder_parts(config.encoder)
    for direction, stack in enumerate(("forward_lstm", "backward_lstm")):
        for layer in range(config.lstm_layers):
            yield from _lstm_parts(direction, f"{stack}.layers.{layer}", layer, config.lstm_layers)
    if config.softmax_words is not None:
        yield Dataset("softmax/W", AS_IT_IS, ("softmax.weight",))
        yield Dataset("softmax/b", AS_IT_IS, ("softmax.bias",))


def _character_encoder_parts(encoder: CharacterEncoderConfig) -> Iterator[Dataset]:
    yield Dataset("char_embed", WITHOUT_PADDING, ("encoder.characters.weight",))
    for number in range(len(encoder.filters)):
        name = f"encoder.convolutions.{number}"
        yield Dataset(f"CNN/W_cnn_{number}", CONVOLUTION, (f"{name}.weight",))
        yield Dataset(f"CNN/b_cnn_{number}", AS_IT_IS, (f"{name}.bias",))
    for number in range(encoder.highways):
        # "Carry" in the file gates what is transformed, as our gate does: no sign changes.
        for theirs, ours in (("carry", "gate"), ("transform", "transform")):
            name = f"encoder.highways.{number}.{ours}"
            yield Dataset(f"CNN_high_{number}/W_{theirs}", TRANSPOSED, (f"{name}.weight",))
            yield Dataset(f"CNN_high_{number}/b_{theirs}", AS_IT_IS, (f"{name}.bias",))
    yield Dataset("CNN_proj/W_proj", TRANSPOSED, ("encoder.projection.weight",))
    yield Dataset("CNN_proj/b_proj", AS_IT_IS, ("encoder.projection.bias",))


def _lstm_parts(direction: int, name: str, layer: int, layers: int) -> Iterator[Dataset]:
    table = (
        ("W_0", GATE_WEIGHTS, (f"{name}.input_weight", f"{name}.recurrent_weight")),
        ("B", GATES, (f"{name}.bias",)),
        ("W_P_0", TRANSPOSED, (f"{name}.projection_weight",)),
    )
    stack = f"RNN_{direction}/RNN"
    for dataset, layout, keys in table:
        # The original code stacks nothing, and names no stack, where there is one layer.
        alone = f"{stack}/LSTMCell/{dataset}" if layers == 1 else None
        yield Dataset(f"{stack}/MultiRNNCell/Cell{layer}/LSTMCell/{dataset}", layout, keys, alone)


def shape_of(file: h5py.File, name: str) -> Shape | None:
    """The shape of a dataset; None when there is none of that name."""
    with hdf5_damage(file.filename):
        item = file.get(name)
        if not isinstance(item, h5py.Dataset):
            return None
        return (0,) if item.shape is None else item.shape  # None: a dataset that holds nothing


def read_floats(file: h5py.File, name: str) -> Tensor:
    """A dataset of floating-point numbers as float32; anything else is refused."""
    place = f"{file.filename}: {name}"
    with hdf5_damage(file.filename):
        dataset = file[name]
        if dataset.dtype.kind != "f":
            raise FormatError(f"{place} holds {dataset.dtype}; it must hold floating-point numbers")
        # HDF5 converts what is stored as float64, float16 or with the bytes the other way round.
        values = np.empty(dataset.shape, dtype=np.float32)
        dataset.read_direct(values)
    tensor = torch.from_numpy(values)
    check_finite(tensor, place)
    return tensor


PathLike = str | Path


def read_model(
    options: PathLike, weights: PathLike, embedding: PathLike | None = None
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Read a whole model: its config, and its state_dict.

    The config is completed with what only the weight file knows, the number of softmax words and
    of words in a word-input model's table. With an `embedding` file the model takes words, not
    characters, even if its options describe characters: so does the original code.
    """
    config = read_options(options)
    if embedding is not None:
        config = replace(config, encoder=WordEncoderConfig(words=UNCOUNTED_WORDS))
    config = _complete(config, weights, embedding)
    return config, read_weights(weights, config, embedding)


def read_options(path: PathLike) -> ModelConfig:
    """Read options.json; settings this package has no use for are passed over.

    Where the options do not tell a word-input model's number of words, it is a placeholder until
    `read_model` counts them in the weight file. The softmax too is seen there only.
    """
    return parse_options(read_object(path), path)


def write_options(config: ModelConfig, path: PathLike) -> None:
    """Write options.json as AllenNLP and the original code read it at prediction."""
    with write_atomically(path) as temporary:
        write_object(options_of(config), temporary)


def read_weights(
    path: PathLike, config: ModelConfig, embedding_path: PathLike | None = None
) -> dict[str, Tensor]:
    """Read weights.hdf5 into the state_dict of a model of this config, float32.

    Args:
        path: The weight file. Datasets that the config has no place for are passed over.
        config: Its options; see `read_model` for a word-input model or one with a softmax.
        embedding_path: A second file that holds a word-input model's table of word vectors.
    """
    everything = parts(config)
    if embedding_path is None:
        return _read_parts(path, config, everything)
    table = [part for part in everything if part.dataset == EMBEDDING]
    others = [part for part in everything if part.dataset != EMBEDDING]
    return _read_parts(embedding_path, config, table) | _read_parts(path, config, others)


def write_weights(state_dict: Mapping[str, Tensor], config: ModelConfig, path: PathLike) -> None:
    """Write a state_dict as weights.hdf5; reading it gives the same numbers, bit by bit.

    Row 0 of the characters or words, which stands for padding, has no place in the file.
    """
    wrong = state_dict_misfit(state_dict, config)
    if wrong:
        raise InputError(f"{path}: not written; the weights do not fit the config: {wrong}")
    with write_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        for part in parts(config):
            kept = [state_dict[key].detach().to("cpu", torch.float32) for key in part.keys]
            stored = part.layout.write(*kept)
            check_finite(stored, f"{path}: not written; {', '.join(part.keys)}")
            file.create_dataset(part.dataset, data=stored.numpy())


def read_cached_vocabulary(path: PathLike) -> Tensor:
    """Read the token vectors of a vocabulary, (words, size), in its order; no row is padding."""
    with open_hdf5(path) as file:
        shape = shape_of(file, EMBEDDING)
        if shape is None or len(shape) != 2 or 0 in shape:
            found = "it is missing" if shape is None else f"it is {shape}"
            raise FormatError(f"{path}: {EMBEDDING} must be (words, size) but {found}")
        return read_floats(file, EMBEDDING)


def write_cached_vocabulary(vectors: Tensor | np.ndarray, path: PathLike) -> None:
    """Write the token vectors of a vocabulary, (words, size), in its order and without padding."""
    table = torch.as_tensor(vectors).detach().to("cpu", torch.float32)
    if table.dim() != 2:
        raise InputError(f"the vectors are {tuple(table.shape)}; they must be (words, size)")
    check_finite(table, f"{path}: not written; the table")
    with write_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset(EMBEDDING, data=table.numpy())


def _complete(config: ModelConfig, weights: PathLike, embedding: PathLike | None) -> ModelConfig:
    """Count the words of the softmax, and of a word-input model, in the weight file."""
    with open_hdf5(weights) as file, naming(weights):
        # Either dataset will do: if only one is there, reading says that the other is missing.
        rows = _rows_of(file, "softmax/W") or _rows_of(file, "softmax/b")
        config = replace(config, softmax_words=rows)
    if not isinstance(config.encoder, WordEncoderConfig):
        return config
    table = weights if embedding is None else embedding
    with open_hdf5(table) as file, naming(table):
        words = _rows_of(file, EMBEDDING)
        if words is None:
            return config
        return replace(config, encoder=replace(config.encoder, words=words))


def _read_parts(path: PathLike, config: ModelConfig, wanted: list[Dataset]) -> dict[str, Tensor]:
    """Check the shapes of all wanted datasets, then read them."""
    with open_hdf5(path) as file:
        names = {part.dataset: _name_in(file, part) for part in wanted}
        _check_shapes(file, path, config, names)
        _check_leftovers(file, path, config)
        state_dict: dict[str, Tensor] = {}
        for part in wanted:
            tensors = part.layout.read(read_floats(file, names[part.dataset]))
            state_dict |= {
                key: tensor.contiguous() for key, tensor in zip(part.keys, tensors, strict=True)
            }
    return state_dict


def _check_shapes(
    file: h5py.File, path: PathLike, config: ModelConfig, names: Mapping[str, str]
) -> None:
    """Refuse the file, in one error, for all datasets that are missing or of another shape."""
    shapes = dataset_shapes(config)
    expected = {name: shapes[name] for name in names}
    found = {name: shape_of(file, actual) for name, actual in names.items()}
    there = {name: shape for name, shape in found.items() if shape is not None}
    wrong = misfit(expected, there)
    if not wrong:
        return
    if any(there[name] != expected[name] for name in there):
        reason = "the options and the weights do not belong together"
    else:
        reason = "the file is incomplete, or the options are another model's"
    raise FormatError(f"{path}: {reason}: {wrong}")


def _check_leftovers(file: h5py.File, path: PathLike, config: ModelConfig) -> None:
    """Refuse or report parts of a model that the options leave unused."""
    projections = [
        part.dataset
        for part in parts_without_place(config)
        if shape_of(file, _name_in(file, part)) is not None
    ]
    if projections:
        # The original code passes such a projection over and AllenNLP applies it.
        raise FormatError(
            f"{path}: has {grouped(projections)}, a projection between equal sizes, "
            "which is not supported; check dim, projection_dim and filters in the options"
        )
    for name in _parts_beyond(config):
        if shape_of(file, name) is not None:
            warnings.warn(
                f"{path}: has {name}, which the options do not use; are they the same model's?",
                ElmoWarning,
                stacklevel=4,
            )


def _parts_beyond(config: ModelConfig) -> Iterator[str]:
    """The next filter, highway and layer after those of the config."""
    if isinstance(config.encoder, CharacterEncoderConfig):
        yield f"CNN/W_cnn_{len(config.encoder.filters)}"
        yield f"CNN_high_{config.encoder.highways}/W_carry"
    yield f"RNN_0/RNN/MultiRNNCell/Cell{config.lstm_layers}/LSTMCell/W_0"


def _name_in(file: h5py.File, part: Dataset) -> str:
    """What this file calls a part."""
    if part.other_name is not None and shape_of(file, part.dataset) is None:
        return part.other_name
    return part.dataset


def _rows_of(file: h5py.File, name: str) -> int | None:
    """The first dimension of a dataset; None when there is none of that name."""
    shape = shape_of(file, name)
    return None if shape is None else (*shape, 0)[0]
