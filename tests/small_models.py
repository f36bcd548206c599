"""Small models in memory, for tests that need no file."""

from __future__ import annotations

from typing import Any

import torch

from elmokit import BiLM, Embedder, ModelConfig
from elmokit.config import CharacterEncoderConfig

ENCODER = CharacterEncoderConfig(filters=((1, 4), (2, 6), (3, 8)), character_size=4, highways=1)


def small_config(**changes: Any) -> ModelConfig:
    settings: dict[str, Any] = {
        "encoder": ENCODER,
        "token_size": 6,
        "cell_size": 10,
        "lstm_layers": 2,
        "cell_clip": 3.0,
        "projection_clip": 3.0,
    }
    return ModelConfig(**(settings | changes))


def small_bilm(seed: int = 0, scale: float = 1.5, **changes: Any) -> BiLM:
    """A random model whose gates are lively and words unequally likely, unlike a freshly made one.

    At twice the scale its states are chaotic: over thirty words rounding grows to a thousandth.
    """
    torch.manual_seed(seed)
    bilm = BiLM(small_config(**changes))
    with torch.no_grad():
        for parameter in (*bilm.forward_lstm.parameters(), *bilm.backward_lstm.parameters()):
            if parameter.dim() == 2:
                parameter.mul_(scale)
            else:
                parameter.uniform_(-0.5, 0.5)
        if bilm.softmax is not None:
            for parameter in bilm.softmax.parameters():
                parameter.mul_(4.0)
    return bilm


def small_embedder(seed: int = 0, **settings: Any) -> Embedder:
    return Embedder(small_bilm(seed), **({"tokenizer": "whitespace"} | settings))
