"""From gradients to weights: optimisers, schedules, and the average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, AdamW, Optimizer

from elmokit.pretraining.config import TrainingConfig

ORTHOGONAL = ("input_weight", "recurrent_weight", "projection_weight", "projection.weight")
"""How the names of weights end that Muon changes."""
MOMENTUM = 0.95
QUINTIC = (3.4445, -4.7750, 2.0315)
"""Of the iteration: they bring small singular values up fast, and leave large ones near one."""
ITERATIONS = 5


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
    orthogonal = orthogonal_weights(model) if training.optimiser == "muon" else []
    rest = [weight for weight in weights if not any(weight is one for one in orthogonal)]
    matrices = [weight for weight in rest if weight.dim() > 1]
    vectors = [weight for weight in rest if weight.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw: dict[str, Any] = {"lr": training.learning_rate, "betas": training.betas, "fused": True}
    if training.optimiser == "adamw":
        return AdamW(groups, **adamw)
    groups.append({"params": orthogonal, "weight_decay": training.weight_decay})
    return Muon(groups, training.muon_rate / training.learning_rate, **adamw)


def orthogonal_weights(model: nn.Module) -> list[nn.Parameter]:
    """What Muon changes: the matrices of LSTMs and projections that are not frozen."""
    return [
        weight
        for name, weight in model.named_parameters()
        if weight.requires_grad and name.endswith(ORTHOGONAL)
    ]


class Muon(AdamW):
    """AdamW, but for its last group of matrices, which change by orthogonal matrices (Jordan 2024).

    A change is Nesterov's momentum with all its singular values near one. The four gates of an LSTM
    are matrices of their own. `ratio` is the rate of these matrices, per rate of AdamW.
    """

    def __init__(self, groups: list[dict[str, Any]], ratio: float, **adamw: Any) -> None:
        super().__init__(groups, **adamw)
        self.ratio = ratio

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Change all weights once; gradients of Muon's matrices are used up."""
        group = self.param_groups[-1]
        rate = group["lr"] * self.ratio
        weights = [weight for weight in group["params"] if weight.grad is not None]
        for weight in weights:
            memory = self.state[weight]
            if not memory:
                # AdamW looks for a step in whatever memory it loads.
                memory |= {"step": torch.tensor(0.0), "momentum": torch.zeros_like(weight)}
            memory["step"] += 1
            momentum = memory["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
            change = orthogonal(matrices_of(weight.grad.lerp(momentum, MOMENTUM)))
            rows, columns = change.shape[-2:]
            # As large a change of each output, whatever the shape.
            scale = math.sqrt(max(1.0, rows / columns))
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(change.reshape(weight.shape), alpha=-rate * scale)
            weight.grad = None  # so that AdamW passes it over
        return super().step(closure)


def matrices_of(weight: Tensor) -> Tensor:
    """The gates (4, cells, inputs) of an LSTM, stacked in its weight; else the matrix (1, …)."""
    rows, columns = weight.shape
    gates = 4 if rows > 4 * columns else 1
    return weight.view(gates, rows // gates, columns)


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest orthogonal matrices (n, rows, columns), roughly: singular values of 0.7 to 1.2.

    Newton and Schulz's iteration X ← X (a + b XᵀX + c (XᵀX)²), made with the smaller of the two
    squares XᵀX alone; X is multiplied once, at the end.
    """
    if matrices.shape[-2] < matrices.shape[-1]:
        return orthogonal(matrices.mT).mT
    a, b, c = QUINTIC
    matrices = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    square = matrices.mT @ matrices
    product = torch.eye(square.shape[-1]).to(square)
    for _ in range(ITERATIONS):
        factor = torch.baddbmm(square, square, square, beta=b, alpha=c)
        factor.diagonal(dim1=-2, dim2=-1).add_(a)
        product = product @ factor
        square = factor @ square @ factor
    return matrices @ product


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
