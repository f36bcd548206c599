"""A task's trained mix of layers, as a small JSON file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch

from elmokit.config import Count, ModelConfig, Settings, Within, make, naming
from elmokit.errors import FormatError, InputError
from elmokit.io.files import read_object, write_json
from elmokit.model.scalar_mix import DirectionalMix, Join, ScalarMix

Float32 = Annotated[float, Within(least=-3.4e38, most=3.4e38), "it must be a number"]


@dataclass(frozen=True)
class MixFile(Settings):
    """What the file has: weights as they are, before any softmax, and gamma.

    A `DirectionalMix` has `join` in place of `layer_norm`, and 2L + 1 weights.
    """

    format: Literal["elmokit-mix"]
    version: Literal[1]
    layers: Count
    weights: Annotated[tuple[Float32, ...], "it must be a list of numbers"]
    gamma: Float32
    layer_norm: bool | None = None
    join: Join | None = None


def read_mix(path: str | Path, config: ModelConfig) -> ScalarMix | DirectionalMix:
    """Read a mix of the layers of a model of this shape."""
    with naming(path):
        file = make(MixFile, read_object(path))
    if file.layers != config.layer_count:
        raise FormatError(
            f"{path}: layers is {file.layers}; it must be {config.layer_count}, as the model has"
        )
    if (file.join is None) == (file.layer_norm is None):
        raise FormatError(f"{path}: must have one of join and layer_norm")
    count = file.layers if file.join is None else 2 * file.layers - 1
    if len(file.weights) != count:
        raise FormatError(
            f"{path}: weights is {len(file.weights)} numbers; it must be a list of {count}"
        )
    mix: ScalarMix | DirectionalMix
    if file.join is None:
        mix = ScalarMix(file.layers, layer_norm=bool(file.layer_norm), weights=file.weights)
    else:
        mix = DirectionalMix(file.layers, join=file.join, weights=file.weights)
    with torch.no_grad():
        mix.gamma.fill_(file.gamma)
    return mix


def write_mix(mix: ScalarMix | DirectionalMix, path: str | Path) -> None:
    """Write a mix for `read_mix`."""
    weights, gamma = mix.weights.tolist(), mix.gamma.item()
    if not all(map(math.isfinite, (*weights, gamma))):
        raise InputError(f"{path}: the mix has weights that are not numbers, and is not written")
    kind = {"join": mix.join} if isinstance(mix, DirectionalMix) else {"layer_norm": mix.layer_norm}
    contents = {
        "format": "elmokit-mix",
        "version": 1,
        "layers": mix.layers,
        "weights": weights,
        "gamma": gamma,
        **kind,
    }
    write_json(path, contents)
