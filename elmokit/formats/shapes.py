"""What a biLM's state_dict holds: each tensor's shape, and one line on what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from elmokit.config import CHARACTERS, CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import FormatError
from elmokit.model.softmax import cluster_size

Shape = tuple[int, ...]

SHOWN = 5
"""Shapes that one message compares: options of another model differ in every one."""


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """The shape of every tensor in the state_dict of a model of this config, by name."""
    shapes = _encoder_shapes(config)
    for direction in ("forward", "backward"):
        for layer in range(config.lstm_layers):
            shapes |= _lstm_shapes(config, f"{direction}_lstm.layers.{layer}")
    return shapes | _softmax_shapes(config)


def _encoder_shapes(config: ModelConfig) -> dict[str, Shape]:
    if isinstance(config.encoder, WordEncoderConfig):
        # One row more than words: row 0 is the padding.
        return {"encoder.words.weight": (config.encoder.words + 1, config.token_size)}
    return _character_encoder_shapes(config.encoder, config.token_size)


def _character_encoder_shapes(encoder: CharacterEncoderConfig, token_size: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"encoder.characters.weight": (CHARACTERS, encoder.character_size)}
    for number, (width, filters) in enumerate(encoder.filters):
        name = f"encoder.convolutions.{number}"
        shapes[f"{name}.weight"] = (filters, encoder.character_size, width)
        shapes[f"{name}.bias"] = (filters,)
    count = encoder.filter_count
    for number in range(encoder.highways):
        for part in ("gate", "transform"):
            shapes[f"encoder.highways.{number}.{part}.weight"] = (count, count)
            shapes[f"encoder.highways.{number}.{part}.bias"] = (count,)
    if count != token_size:
        shapes["encoder.projection.weight"] = (token_size, count)
        shapes["encoder.projection.bias"] = (token_size,)
    return shapes


def _lstm_shapes(config: ModelConfig, name: str) -> dict[str, Shape]:
    gates = 4 * config.cell_size
    shapes: dict[str, Shape] = {
        f"{name}.input_weight": (gates, config.token_size),
        f"{name}.recurrent_weight": (gates, config.token_size),
        f"{name}.bias": (gates,),
    }
    if config.has_projection:
        shapes[f"{name}.projection_weight"] = (config.token_size, config.cell_size)
    return shapes


def _softmax_shapes(config: ModelConfig) -> dict[str, Shape]:
    words, cutoffs, size = config.softmax_words, config.softmax_cutoffs, config.token_size
    if words is None:
        return {}
    if not cutoffs:
        return _linear_shapes("softmax", words, size)
    shapes = _linear_shapes("softmax.head", cutoffs[0] + len(cutoffs), size)
    for number, (start, end) in enumerate(pairwise([*cutoffs, words])):
        name = f"softmax.clusters.{number}"
        smaller = cluster_size(size, config.softmax_division, number + 1)
        shapes[f"{name}.project.weight"] = (smaller, size)
        shapes |= _linear_shapes(f"{name}.softmax", end - start, smaller)
    return shapes


def _linear_shapes(name: str, outputs: int, inputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def misfit(expected: Mapping[str, Shape], found: Mapping[str, Shape]) -> str:
    """Say what is missing, of another shape, or not expected; empty if everything fits."""
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    others = [
        f"{name} is {found[name]} instead of {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    findings = [f"missing {grouped(missing)}"] if missing else []
    findings += others[:SHOWN]
    if len(others) > SHOWN:
        findings.append(f"{len(others) - SHOWN} more are of another shape")
    if unexpected:
        findings.append(f"unexpected {grouped(unexpected)}")
    return "; ".join(findings)


def state_dict_misfit(state_dict: Mapping[str, Tensor], config: ModelConfig) -> str:
    """Say what keeps these weights from being a model of this config; empty if nothing does."""
    found = {name: tuple(tensor.shape) for name, tensor in state_dict.items()}
    return misfit(expected_shapes(config), found)


def check_finite(values: Tensor, place: str) -> None:
    """Refuse NaN and infinity: one such weight makes every vector NaN."""
    if not bool(torch.isfinite(values).all()):
        raise FormatError(
            f"{place} holds NaN or infinite values; it is damaged, or its training diverged"
        )


def grouped(names: Iterable[str]) -> str:
    """Write names shortly, their common folder once.

    >>> grouped(["CNN/W_cnn_0", "CNN/b_cnn_0", "char_embed"])
    'CNN/{W_cnn_0, b_cnn_0}, char_embed'
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        folder, separator, last = name.rpartition("/" if "/" in name else ".")
        groups.setdefault(folder + separator, []).append(last)
    return ", ".join(
        folder + (last[0] if len(last) == 1 else "{" + ", ".join(last) + "}")
        for folder, last in groups.items()
    )
