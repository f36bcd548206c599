"""ELMo for today: contextual word vectors on PyTorch 2.

The names here and those of `elmokit.adaptors` are what programs may rely on; all other modules may
move at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmokit.analysis.neighbours.build import build_index
    from elmokit.analysis.neighbours.index import NeighbourIndex
    from elmokit.bulk.inputs import open_input
    from elmokit.bulk.pipeline import embed_files
    from elmokit.config import CharacterEncoderConfig, ModelConfig
    from elmokit.errors import ConfigError, ElmoError, ElmoWarning, FormatError, InputError
    from elmokit.formats.convert import convert_model
    from elmokit.inference.embedder import Embedder
    from elmokit.inference.language_model import LanguageModel
    from elmokit.inference.lookup import CachedEmbedder
    from elmokit.io.text_files import TextSettings
    from elmokit.model.bilm import BiLM
    from elmokit.model.elmo import Elmo
    from elmokit.model.scalar_mix import ScalarMix
    from elmokit.pretraining.config import PretrainConfig, read_run
    from elmokit.pretraining.run import pretrain
    from elmokit.static.vectors import StaticVectors
    from elmokit.tasks.catalogue import task_config
    from elmokit.tasks.run import train_task
    from elmokit.tasks.srl.propositions import WithPredicates
    from elmokit.tasks.trained import TrainedTask
    from elmokit.text.characters import batch_to_ids
    from elmokit.text.vocabulary import Vocabulary
    from elmokit.vectors.files import open_vectors, read_vectors, write_vectors
    from elmokit.vectors.items import VectorSettings

__version__ = "0.1.0"

# Imported when first used: torch takes a second, and `elmo --help` does not need it.
_HOMES = {
    "BiLM": "elmokit.model.bilm",
    "CachedEmbedder": "elmokit.inference.lookup",
    "CharacterEncoderConfig": "elmokit.config",
    "ConfigError": "elmokit.errors",
    "Elmo": "elmokit.model.elmo",
    "ElmoError": "elmokit.errors",
    "ElmoWarning": "elmokit.errors",
    "Embedder": "elmokit.inference.embedder",
    "FormatError": "elmokit.errors",
    "InputError": "elmokit.errors",
    "LanguageModel": "elmokit.inference.language_model",
    "ModelConfig": "elmokit.config",
    "NeighbourIndex": "elmokit.analysis.neighbours.index",
    "PretrainConfig": "elmokit.pretraining.config",
    "ScalarMix": "elmokit.model.scalar_mix",
    "StaticVectors": "elmokit.static.vectors",
    "TextSettings": "elmokit.io.text_files",
    "TrainedTask": "elmokit.tasks.trained",
    "VectorSettings": "elmokit.vectors.items",
    "Vocabulary": "elmokit.text.vocabulary",
    "WithPredicates": "elmokit.tasks.srl.propositions",
    "batch_to_ids": "elmokit.text.characters",
    "build_index": "elmokit.analysis.neighbours.build",
    "convert_model": "elmokit.formats.convert",
    "embed_files": "elmokit.bulk.pipeline",
    "open_input": "elmokit.bulk.inputs",
    "open_vectors": "elmokit.vectors.files",
    "pretrain": "elmokit.pretraining.run",
    "read_run": "elmokit.pretraining.config",
    "read_vectors": "elmokit.vectors.files",
    "task_config": "elmokit.tasks.catalogue",
    "train_task": "elmokit.tasks.run",
    "write_vectors": "elmokit.vectors.files",
}

__all__ = [
    "BiLM",
    "CachedEmbedder",
    "CharacterEncoderConfig",
    "ConfigError",
    "Elmo",
    "ElmoError",
    "ElmoWarning",
    "Embedder",
    "FormatError",
    "InputError",
    "LanguageModel",
    "ModelConfig",
    "NeighbourIndex",
    "PretrainConfig",
    "ScalarMix",
    "StaticVectors",
    "TextSettings",
    "TrainedTask",
    "VectorSettings",
    "Vocabulary",
    "WithPredicates",
    "batch_to_ids",
    "build_index",
    "convert_model",
    "embed_files",
    "open_input",
    "open_vectors",
    "pretrain",
    "read_run",
    "read_vectors",
    "task_config",
    "train_task",
    "write_vectors",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
