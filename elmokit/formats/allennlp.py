"""AllenNLP's models, and the original code's: options.json with weights.hdf5 or a checkpoint.

The options are the same settings as ours under other names.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmokit.config import (
    FILTERS,
    Activation,
    CharacterEncoderConfig,
    Count,
    CountOrZero,
    EncoderConfig,
    ModelConfig,
    Within,
    WordEncoderConfig,
    checked,
    naming,
)
from elmokit.errors import ConfigError, ElmoWarning, FormatError, InputError
from elmokit.formats.native import (
    SOFTMAX,
    Shape,
    check_finite,
    expected_shapes,
    misfit,
    state_dict_misfit,
)
from elmokit.formats.tf_checkpoint import TensorBundle, is_checkpoint
from elmokit.io.files import read_object, write_atomically, write_json
from elmokit.io.hdf5 import check_size, find_item, hdf5_damage, open_hdf5

MAX_CHARACTERS = 50  # what AllenNLP uses whatever its options say
CHARACTERS = (262, 261)
"""At prediction and in training: the padded word's zeros are counted, or not."""
UNCOUNTED_WORDS = 2
"""Words of a word-input model until they are counted in its weight file: the markers alone."""

Options = Mapping[str, Any]
Filters = Annotated[tuple[tuple[Count, Count], ...], FILTERS]
LstmClip = Annotated[
    float, Within(least=0, below=1e30), "it must be a positive number, or null for no clip"
]


def read_options(path: str | Path) -> ModelConfig:
    """Read options.json; settings this package has no use for are passed over.

    Where the options do not tell a word-input model's number of words, it is a placeholder until
    `allennlp.read_model` counts them in the weight file. The softmax too is seen there only.
    """
    options = read_object(path)
    with naming(path):
        lstm = value_of(options, "lstm", Options)
        return ModelConfig(
            encoder=_encoder(options),
            token_size=value_of(lstm, "lstm.projection_dim", Count),
            cell_size=value_of(lstm, "lstm.dim", Count),
            lstm_layers=value_of(lstm, "lstm.n_layers", Count, 1),
            # 0 means no clip too, as AllenNLP reads it.
            cell_clip=value_of(lstm, "lstm.cell_clip", LstmClip, None) or None,
            projection_clip=value_of(lstm, "lstm.proj_clip", LstmClip, None) or None,
            # Absent means no, as in the original training code.
            skip_connections=value_of(lstm, "lstm.use_skip_connections", bool, False),
        )


def write_options(config: ModelConfig, path: str | Path) -> None:
    """Write options.json as AllenNLP and the original code read it at prediction.

    `read_options` gives the config back, but for what options have no name for: the number of
    softmax words, which the weight file shows, and the sentence markers of a word-input model,
    which its vocabulary shows.
    """
    options: dict[str, Any] = {
        "lstm": {
            "use_skip_connections": config.skip_connections,
            "projection_dim": config.token_size,
            "cell_clip": _shortest(config.cell_clip),
            "proj_clip": _shortest(config.projection_clip),
            "dim": config.cell_size,
            "n_layers": config.lstm_layers,
        }
    }
    if isinstance(config.encoder, WordEncoderConfig):
        options["n_tokens_vocab"] = config.encoder.words
    else:
        options["char_cnn"] = {
            "activation": config.encoder.activation,
            "filters": [list(pair) for pair in config.encoder.filters],
            "n_highway": config.encoder.highways,
            "embedding": {"dim": config.encoder.character_size},
            "n_characters": CHARACTERS[0],
            "max_characters_per_token": config.encoder.max_characters,
        }
    write_json(path, options)


def _encoder(options: Options) -> EncoderConfig:
    if "char_cnn" not in options:
        # Training options know the number of words; others leave it to the weight file.
        return WordEncoderConfig(words=value_of(options, "n_tokens_vocab", Count, UNCOUNTED_WORDS))
    characters = value_of(options, "char_cnn", Options)
    # The weight file has 261 rows in either case.
    value_of(characters, "char_cnn.n_characters", Literal[CHARACTERS], CHARACTERS[0])
    embedding = value_of(characters, "char_cnn.embedding", Options)
    return CharacterEncoderConfig(
        filters=value_of(characters, "char_cnn.filters", Filters),
        character_size=value_of(embedding, "char_cnn.embedding.dim", Count),
        max_characters=value_of(
            characters, "char_cnn.max_characters_per_token", Count, MAX_CHARACTERS
        ),
        highways=value_of(characters, "char_cnn.n_highway", CountOrZero, 0),
        activation=value_of(characters, "char_cnn.activation", Activation),
    )


def value_of(section: Options, name: str, kind: Any, *default: Any) -> Any:
    """A setting by its complete path; absent and null mean its default, if it has one."""
    value = section.get(name.rpartition(".")[2])
    if value is not None:
        return checked(name, value, kind)
    if not default:
        raise ConfigError(f"{name} is missing; is this the options file of a biLM?")
    return default[0]


