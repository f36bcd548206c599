"""From gradients to weights: optimisers, schedules, and the average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, AdamW, Optimizer

from elmokit.pretraining.config import TrainingConfig


def make_optimiser(model: nn.Module, training: TrainingConfig) -> Optimizer:
    """The run's optimiser of all weights that are not frozen."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if training.optimiser == "adagrad":
        return Adagrad(
            weights,
            lr=training.learning_rate,
            initial_accumulator_value=training.adagrad_start,
            eps=1e-10,
        )
    matrices = [weight for weight in weights if weight.dim() > 1]
    vectors = [weight for weight in weights if weight.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=training.learning_rate, betas=training.betas, fused=True)


def learning_rate(training: TrainingConfig, step: int, steps: int) -> float:
    """The rate of step number `step`, from 0, of `steps` in all."""
    if step < training.warmup_steps:
        return training.learning_rate * (step + 1) / training.warmup_steps
    if training.schedule == "constant":
        return training.learning_rate
    # A trapezoid can be trained on from any step before its fall, since those do not know `steps`.
    falling = steps * training.falling_share if training.schedule == "trapezoid" else steps
    first = max(training.warmup_steps, steps - falling)
    done = min(1.0, max(0.0, step - first) / max(1, steps - first))
    left = (1 + math.cos(math.pi * done)) / 2 if training.schedule == "cosine" else 1 - done
    return training.learning_rate * (training.final_rate + (1 - training.final_rate) * left)


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    """Use this rate from the next step on."""
    for group in optimiser.param_groups:
        group["lr"] = rate


class AveragedWeights:
    """An average of a model's weights over the last steps: often better than the last ones.

    It starts as the plain mean of the weights so far, and forgets at `rate` once that is slower.
    """

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.rate = rate
        self.steps = 0
        self.weights = {name: value.detach().clone() for name, value in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after one more step."""
        self.steps += 1
        share = max(1 - self.rate, 1 / (self.steps + 1))
        current = [value.detach() for value in model.parameters()]
        torch._foreach_lerp_(list(self.weights.values()), current, share)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Put the average in the place of the model's weights, for the time of a block."""
        own = {name: value.detach().clone() for name, value in model.named_parameters()}
        self._copy(self.weights, model)
        try:
            yield
        finally:
            self._copy(own, model)

    @torch.no_grad()
    def _copy(self, weights: Mapping[str, Tensor], model: nn.Module) -> None:
        for name, value in model.named_parameters():
            value.copy_(weights[name])
