"""Everything that a task's training depends on, out of a trainer and back into it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from elmokit.formats.checkpoints import Checkpoint, named, prefixed
from elmokit.formats.optimiser_memory import optimiser_tensors, restore_optimiser
from elmokit.tasks.config import TrainingConfig

if TYPE_CHECKING:
    from elmokit.tasks.training import Trainer

CHECKPOINTS = "checkpoints"
"""The folder of them, in that of a run."""
MODEL, OPTIMISER = "model.", "optimiser."
"""What the names of a checkpoint's tensors begin with."""


class Progress(NamedTuple):
    """What a run has come to; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0  # epochs that are done
    batch: int = 0  # batches done in the epoch under way
    loss: float = 0.0  # summed over the examples of that epoch
    examples: int = 0  # of that epoch
    words: int = 0  # in all
    seconds: float = 0.0  # of training alone: scoring and saving are not counted
    epoch_started: float = 0.0  # the seconds at which the epoch under way began
    seconds_scoring: float = 0.0  # dev, after the epochs that are done
    seconds_in_all: float = 0.0  # of all sittings up to the last checkpoint, reading included
    rate: float = 1.0  # what the learning rates are multiplied by
    best: float = -math.inf  # score on dev
    best_epoch: int = 0
    epochs_since_best: int = 0

    def is_over(self, training: TrainingConfig) -> bool:
        """Whether all epochs are done, or patience has run out."""
        return self.epoch >= training.epochs or self.is_out_of_patience(training)

    def is_out_of_patience(self, training: TrainingConfig) -> bool:
        """Whether the score was not better for too many epochs."""
        return self.epochs_since_best >= training.patience

    @property
    def mean_loss(self) -> float:
        """Of an example in the epoch under way."""
        return self.loss / self.examples if self.examples else math.nan


def take(trainer: Trainer) -> Checkpoint:
    """A checkpoint of a trainer."""
    tensors = prefixed(MODEL, learnt(trainer.model).items())
    tensors |= prefixed(OPTIMISER, optimiser_tensors(trainer.optimiser, trainer.model).items())
    progress = trainer.progress._asdict()
    progress["best"] = None if math.isinf(trainer.progress.best) else trainer.progress.best
    return Checkpoint(trainer.progress.step, tensors, {"progress": progress, **trainer.facts})


def put_back(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Give a trainer what `take` took."""
    progress = checkpoint.values["progress"]
    best = -math.inf if progress["best"] is None else progress["best"]
    trainer.progress = Progress(**{**progress, "best": best})
    load_learnt(trainer.model, checkpoint)
    restore_optimiser(trainer.optimiser, trainer.model, named(checkpoint, OPTIMISER))


def learnt(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: not a frozen table of static vectors, which may be large."""
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


@torch.no_grad()
def load_learnt(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Copy weights into a model, leaving each where the optimiser knows it."""
    weights = named(checkpoint, MODEL)
    for name, value in learnt(model).items():
        value.copy_(weights[name])


def fingerprint_of(examples: Iterable[Any]) -> str:
    """SHA-256 of examples, which are dataclasses, wherever they were read."""
    sha256 = hashlib.sha256()
    for example in examples:
        values = {name: value for name, value in asdict(example).items() if name != "place"}
        sha256.update(json.dumps(values, sort_keys=True).encode())
    return sha256.hexdigest()
