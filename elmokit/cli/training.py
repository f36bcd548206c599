"""What the commands that train share: flags, and how training is shown."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.options import Function, add_options, device_options
from elmokit.cli.progress import SECONDS_BETWEEN_LINES, Passes
from elmokit.pretraining.report import Report, TrainingReport

if TYPE_CHECKING:
    from elmokit.prediction import Perplexity


def training_options(function: Function) -> Function:
    """Add the flags that every training run takes."""
    return add_options(
        function,
        click.option(
            "--valid",
            multiple=True,
            metavar="FILES",
            help="Held-out text: a file, folder or pattern. Can be given several times.",
        ),
        click.option("--resume", is_flag=True, help="Go on where the run in FOLDER stopped."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Change a setting, such as training.rows=64; NAME= takes it away. Can be "
            "given several times.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(min=1),
            metavar="N",
            help="How many prepare the text. Without it: one per CPU.",
        ),
        device_options,
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    )


def settings_of(
    settings: tuple[str, ...], example: str = "training.rows=64", /, **more: Any
) -> dict[str, Any]:
    """Settings by dotted name, those of flags of their own where they are given.

    `example` is one that the command has, for what is said about those that are none.
    """
    from elmokit.settings import parse_setting

    named = {name.replace("__", "."): value for name, value in more.items()}
    given = {name: value for name, value in named.items() if value not in (None, [])}
    return dict(parse_setting(setting, example) for setting in settings) | given


class Lines:
    """A line that renews itself on a terminal, plain lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self._shown = 0.0
        self._open_line = False

    def due(self) -> bool:
        """Whether the last line that does not stay is old enough for another."""
        now = time.monotonic()
        if now - self._shown < SECONDS_BETWEEN_LINES[self.terminal]:
            return False
        self._shown = now
        return True

    def note(self, message: str) -> None:
        """Something worth a line."""
        self.line(message)

    def line(self, text: str, stays: bool = True) -> None:
        """Write a line, over the one that does not stay."""
        if self.quiet:
            return
        if self.terminal:
            # A line that wraps could not be written over.
            width = shutil.get_terminal_size().columns - 1
            text = "\r" + (text if stays else text[:width]).ljust(width)
        click.echo(text, err=True, nl=stays)
        self._open_line = not stays

    def close(self) -> None:
        """Leave the cursor at the start of a line."""
        if self._open_line:
            click.echo(err=True)


class Shown(Lines, Report):
    """Shows a run."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._preparing = Passes("preparing the text", quiet)

    def preparing(self, done: int, total: int | None) -> None:
        """Bytes of text that have been prepared."""
        self._preparing(done, total)

    def training(self, report: TrainingReport) -> None:
        """Some steps of training are done."""
        if not self.due() and report.step != report.steps:
            return
        loss = "sampled loss" if report.sampled else "loss"
        self.line(
            f"step {report.step:,} of {report.steps:,}, epoch {report.epoch:.2f}, "
            f"{report.words_per_second:,.0f} words/s, {duration(report.seconds_left)} left, "
            f"{loss} {report.loss_forward:.3f} forward {report.loss_backward:.3f} backward",
            stays=not self.terminal,
        )

    def validation(self, step: int, perplexity: Perplexity, best: bool) -> None:
        """The held-out text was read."""
        mark = ", the best so far" if best else ""
        self.line(
            f"step {step:,}: held-out perplexity {perplexity.mean:,.2f} "
            f"(forward {perplexity.forward:,.2f}, backward {perplexity.backward:,.2f}){mark}"
        )


def duration(seconds: float) -> str:
    """A length of time for people.

    >>> duration(42), duration(150), duration(9000)
    ('42 s', '2.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
