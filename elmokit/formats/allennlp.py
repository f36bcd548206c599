"""Models as AllenNLP and the original TensorFlow code keep them: options.json and weights.hdf5."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.formats.allennlp_options import (
    UNCOUNTED_WORDS,
    naming,
    options_of,
    parse_options,
)
from elmokit.formats.allennlp_parts import (
    EMBEDDING,
    Part,
    dataset_shapes,
    parts,
    parts_without_place,
)
from elmokit.formats.files import write_atomically
from elmokit.formats.hdf5 import open_hdf5, read_floats, shape_of
from elmokit.formats.json_files import read_object, write_object
from elmokit.formats.shapes import check_finite, grouped, misfit, state_dict_misfit

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


def _read_parts(path: PathLike, config: ModelConfig, wanted: list[Part]) -> dict[str, Tensor]:
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


def _name_in(file: h5py.File, part: Part) -> str:
    """What this file calls a part."""
    if part.other_name is not None and shape_of(file, part.dataset) is None:
        return part.other_name
    return part.dataset


def _rows_of(file: h5py.File, name: str) -> int | None:
    """The first dimension of a dataset; None when there is none of that name."""
    shape = shape_of(file, name)
    return None if shape is None else (*shape, 0)[0]