def _shortest(clip: float | None) -> float | None:
    """The same number, written 3 rather than 3.0, as in the published options."""
    if clip is None or math.isinf(clip):  # JSON knows no infinity, and an infinite clip is none
        return None
    return int(clip) if float(clip).is_integer() else clip


PathLike = str | Path

LARGE_GIGABYTES = 1.0
EMBEDDING = "embedding"  # table of word vectors: word-input models and cached vocabularies have one


class DatasetLayout(NamedTuple):
    """How a dataset holds tensors of the state_dict."""

    read: Callable[[Tensor], tuple[Tensor, ...]]  # from the dataset to the tensors
    write: Callable[..., Tensor]  # from the tensors to the dataset
    shape: Callable[..., Shape] = lambda kept: kept  # from the tensors' shapes to the dataset's


def our_gates(stored: Tensor) -> Tensor:
    """Four gates side by side, in the file's order i, j, f, o, where we have i, f, o, j.

    TensorFlow adds 1 to the forget gate when it runs, not in the file, and so does our LSTM: the
    numbers are the same on both sides.
    """
    i, j, f, o = stored.chunk(4)
    return torch.cat([i, f, o, j])


def their_gates(kept: Tensor) -> Tensor:
    """The inverse of `our_gates`."""
    i, f, o, j = kept.chunk(4)
    return torch.cat([i, j, f, o])


AS_IT_IS = DatasetLayout(lambda stored: (stored,), lambda kept: kept)
# The file multiplies `x @ W`, torch `x @ W.T`.
TRANSPOSED = DatasetLayout(lambda stored: (stored.T,), lambda kept: kept.T, lambda kept: kept[::-1])
# Filters over a picture one character high, (1, width, character_size, filters), where ours are
# (filters, character_size, width).
CONVOLUTION = DatasetLayout(
    lambda stored: (stored.squeeze(0).permute(2, 1, 0),),
    lambda kept: kept.permute(2, 1, 0).unsqueeze(0),
    lambda kept: (1, *kept[::-1]),
)
# Our row 0, all zeros for a padded word, is not in the file.
WITHOUT_PADDING = DatasetLayout(
    lambda stored: (functional.pad(stored, (0, 0, 1, 0)),),
    lambda kept: kept[1:],
    lambda kept: (kept[0] - 1, *kept[1:]),
)
GATES = DatasetLayout(lambda stored: (our_gates(stored),), their_gates)
# Input weights above recurrent ones, (input + recurrent, 4 * cell); both equally high.
GATE_WEIGHTS = DatasetLayout(
    lambda stored: our_gates(stored.T).chunk(2, dim=1),
    lambda *kept: their_gates(torch.cat(kept, dim=1)).T,
    lambda *kept: (sum(width for _, width in kept), kept[0][0]),
)


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and the tensors of the state_dict that it holds."""

    dataset: str
    layout: DatasetLayout
    keys: tuple[str, ...]
    other_name: str | None = None  # what else the dataset may be called


def parts(config: ModelConfig) -> dict[Dataset, Shape | None]:
    """The datasets of a model of this config, with their shapes.

    A projection between equal sizes has none: some files may have one, this config has no place
    for it.
    """
    shapes = expected_shapes(config)
    return {
        part: part.layout.shape(*(shapes[key] for key in part.keys))
        if part.keys[0] in shapes
        else None
        for part in _possible_parts(config)
    }


def _possible_parts(config: ModelConfig) -> Iterator[Dataset]:
    """Every dataset, the projections included that equal sizes do without."""
    if isinstance(config.encoder, WordEncoderConfig):
        yield Dataset(EMBEDDING, WITHOUT_PADDING, ("encoder.words.weight",))
    elif isinstance(config.encoder, CharacterEncoderConfig):
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


class Hdf5Datasets:
    """The datasets of an open HDF5 file."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self._stored = Path(file.filename).stat().st_size
        self._taken = 0  # bytes: many datasets may each be small enough
        self._find = cache(partial(find_item, file))  # each way down a file takes h5py its time

    def shape(self, name: str) -> Shape | None:
        """The shape of a dataset; None when there is none of that name."""
        with hdf5_damage(self.file.filename):
            return getattr(self._find(name), "shape", None)  # groups have none

    def read(self, name: str) -> Tensor:
        """A dataset of floating-point numbers as float32; anything else raises."""
        place = f"{self.file.filename}: {name}"
        with hdf5_damage(self.file.filename):
            dataset = self._find(name)
            if dataset.dtype.kind != "f":
                raise FormatError(
                    f"{place} holds {dataset.dtype}; it must hold floating-point numbers"
                )
            self._taken = check_size(dataset, self._stored, self._taken)
            # HDF5 converts what is stored as float64, float16 or with the bytes the other way.
            values = np.empty(dataset.shape, dtype=np.float32)
            dataset.read_direct(values)
        tensor = torch.from_numpy(values)
        check_finite(tensor, place)
        return tensor


