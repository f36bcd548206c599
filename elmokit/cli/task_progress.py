"""How training a task, and asking it, is shown."""

from __future__ import annotations

from elmokit.cli.progress import Bytes, Progress, SoonShown
from elmokit.cli.training import Lines, duration
from elmokit.tasks.watcher import EpochReport, StepReport, Watcher


class Words(Progress):
    """Progress of computing layers."""

    unit = "word"


class WordsRead(SoonShown, Words):
    """Progress of predicting and of scoring."""

    first_line = "the first words are being read"

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done; with none of them the reading begins."""
        if not done:
            self.begin()
            return
        self.cancel_first_line()
        super().__call__(done, total)


class Shown(Lines, Watcher):
    """Shows how training goes."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._layers: Words | None = None
        self._fetching = Bytes("reading", quiet)

    def fetching(self, done: int, total: int | None) -> None:
        """Bytes of a model or of static vectors that have been read."""
        self._fetching(done, total)

    def layers(self, done: int, total: int | None) -> None:
        """Words whose layers have been computed."""
        if self._layers is None:
            self._layers = Words("computing ELMo's layers, once", self.quiet)
        self._layers(done, total)

    def step(self, report: StepReport) -> None:
        """A batch is done."""
        if self.due():
            self.line(
                f"epoch {report.epoch} of {report.epochs}, batch {report.batch:,} of "
                f"{report.batches:,}, loss {report.loss:.4f}, {report.words_per_second:,.0f} "
                f"words/s, at most {duration(report.seconds_left)} left",
                stays=not self.terminal,
            )

    def epoch(self, report: EpochReport) -> None:
        """An epoch is done, and dev was scored."""
        mark = ", the best so far" if report.best else ""
        self.line(
            f"epoch {report.epoch}: loss {report.loss:.4f}, dev {report.score.describe()}, "
            f"{duration(report.seconds)}{mark}"
        )
