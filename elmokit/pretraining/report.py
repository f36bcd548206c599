"""Callbacks of a training run: what it reports while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from elmokit.inference.predictions import Perplexity


class TrainingReport(NamedTuple):
    """How far training is."""

    step: int
    steps: int
    epoch: float
    words: int  # seen so far in this and earlier sittings
    words_per_second: float
    seconds_left: float
    loss_forward: float  # per target; among the candidates where the softmax is sampled
    loss_backward: float
    sampled: bool


class Report:
    """Tells nobody anything: a base for those who do."""

    def preparing(self, done: int, total: int | None) -> None:
        """Bytes of text that have been prepared."""

    def note(self, message: str) -> None:
        """Something worth a line: what is read, what was resumed, what was saved."""

    def training(self, report: TrainingReport) -> None:
        """Some steps of training are done."""

    def validation(self, step: int, perplexity: Perplexity, best: bool) -> None:
        """The held-out text was read."""
