"""Objective of pretraining, -log p of each word in both directions, and its optimisers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adagrad, AdamW, Optimizer

from elmokit.config import Precision
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMStack, LSTMState
from elmokit.model.products import has_bfloat16
from elmokit.model.softmax import Candidates, Softmax, draw_candidates, sampled_loss
from elmokit.pretraining.batches import BACKWARD, FORWARD, Batch, Side
from elmokit.pretraining.config import TrainingConfig

ORTHOGONAL = ("input_weight", "recurrent_weight", "projection_weight", "projection.weight")
"""How the names of weights end that Muon changes: matrices of LSTMs and projections."""
MOMENTUM = 0.95
QUINTIC = (3.4445, -4.7750, 2.0315)
"""Of the iteration: they bring small singular values up fast, and leave large ones near one."""
ITERATIONS = 5


SECOND_WORD = "second_word"
"""Name of the weights that predict the word after next; a model is stored without."""


class Objective(nn.Module):
    """The loss of a batch, and the state that the next one continues from.

    With `multi_token`, an output predicts the word after next too, by the same softmax, after a
    matrix of its direction (multi-token prediction, Gloeckle et al. 2024). Only gradients know of
    it: the losses that are returned are those of the next word.
    """

    def __init__(self, bilm: BiLM, training: TrainingConfig) -> None:
        super().__init__()
        if bilm.softmax is None:
            raise InputError("this model has no softmax, so it cannot be trained to predict words")
        if training.samples and not isinstance(bilm.softmax, Softmax):
            raise InputError("an adaptive softmax is not sampled; leave training.samples out")
        self.bilm = bilm
        self.softmax = bilm.softmax
        self.dropout = training.dropout
        self.samples = min(training.samples or 0, bilm.config.softmax_words or 0)
        self.seed = training.seed
        self.wants_bfloat16 = training.precision == "bfloat16"
        self.multi_token = training.multi_token
        if self.multi_token:
            size = bilm.config.token_size
            zeros = next(bilm.parameters()).detach().new_zeros(2, size, size)
            # Part of the model while it is trained: optimiser, checkpoints and clipping have it.
            self.second_word = bilm.second_word = nn.Parameter(zeros)

    def forward(self, batch: Batch, state: BiLMState, step: int) -> tuple[Tensor, BiLMState]:
        """Losses of a batch, summed over its targets in each direction, (2,); and its last state.

        No gradient passes back through the states.
        """
        device = state.forward.cells.device
        in_bfloat16 = self.wants_bfloat16 and has_bfloat16(device)
        dtype = torch.bfloat16 if in_bfloat16 else None
        with torch.autocast(device.type, torch.bfloat16, enabled=in_bfloat16):
            token_vectors = self.bilm.encoder(batch.words.to(device)).float()
        losses, states = [], []
        for direction, lstm, side, before in (
            (FORWARD, self.bilm.forward_lstm, batch.forward, state.forward),
            (BACKWARD, self.bilm.backward_lstm, batch.backward, state.backward),
        ):
            outputs, after = self.read(lstm, token_vectors, side, batch.step_sizes, before)
            states.append(after)
            targets = side.targets.to(device)
            candidates = self.candidates(step, direction) if self.samples else None
            loss = self.loss(outputs, targets, candidates, dtype)
            if self.multi_token:
                sizes = batch.step_sizes
                steps = zip(torch.split(outputs, sizes), [*sizes[1:], 0], strict=True)
                earlier = torch.cat([step_outputs[:size] for step_outputs, size in steps])
                earlier = earlier + earlier @ self.second_word[direction]
                second = self.loss(earlier, targets[sizes[0] :], candidates, dtype)
                loss = loss + self.multi_token * (second - second.detach())
            losses.append(loss)
        return torch.stack(losses), BiLMState(*states).detach()

    def loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        candidates: Candidates | None,
        dtype: torch.dtype | None,
    ) -> Tensor:
        """Loss of targets, summed; by a sampled softmax where there are candidates."""
        if candidates is None:
            return self.softmax.loss(outputs, targets, dtype)
        assert isinstance(self.softmax, Softmax)  # checked when the objective was made
        return sampled_loss(self.softmax, outputs, targets, candidates, dtype)

    def read(
        self,
        lstm: LSTMStack,
        token_vectors: Tensor,
        side: Side,
        step_sizes: list[int],
        state: LSTMState,
    ) -> tuple[Tensor, LSTMState]:
        """Top outputs (tokens, token_size) of one direction, and its state after the batch."""
        # embedding, not an index: its gradient adds up a word's occurrences many times faster.
        inputs = functional.embedding(side.inputs.to(token_vectors.device), token_vectors)
        precision: Precision = "fast" if self.wants_bfloat16 else "exact"
        carried = None if side.carried is None else side.carried.to(inputs)
        layers, after = lstm(inputs, step_sizes, state, precision, self.dropout, carried)
        return functional.dropout(layers[-1], self.dropout), after

    def candidates(self, step: int, direction: int) -> Candidates:
        """One draw per direction and step: the same for all rows and processes."""
        generator = np.random.default_rng([self.seed, step, direction])
        return draw_candidates(generator, self.samples, len(self.softmax.bias))  # type: ignore[arg-type]


def make_optimiser(model: nn.Module, training: TrainingConfig) -> Optimizer:
    """The run's optimiser of all weights that are not frozen."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    if training.optimiser == "adagrad":
        return Adagrad(
            weights.values(),
            lr=training.learning_rate,
            initial_accumulator_value=training.adagrad_start,
            eps=1e-10,
        )
    ends = ORTHOGONAL if training.optimiser == "muon" else ()
    orthogonal = [weight for name, weight in weights.items() if name.endswith(ends)]
    rest = [weight for name, weight in weights.items() if not name.endswith(ends)]
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


class AveragedWeights:
    """An average of a model's weights: their plain mean, until forgetting at `rate` is slower."""

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
        load_weights(model, self.weights)
        try:
            yield
        finally:
            load_weights(model, own)


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, leaving each where the optimiser knows it."""
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])
