"""Everything that training depends on, out of a trainer and back into it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from elmokit.formats.checkpoints import Checkpoint, named, prefixed
from elmokit.formats.optimiser_memory import optimiser_tensors, restore_optimiser
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMState
from elmokit.pretraining.distributed import Group
from elmokit.pretraining.progress import Progress, Sums

if TYPE_CHECKING:
    from elmokit.pretraining.training import Trainer

MODEL, AVERAGE, OPTIMISER, STATE = "model.", "average.", "optimiser.", "state."
"""What the names of a checkpoint's tensors begin with."""


def take(trainer: Trainer) -> Checkpoint:
    """A checkpoint of all processes; each must take part, the leading one saves it."""
    sums = trainer.joined_sums()
    # The sums of all are the leader's now: added up again, nothing may count twice.
    trainer.sums = sums if trainer.group.leads else Sums()
    tensors: dict[str, Tensor] = {}
    tensors |= prefixed(MODEL, trainer.bilm.named_parameters())
    tensors |= prefixed(OPTIMISER, optimiser_tensors(trainer.optimiser, trainer.bilm).items())
    progress = trainer.progress
    if trainer.average is not None:
        tensors |= prefixed(AVERAGE, trainer.average.weights.items())
        progress = progress._replace(averaged_steps=trainer.average.steps)
    if trainer.training.mode == "stream":
        tensors |= prefixed(STATE, joined_states(trainer.states, trainer.group))
    values: dict[str, Any] = {"progress": progress._asdict(), "sums": sums._asdict()}
    values["progress"]["best"] = None if math.isinf(progress.best) else progress.best
    return Checkpoint(progress.step, tensors, values | trainer.facts)


def put_back(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Give a trainer what `take` took, on as many processes as there are now."""
    progress = checkpoint.values["progress"]
    best = math.inf if progress["best"] is None else progress["best"]
    trainer.progress = Progress(**{**progress, "best": best})
    trainer.sums = Sums(**checkpoint.values["sums"]) if trainer.group.leads else Sums()
    load_weights(trainer.bilm, named(checkpoint, MODEL))
    restore_optimiser(trainer.optimiser, trainer.bilm, named(checkpoint, OPTIMISER))
    if trainer.average is not None:
        trainer.average.steps = trainer.progress.averaged_steps
        for name, value in named(checkpoint, AVERAGE).items():
            trainer.average.weights[name].copy_(value)
    if trainer.training.mode == "stream":
        rows = named(checkpoint, STATE)
        device = trainer.group.device
        trainer.states = [own_state(rows, part, device) for part in trainer.reader.parts]


def final_weights(checkpoint: Checkpoint, averaged: bool) -> dict[str, Tensor]:
    """The weights that a run gives its user."""
    return named(checkpoint, AVERAGE if averaged else MODEL)


@torch.no_grad()
def load_weights(bilm: BiLM, weights: dict[str, Tensor]) -> None:
    """Copy weights into a model, leaving each where the optimiser knows it."""
    for name, weight in bilm.named_parameters():
        weight.copy_(weights[name])


def joined_states(states: list[BiLMState], group: Group) -> Iterable[tuple[str, Tensor]]:
    """The states of all rows of all processes, part by part."""
    for direction in BiLMState._fields:
        for part in LSTMState._fields:
            own = [getattr(getattr(state, direction), part) for state in states]
            yield f"{direction}.{part}", group.join_rows(torch.cat(own, dim=1))


def own_state(tensors: dict[str, Tensor], rows: range, device: torch.device) -> BiLMState:
    """The state of some rows, out of that of all."""
    return BiLMState(
        *(
            LSTMState(
                *(
                    tensors[f"{direction}.{part}"][:, rows.start : rows.stop]
                    .contiguous()
                    .to(device)
                    for part in LSTMState._fields
                )
            )
            for direction in BiLMState._fields
        )
    )
