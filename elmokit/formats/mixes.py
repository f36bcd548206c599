"""A task's trained mix of layers, as a small JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch

from elmokit.config import ModelConfig
from elmokit.errors import FormatError, InputError
from elmokit.io.files import read_object, write_atomically, write_object
from elmokit.model.scalar_mix import DirectionalMix, Join, ScalarMix
from elmokit.text.characters import short

FORMAT = "elmokit-mix"
VERSION = 1
LARGEST = 3.4e38
"""Where float32 ends."""


def read_mix(path: str | Path, config: ModelConfig) -> ScalarMix | DirectionalMix:
    """Read a mix of the layers of a model of this shape."""
    values = _read_values(path)
    layers = values.get("layers")
    if layers != config.layer_count or isinstance(layers, bool):
        raise FormatError(
            f"{path}: layers is {layers!r}; it must be {config.layer_count}, as the model has"
        )
    mix: ScalarMix | DirectionalMix
    if "join" in values:
        weights = _weights(values, 2 * config.layer_count - 1, path)
        mix = DirectionalMix(config.layer_count, join=_join(values, path), weights=weights)
    else:
        weights = _weights(values, config.layer_count, path)
        layer_norm = values.get("layer_norm")
        if not isinstance(layer_norm, bool):
            raise FormatError(f"{path}: layer_norm is {layer_norm!r}; it must be true or false")
        mix = ScalarMix(config.layer_count, layer_norm=layer_norm, weights=weights)
    with torch.no_grad():
        mix.gamma.fill_(_number(values.get("gamma"), "gamma", path))
    return mix


def write_mix(mix: ScalarMix | DirectionalMix, path: str | Path) -> None:
    """Write a mix: its weights as they are, before any softmax, and gamma.

    A `DirectionalMix` has `join` in place of `layer_norm`, and 2L + 1 weights.
    """
    weights, gamma = mix.weights.tolist(), mix.gamma.item()
    if not all(map(math.isfinite, (*weights, gamma))):
        raise InputError(f"{path}: the mix has weights that are no numbers, and is not written")
    kind = {"join": mix.join} if isinstance(mix, DirectionalMix) else {"layer_norm": mix.layer_norm}
    contents = {
        "format": FORMAT,
        "version": VERSION,
        "layers": mix.layers,
        "weights": weights,
        "gamma": gamma,
        **kind,
    }
    with write_atomically(path) as temporary:
        write_object(contents, temporary)


def _read_values(path: str | Path) -> dict[str, Any]:
    """Read the file, refusing other formats, other versions and settings that nobody knows."""
    values = read_object(path)
    if values.get("format") != FORMAT:
        raise FormatError(f"{path}: format is {values.get('format')!r}; it must be {FORMAT!r}")
    version = values.get("version")
    if version != VERSION or isinstance(version, bool):
        raise FormatError(f"{path}: version is {version!r}; this elmokit reads version {VERSION}")
    known = ("format", "version", "layers", "weights", "gamma", "layer_norm", "join")
    unknown = [name for name in values if name not in known]
    if unknown:
        raise FormatError(f"{path}: unknown setting {unknown[0]!r}; known: {', '.join(known)}")
    if "join" in values and "layer_norm" in values:
        raise FormatError(f"{path}: has both join and layer_norm; no mix has both")
    return values


def _weights(values: Mapping[str, Any], count: int, path: str | Path) -> list[float]:
    weights = values.get("weights")
    if not isinstance(weights, list) or len(weights) != count:
        found = f"{len(weights)} numbers" if isinstance(weights, list) else short(weights)
        raise FormatError(f"{path}: weights is {found}; it must be a list of {count} numbers")
    return [_number(weight, "weights", path) for weight in weights]


def _number(value: object, name: str, path: str | Path) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= LARGEST:  # type: ignore[arg-type]
        raise FormatError(f"{path}: {name} has {short(value)}; it must be a number")
    return float(value)  # type: ignore[arg-type]


def _join(values: Mapping[str, Any], path: str | Path) -> Join:
    join = values["join"]
    if join not in get_args(Join):
        raise FormatError(f"{path}: join is {short(join)}; it must be 'concat' or 'add'")
    return join
