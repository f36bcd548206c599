"""Small models in memory or on disk; those with a softmax know a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from elmokit import BiLM, Embedder, ModelConfig
from elmokit.config import CharacterEncoderConfig
from elmokit.formats.native import SavedModel, write_model
from elmokit.inference.language_model import LanguageModel
from elmokit.text.vocabulary import Vocabulary

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


# On disk


def small_saved_model(
    tokenizer: str = "default", vocabulary: Vocabulary | None = None, **changes: Any
) -> SavedModel:
    bilm = small_bilm(**changes)
    return SavedModel(bilm.config, bilm.state_dict(), tokenizer, vocabulary)


def write_small_model(folder: Path, tokenizer: str = "default", **changes: Any) -> str:
    """A model folder; gives its path."""
    write_model(folder, small_saved_model(tokenizer, **changes))
    return str(folder)


# Language models


WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", ".", "dog", "river", "bank"]
COUNTS = [50, 50, 30, 90, 20, 10, 40, 5, 50, 15, 3, 4]
COUNTED = Vocabulary(WORDS, COUNTS)


def small_language_model(
    vocabulary: Vocabulary = COUNTED, seed: int = 0, **changes: Any
) -> LanguageModel:
    bilm = small_bilm(seed, softmax_words=len(vocabulary), **changes)
    return LanguageModel(bilm, vocabulary, tokenizer="whitespace")


def write_language_model(folder: Path, vocabulary: Vocabulary = COUNTED) -> str:
    """A model folder with a softmax; gives its path."""
    return write_small_model(folder, vocabulary=vocabulary, softmax_words=len(vocabulary))
