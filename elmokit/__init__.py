"""ELMo for today: contextual word vectors on PyTorch 2."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmokit.config import ModelConfig
    from elmokit.embedder import Embedder
    from elmokit.errors import ConfigError, ElmoError, ElmoWarning, FormatError, InputError
    from elmokit.language_model import LanguageModel
    from elmokit.model.bilm import BiLM
    from elmokit.model.elmo import Elmo
    from elmokit.model.scalar_mix import ScalarMix
    from elmokit.text.characters import batch_to_ids

__version__ = "0.1.0"

# Imported when first used: torch takes a second, and `elmo --help` does not need it.
_HOMES = {
    "BiLM": "elmokit.model.bilm",
    "ConfigError": "elmokit.errors",
    "Elmo": "elmokit.model.elmo",
    "ElmoError": "elmokit.errors",
    "ElmoWarning": "elmokit.errors",
    "Embedder": "elmokit.embedder",
    "FormatError": "elmokit.errors",
    "InputError": "elmokit.errors",
    "LanguageModel": "elmokit.language_model",
    "ModelConfig": "elmokit.config",
    "ScalarMix": "elmokit.model.scalar_mix",
    "batch_to_ids": "elmokit.text.characters",
}

__all__ = [
    "BiLM",
    "ConfigError",
    "Elmo",
    "ElmoError",
    "ElmoWarning",
    "Embedder",
    "FormatError",
    "InputError",
    "LanguageModel",
    "ModelConfig",
    "ScalarMix",
    "batch_to_ids",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
