"""What AllenNLP calls the weights of a biLM in the task models that people saved with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from elmokit.model.lstm import FORGET_BIAS

Renamed = dict[str, Tensor]

ENCODER = r"_token_embedder\."
LAYER = r"_elmo_lstm\.(forward|backward)_layer_(\d+)\."
DERIVED = re.compile(ENCODER + r"_(beginning|end)_of_sentence_characters")
CACHED_WORDS = "_word_embedding.weight"


def rename_weights(
    state_dict: dict[str, Any], old_prefix: str, new_prefix: str, *, keep_cached_words: bool
) -> None:
    """Replace the entries of an AllenNLP biLM by ours, in place; other entries stay.

    Its table of cached words is dropped, as it follows from the characters, unless it was trained.
    """
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        name = key.removeprefix(old_prefix)
        for pattern, rename in RENAMES:
            if found := re.fullmatch(pattern, name):
                renamed = rename(state_dict.pop(key), *found.groups())
                state_dict.update({new_prefix + new: part for new, part in renamed.items()})
        if DERIVED.fullmatch(name) or (name == CACHED_WORDS and not keep_cached_words):
            del state_dict[key]


def _characters(weight: Tensor) -> Renamed:
    return {"encoder.characters.weight": weight}


def _convolution(weight: Tensor, number: str, part: str) -> Renamed:
    return {f"encoder.convolutions.{number}.{part}": weight}


def _highway(weight: Tensor, number: str, part: str) -> Renamed:
    # AllenNLP gates the old value and we the new one: sigmoid(-x) == 1 - sigmoid(x).
    transform, gate = weight.chunk(2)
    highway = f"encoder.highways.{number}"
    return {f"{highway}.transform.{part}": transform, f"{highway}.gate.{part}": -gate}


def _projection(weight: Tensor, part: str) -> Renamed:
    return {f"encoder.projection.{part}": weight}


def _input(weight: Tensor, direction: str, layer: str) -> Renamed:
    return {f"{direction}_lstm.layers.{layer}.input_weight": _reordered(weight)}


def _recurrent(weight: Tensor, direction: str, layer: str) -> Renamed:
    return {f"{direction}_lstm.layers.{layer}.recurrent_weight": _reordered(weight)}


def _bias(bias: Tensor, direction: str, layer: str) -> Renamed:
    input_gate, forget_gate, *others = bias.chunk(4)
    # AllenNLP's bias contains what our LSTM adds when it runs.
    bias = torch.cat([input_gate, forget_gate - FORGET_BIAS, *others])
    return {f"{direction}_lstm.layers.{layer}.bias": _reordered(bias)}


def _lstm_projection(weight: Tensor, direction: str, layer: str) -> Renamed:
    return {f"{direction}_lstm.layers.{layer}.projection_weight": weight}


def _reordered(gates: Tensor) -> Tensor:
    """From AllenNLP's order i, f, j, o to ours: i, f, o, j."""
    i, f, j, o = gates.chunk(4)
    return torch.cat([i, f, o, j])


RENAMES: tuple[tuple[str, Callable[..., Renamed]], ...] = (
    (ENCODER + "_char_embedding_weights", _characters),
    (ENCODER + r"char_conv_(\d+)\.(weight|bias)", _convolution),
    (ENCODER + r"_highways\._layers\.(\d+)\.(weight|bias)", _highway),
    (ENCODER + r"_projection\.(weight|bias)", _projection),
    (LAYER + r"input_linearity\.weight", _input),
    (LAYER + r"state_linearity\.weight", _recurrent),
    (LAYER + r"state_linearity\.bias", _bias),
    (LAYER + r"state_projection\.weight", _lstm_projection),
)