Datasets = Hdf5Datasets | TensorBundle  # weights by the names that AllenNLP's files have


@contextmanager
def open_weights(path: PathLike) -> Iterator[Datasets]:
    """Open an HDF5 file, or a checkpoint by its name or that of one of its files."""
    if is_checkpoint(path):
        yield TensorBundle(path)
        return
    with open_hdf5(path) as file:
        yield Hdf5Datasets(file)


def read_model(
    options: PathLike | None,
    weights: PathLike,
    embedding: PathLike | None = None,
    *,
    softmax: bool = True,
    softmax_weights: PathLike | None = None,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Read a complete model: its config, and its state_dict.

    `weights` is an HDF5 file or a checkpoint; without options the shapes of its weights have to
    tell. `softmax_weights` is another file that has the softmax.

    The config is completed with what only the weight file knows, the number of softmax words and
    of words in a word-input model's table. With an `embedding` file the model takes words, not
    characters, even if its options describe characters: so does the original code.
    """
    config = guess_config(weights) if options is None else read_options(options)
    if embedding is not None:
        config = replace(config, encoder=WordEncoderConfig(words=UNCOUNTED_WORDS))
    config = _complete(config, embedding or weights, softmax_weights or weights)
    if softmax:
        warn_of_size(config, weights)
    return config, read_weights(
        weights, config, embedding, softmax=softmax, softmax_path=softmax_weights
    )


def read_weights(
    path: PathLike,
    config: ModelConfig,
    embedding_path: PathLike | None = None,
    *,
    softmax: bool = True,
    softmax_path: PathLike | None = None,
) -> dict[str, Tensor]:
    """Read weights.hdf5 into the state_dict of a model of this config, float32.

    Datasets that the config has no place for are passed over. A word-input model's table of word
    vectors, and the softmax, may be in files of their own.
    """
    files: dict[PathLike, dict[Dataset, Shape | None]] = {path: {}}
    for part, shape in parts(config).items():
        of_softmax = part.keys[0].startswith(SOFTMAX)
        other = embedding_path if part.dataset == EMBEDDING else None
        if softmax or not of_softmax:
            file = (softmax_path if of_softmax else other) or path
            files.setdefault(file, {})[part] = shape
    state_dict: dict[str, Tensor] = {}
    for file, wanted in files.items():
        state_dict |= _read_parts(file, config, wanted)
    return state_dict


def warn_of_size(config: ModelConfig, path: PathLike) -> None:
    """State the memory that a large softmax needs, before it is read."""
    gigabytes = (config.softmax_words or 0) * (config.token_size + 1) * 4 / 1e9
    if gigabytes >= LARGE_GIGABYTES:
        warnings.warn(
            f"{path}: the softmax of {config.softmax_words:,} words takes {gigabytes:.1f} GB of "
            f"memory, and about {4 * gigabytes:.0f} GB where it is trained",
            ElmoWarning,
            stacklevel=4,
        )


def guess_config(weights: PathLike) -> ModelConfig:
    """The config that the shapes of weights tell, the rest as in all published models; it warns."""
    with open_weights(weights) as file, naming(weights):
        if not (isinstance(file, TensorBundle) and file.is_module):
            raise FormatError(f"{weights}: its options.json is missing; name it: OPTIONS WEIGHTS")
        filters = list(takewhile_found(file, "CNN/W_cnn_{}"))
        layers = list(takewhile_found(file, "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/W_0"))
        characters = file.shape("char_embed")
        if characters is None or not filters or not layers:
            raise FormatError(
                f"{weights}: is no module with a biLM of characters; name its options.json"
            )
        warnings.warn(
            f"{weights}: has no options.json; what its shapes do not tell is taken to be as in the "
            "published models: relu, clips of 3, skip connections, 50 characters per word",
            ElmoWarning,
            stacklevel=4,
        )
        return ModelConfig(
            encoder=CharacterEncoderConfig(
                filters=tuple((shape[1], shape[-1]) for shape in filters),
                character_size=characters[-1],
                highways=len(list(takewhile_found(file, "CNN_high_{}/W_carry"))),
            ),
            token_size=layers[0][0] // 2,
            cell_size=layers[0][-1] // 4,
            lstm_layers=len(layers),
            cell_clip=3.0,
            projection_clip=3.0,
        )


def takewhile_found(file: Datasets, name: str) -> Iterator[Shape]:
    """The shapes of datasets whose names have the numbers 0, 1, ... up to one that is not there."""
    for number in count():
        shape = file.shape(name.format(number))
        if not shape:
            return
        yield shape


def contents_of(path: PathLike) -> str:
    """What an HDF5 file holds: "weights", "softmax", "embedding", or "vectors" of sentences."""
    with open_hdf5(path) as file, hdf5_damage(path):
        for name, what in (("RNN_0", "weights"), ("softmax", "softmax"), (EMBEDDING, EMBEDDING)):
            if find_item(file, name) is not None:
                return what
        found = find_item(file, "0") or find_item(file, "sentence_to_index")
        return "nothing" if found is None else "vectors"


def write_weights(state_dict: Mapping[str, Tensor], config: ModelConfig, path: PathLike) -> None:
    """Write a state_dict as weights.hdf5, exact to the bit, without the row 0 of padding."""
    wrong = state_dict_misfit(state_dict, config)
    if wrong:
        raise InputError(f"{path}: not written; the weights do not fit the config: {wrong}")
    with write_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        for part, shape in parts(config).items():
            if shape is None:
                continue
            kept = [state_dict[key].detach().to("cpu", torch.float32) for key in part.keys]
            stored = part.layout.write(*kept)
            check_finite(stored, f"{path}: not written; {', '.join(part.keys)}")
            file.create_dataset(part.dataset, data=stored.numpy())


def write_cached_vocabulary(vectors: Tensor, path: PathLike) -> None:
    """Write the token vectors of a vocabulary, (words, size), in its order and without padding."""
    check_finite(vectors, f"{path}: not written; the table")
    with write_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset(EMBEDDING, data=vectors.numpy())


def _complete(config: ModelConfig, table: PathLike, softmax: PathLike) -> ModelConfig:
    """Count the words of the softmax, and of a word-input model, in the files that have them."""
    with open_weights(softmax) as file, naming(softmax):
        # Either dataset will do: if only one is there, reading says that the other is missing.
        rows = _rows_of(file, "softmax/W") or _rows_of(file, "softmax/b")
        config = replace(config, softmax_words=rows)
    if not isinstance(config.encoder, WordEncoderConfig):
        return config
    with open_weights(table) as file, naming(table):
        words = _rows_of(file, EMBEDDING)
        if words is None:
            return config
        return replace(config, encoder=replace(config.encoder, words=words))


def _read_parts(
    path: PathLike, config: ModelConfig, possible: Mapping[Dataset, Shape | None]
) -> dict[str, Tensor]:
    """Check the shapes of all datasets that are wanted, then read them."""
    state_dict: dict[str, Tensor] = {}
    with open_weights(path) as file:
        names = {part: _name_in(file, part) for part in possible}
        found = {part: file.shape(name) for part, name in names.items()}
        wanted = {part: shape for part, shape in possible.items() if shape is not None}
        _check_shapes(path, wanted, found)
        unused = [part for part in found if part not in wanted and found[part] is not None]
        _check_leftovers(file, path, config, [part.dataset for part in unused])
        for part in wanted:
            tensors = part.layout.read(file.read(names[part]))
            state_dict |= {
                key: tensor.contiguous() for key, tensor in zip(part.keys, tensors, strict=True)
            }
    return state_dict


def _check_shapes(
    path: PathLike, wanted: Mapping[Dataset, Shape], found: Mapping[Dataset, Shape | None]
) -> None:
    """Raise one error for all datasets that are missing or of another shape."""
    expected = {part.dataset: shape for part, shape in wanted.items()}
    there = {part.dataset: shape for part in wanted if (shape := found[part]) is not None}
    wrong = misfit(expected, there)
    if not wrong:
        return
    if not there and not is_checkpoint(path) and (what := contents_of(path)) != "weights":
        raise FormatError(f"{path}: holds {what}, not the weights of a model; name its weights too")
    if any(there[name] != expected[name] for name in there):
        reason = "the options and the weights do not belong together"
    else:
        reason = "the file is incomplete, or the options are another model's"
    raise FormatError(f"{path}: {reason}: {wrong}")


def _check_leftovers(
    file: Datasets, path: PathLike, config: ModelConfig, projections: list[str]
) -> None:
    """Raise or warn where the options leave parts of a model unused."""
    if projections:
        # The original code passes such a projection over and AllenNLP applies it.
        raise FormatError(
            f"{path}: has {', '.join(projections)}, a projection between equal sizes, "
            "which is not supported; check dim, projection_dim and filters in the options"
        )
    for name in _parts_beyond(config):
        if file.shape(name) is not None:
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


def _name_in(file: Datasets, part: Dataset) -> str:
    """What this file calls a part."""
    if part.other_name is not None and file.shape(part.dataset) is None:
        return part.other_name
    return part.dataset


def _rows_of(file: Datasets, name: str) -> int | None:
    """The first dimension of a dataset; None when there is none of that name."""
    shape = file.shape(name)
    return None if shape is None else (*shape, 0)[0]
