"""Small random models in AllenNLP's file layout, written without the package they test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

CHARACTER_ROWS = 261  # whatever n_characters says: the file has no row for the padded word

Options = dict[str, Any]
Weights = dict[str, np.ndarray]


def random_options(
    *,
    layers: int = 2,
    cell: int = 24,
    projection: int = 8,
    skip: bool = True,
    activation: str = "relu",
    filters: Sequence[Sequence[int]] = ((1, 4), (2, 8), (3, 8)),
    highways: int = 2,
    character_size: int = 4,
    max_characters: int = 50,
    cell_clip: float | None = 3.0,
    proj_clip: float | None = 3.0,
    word_input: bool = False,
    n_characters: int = 262,
) -> Options:
    """The contents of options.json; a word-input model has no `char_cnn`."""
    options: Options = {
        "lstm": {
            "cell_clip": cell_clip,
            "dim": cell,
            "n_layers": layers,
            "proj_clip": proj_clip,
            "projection_dim": projection,
            "use_skip_connections": skip,
        }
    }
    if not word_input:
        options["char_cnn"] = {
            "activation": activation,
            "embedding": {"dim": character_size},
            "filters": [list(pair) for pair in filters],
            "max_characters_per_token": max_characters,
            "n_characters": n_characters,
            "n_highway": highways,
        }
    return options


def random_weights(
    options: Mapping[str, Any],
    seed: int = 0,
    words: int | None = None,
    softmax_words: int | None = None,
    scale: float = 1.0,
) -> Weights:
    """The datasets of weights.hdf5 by name; `words` is the height of a word-input model's table.

    At scale 1 a unit of the LSTM moves over most of its range without sticking to its ends.
    """
    random = np.random.default_rng(seed)
    weights: Weights = {}
    if "char_cnn" in options:
        weights |= character_encoder_weights(options, random, scale)
    else:
        if words is None:
            raise ValueError("a word-input model needs words=, the size of its vocabulary")
        weights["embedding"] = normal(random, (words, options["lstm"]["projection_dim"]), scale)
    weights |= lstm_weights(options, random, scale)
    if softmax_words is not None:
        weights |= softmax_weights(options, random, softmax_words, scale)
    return weights


def character_encoder_weights(
    options: Mapping[str, Any], random: np.random.Generator, scale: float
) -> Weights:
    """Embedding, convolutions, highways and, where the sizes differ, the projection."""
    char_cnn = options["char_cnn"]
    size = char_cnn["embedding"]["dim"]
    projection = options["lstm"]["projection_dim"]
    weights = {"char_embed": normal(random, (CHARACTER_ROWS, size), scale)}
    for number, (width, filters) in enumerate(char_cnn["filters"]):
        kernel = normal(random, (1, width, size, filters), scale / np.sqrt(width * size))
        weights[f"CNN/W_cnn_{number}"] = kernel
        # The maximum over positions sits well above zero: these let relu cut some units off.
        weights[f"CNN/b_cnn_{number}"] = normal(random, (filters,), 1.0) - np.float32(1.0)
    total = sum(filters for _, filters in char_cnn["filters"])
    for number in range(char_cnn.get("n_highway") or 0):
        for name in ("carry", "transform"):
            square = normal(random, (total, total), scale / np.sqrt(total))
            weights[f"CNN_high_{number}/W_{name}"] = square
            weights[f"CNN_high_{number}/b_{name}"] = normal(random, (total,), 0.5)
    if total != projection:
        weights["CNN_proj/W_proj"] = normal(random, (total, projection), scale / np.sqrt(total))
        weights["CNN_proj/b_proj"] = normal(random, (projection,), 0.3)
    return weights


def lstm_weights(options: Mapping[str, Any], random: np.random.Generator, scale: float) -> Weights:
    """Both stacks; no projection where the cells are as many as the outputs."""
    lstm = options["lstm"]
    cell, projection = lstm["dim"], lstm["projection_dim"]
    weights = {}
    for direction in (0, 1):
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            kernel = normal(random, (2 * projection, 4 * cell), scale / np.sqrt(projection))
            # A stronger recurrence is chaotic: it would blow float32's rounding up over the words.
            kernel[projection:] *= 0.5
            weights[f"{name}/W_0"] = kernel
            weights[f"{name}/B"] = normal(random, (4 * cell,), 0.5)
            if cell != projection:
                weights[f"{name}/W_P_0"] = normal(
                    random, (cell, projection), 2 * scale / np.sqrt(cell)
                )
    return weights


def softmax_weights(
    options: Mapping[str, Any], random: np.random.Generator, softmax_words: int, scale: float
) -> Weights:
    """The softmax that both directions share."""
    projection = options["lstm"]["projection_dim"]
    return {
        "softmax/W": normal(random, (softmax_words, projection), scale / np.sqrt(projection)),
        "softmax/b": normal(random, (softmax_words,), 0.1),
    }


def normal(random: np.random.Generator, shape: tuple[int, ...], spread: float) -> np.ndarray:
    """Normal values around zero, float32 as in the published files."""
    return (random.standard_normal(shape) * spread).astype(np.float32)


def write_files(
    folder: Path, options: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> tuple[Path, Path]:
    """Write options.json and weights.hdf5 into `folder`; returns their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    options_path = folder / "options.json"
    options_path.write_text(json.dumps(options), encoding="utf-8")
    weights_path = folder / "weights.hdf5"
    with h5py.File(weights_path, "w") as file:
        for name, values in weights.items():
            file.create_dataset(name, data=values)
    return options_path, weights_path


def read_files(options_path: Path, weights_path: Path) -> tuple[Options, Weights]:
    """Read what `write_files` wrote, or any published model of that layout."""
    options = json.loads(Path(options_path).read_text(encoding="utf-8"))
    weights: Weights = {}

    def keep(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            weights[name] = item[...]

    with h5py.File(weights_path, "r") as file:
        file.visititems(keep)
    return options, weights
