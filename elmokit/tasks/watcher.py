"""Callbacks of the training of a task: what it reports while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from elmokit.tasks.scores import Score


class StepReport(NamedTuple):
    """How far training is."""

    epoch: int  # the one under way, from 1
    epochs: int  # the most there will be
    batch: int  # batches done in this epoch
    batches: int
    loss: float  # mean over the examples of this epoch so far
    words_per_second: float
    seconds_left: float  # until the last epoch, if patience does not end it before


class EpochReport(NamedTuple):
    """What an epoch has come to."""

    epoch: int
    loss: float
    score: Score  # on dev
    best: bool
    seconds: float  # of its training


class Watcher:
    """Tells nobody anything: a base for those who do."""

    def note(self, message: str) -> None:
        """Something worth a line: what is read, what was resumed, what was held out."""

    def fetching(self, done: int, total: int | None) -> None:
        """Bytes of a model or of static vectors that have been read."""

    def layers(self, done: int, total: int | None) -> None:
        """Words whose layers have been computed."""

    def step(self, report: StepReport) -> None:
        """A batch is done."""

    def epoch(self, report: EpochReport) -> None:
        """An epoch is done, and dev was scored."""
