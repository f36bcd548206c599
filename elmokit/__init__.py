"""ELMo for today: contextual word vectors on PyTorch 2.

The names here and those of `elmokit.adaptors` are what programs may rely on; all other modules may
move at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmokit.analysis.neighbours.build import build_index as build_index
    from elmokit.analysis.neighbours.index import NeighbourIndex as NeighbourIndex
    from elmokit.bulk.pipeline import embed_files as embed_files
    from elmokit.config import CharacterEncoderConfig as CharacterEncoderConfig
    from elmokit.config import ModelConfig as ModelConfig
    from elmokit.errors import ElmoError as ElmoError
    from elmokit.errors import ElmoWarning as ElmoWarning
    from elmokit.formats.convert import convert_model as convert_model
    from elmokit.inference.embedder import Embedder as Embedder
    from elmokit.inference.language_model import LanguageModel as LanguageModel
    from elmokit.inference.lookup import CachedEmbedder as CachedEmbedder
    from elmokit.jobs.progress import Observer as Observer
    from elmokit.model.bilm import BiLM as BiLM
    from elmokit.model.elmo import Elmo as Elmo
    from elmokit.pretraining.config import PretrainConfig as PretrainConfig
    from elmokit.pretraining.config import read_run as read_run
    from elmokit.pretraining.run import pretrain as pretrain
    from elmokit.static.vectors import StaticVectors as StaticVectors
    from elmokit.tasks.catalogue import task_config as task_config
    from elmokit.tasks.run import train_task as train_task
    from elmokit.tasks.srl.propositions import WithPredicates as WithPredicates
    from elmokit.tasks.trained import TrainedTask as TrainedTask
    from elmokit.text.characters import batch_to_ids as batch_to_ids
    from elmokit.text.vocabulary import Vocabulary as Vocabulary
    from elmokit.vectors.files import open_vectors as open_vectors
    from elmokit.vectors.files import write_vectors as write_vectors

__version__ = "0.2.0"

# Imported when first used: torch takes a second, and `elmo --help` does not need it.
_HOMES = {
    "BiLM": "elmokit.model.bilm",
    "CachedEmbedder": "elmokit.inference.lookup",
    "CharacterEncoderConfig": "elmokit.config",
    "Elmo": "elmokit.model.elmo",
    "ElmoError": "elmokit.errors",
    "ElmoWarning": "elmokit.errors",
    "Embedder": "elmokit.inference.embedder",
    "LanguageModel": "elmokit.inference.language_model",
    "ModelConfig": "elmokit.config",
    "NeighbourIndex": "elmokit.analysis.neighbours.index",
    "Observer": "elmokit.jobs.progress",
    "PretrainConfig": "elmokit.pretraining.config",
    "StaticVectors": "elmokit.static.vectors",
    "TrainedTask": "elmokit.tasks.trained",
    "Vocabulary": "elmokit.text.vocabulary",
    "WithPredicates": "elmokit.tasks.srl.propositions",
    "batch_to_ids": "elmokit.text.characters",
    "build_index": "elmokit.analysis.neighbours.build",
    "convert_model": "elmokit.formats.convert",
    "embed_files": "elmokit.bulk.pipeline",
    "open_vectors": "elmokit.vectors.files",
    "pretrain": "elmokit.pretraining.run",
    "read_run": "elmokit.pretraining.config",
    "task_config": "elmokit.tasks.catalogue",
    "train_task": "elmokit.tasks.run",
    "write_vectors": "elmokit.vectors.files",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
