"""What a run has come to: for people, for programs, as files and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.json_files import write_object
from elmokit.formats.metrics_log import METRICS, read_metrics
from elmokit.plurals import counted
from elmokit.tasks.checkpoints import Progress
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.plots import draw_confusion, draw_curves, draw_mix
from elmokit.tasks.reports import MixReport, errors_text
from elmokit.tasks.saved_task import TrainedTask
from elmokit.tasks.watcher import Watcher

RESULTS, REPORT = "results.json", "report.txt"
CURVES, MIX, CONFUSION = "curves.png", "mix.png", "confusion.png"


class TaskResult(NamedTuple):
    """What a run has come to."""

    folder: Path
    config: TaskConfig
    dev: Evaluation
    test: Evaluation | None
    mixes: list[MixReport]
    progress: Progress
    examples: dict[str, int]
    seconds_in_all: float  # of all sittings, each from its first file to its last score
    trained: TrainedTask

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "task": self.config.name,
            "dev": self.dev.score.to_dict(),
            "test": None if self.test is None else self.test.score.to_dict(),
            "mixes": [mix.to_dict() for mix in self.mixes],
            "examples": self.examples,
            "epochs": self.progress.epoch,
            "best_epoch": self.progress.best_epoch,
            "words": self.progress.words,
            "seconds": self.progress.seconds,
            "seconds_in_all": self.seconds_in_all,
            "config": self.config.to_dict(),
        }

    def describe(self) -> str:
        """A few lines: scores, mixes, where it is."""
        lines = [f"dev: {self.dev.score.describe()}"]
        if self.test is not None:
            lines.append(f"test: {self.test.score.describe()}")
        lines += [mix.table() for mix in self.mixes]
        lines.append(
            f"best of {counted(self.progress.epoch, 'epoch')}: {self.progress.best_epoch}; "
            f"{self.progress.seconds:,.1f} seconds of training, {self.seconds_in_all:,.1f} in all"
        )
        lines.append(f"the trained task is in {self.folder}")
        return "\n".join(lines)

    def report(self) -> str:
        """All there is to say, for a file."""
        parts = [self.describe(), f"dev, in detail:\n\n{errors_text(self.dev)}"]
        if self.test is not None:
            parts.append(f"test, in detail:\n\n{errors_text(self.test)}")
        return "\n\n".join(parts) + "\n"


def write_results(result: TaskResult, watcher: Watcher) -> None:
    """Write the trained task, its scores and, where they can be drawn, its pictures."""
    result.trained.save(result.folder)
    with write_atomically(result.folder / RESULTS) as temporary:
        write_object(result.to_dict(), temporary)
    with write_atomically(result.folder / REPORT) as temporary:
        temporary.write_text(result.report(), encoding="utf-8")
    try:
        draw(result)
    except InputError as error:
        watcher.note(f"no pictures are drawn: {error}")


def draw(result: TaskResult) -> None:
    """Draw the curves, the mixes and the confusions."""
    folder, name = result.folder, result.config.name
    draw_curves(read_metrics(folder / METRICS), folder / CURVES, title=name)
    which, shown = ("dev", result.dev) if result.test is None else ("test", result.test)
    if shown.confusion is not None:
        draw_confusion(shown.confusion, folder / CONFUSION, title=f"{name}, {which}")
    if result.mixes:
        draw_mix(result.mixes, folder / MIX, title=name)
