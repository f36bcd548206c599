"""What pretraining minimises: -log p of each word, given those before it and those after it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import Precision
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.lstm import LSTMStack, LSTMState
from elmokit.model.products import has_bfloat16
from elmokit.model.sampled_softmax import Candidates, draw_candidates, sampled_loss
from elmokit.model.softmax import Softmax
from elmokit.pretraining.batches import BACKWARD, FORWARD, Batch, Side
from elmokit.pretraining.config import TrainingConfig


class Losses(NamedTuple):
    """Sums over the targets of a batch."""

    forward: Tensor  # ()
    backward: Tensor  # ()


class Objective(nn.Module):
    """The loss of a batch, and the state that the next one continues from."""

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

    def forward(self, batch: Batch, state: BiLMState, step: int) -> tuple[Losses, BiLMState]:
        """Losses of a batch, read from a state that no gradient passes back through."""
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
            loss = self.loss(outputs, side.targets.to(device), step, direction, dtype)
            losses.append(loss)
            states.append(after)
        return Losses(*losses), BiLMState(*states).detach()

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

    def loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        step: int,
        direction: int,
        dtype: torch.dtype | None,
    ) -> Tensor:
        """Sum of -log p(target), (); with a sampled softmax, of p among the candidates."""
        if not self.samples:
            return self.softmax.loss(outputs, targets, dtype)
        assert isinstance(self.softmax, Softmax)  # checked when the objective was made
        candidates = self.candidates(step, direction)
        return sampled_loss(self.softmax, outputs, targets, candidates, dtype)

    def candidates(self, step: int, direction: int) -> Candidates:
        """One draw per direction and step: the same for all rows and processes."""
        generator = np.random.default_rng([self.seed, step, direction])
        return draw_candidates(generator, self.samples, len(self.softmax.bias))  # type: ignore[arg-type]
