"""Progress on the screen: a bar that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cache
from threading import RLock, Timer
from typing import Any, Self

import click

from elmokit.errors import StoppedError
from elmokit.jobs.progress import Observer, duration
from elmokit.system import counted

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BEFORE_FIRST_LINE = 2.0
SECONDS_BEFORE_REST = 5.0  # from when on the rate so far says something about the time that is left


class Display(Observer):
    """Shows the stages of a job, what is measured in them, and notes; nothing if it is quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._stages: list[Bar | Lines] = []
        self._fetching = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        fetching = self._fetching
        self._end_fetching()
        while self._stages:
            self.end()
        if fetching and isinstance(error, KeyboardInterrupt):
            raise StoppedError(
                "interrupted; what has been fetched is kept, and run again the download continues"
            ) from None

    def begin(self, stage: str, unit: str, total: int | None, done: int) -> None:
        """Show a bar, or lines in time."""
        self._end_fetching()
        if not self.quiet:
            shown = Bar if sys.stderr.isatty() else Lines
            self._stages.append(shown(stage, unit, total, done))

    def advance(self, done: int, total: int | None = None) -> None:
        """Move the bar."""
        if self._stages:
            self._stages[-1].advance(done, total)

    def end(self) -> None:
        """Take the bar away."""
        self._end_fetching()
        if self._stages:
            self._stages.pop().close()

    def fetching(self, done: int, total: int | None) -> None:
        """Show a download, from its first bytes to its last."""
        if not self._fetching:
            self.begin("fetching", "byte", total, done)
            self._fetching = True
        self.advance(done, total)
        if done == total:
            self._end_fetching()

    def _end_fetching(self) -> None:
        if self._fetching:
            self._fetching = False
            self.end()

    def metrics(self, **values: float) -> None:
        """Show values beside the bar."""
        if self._stages:
            self._stages[-1].measured = described(values)

    def validation(self, result: str, best: bool, **values: float) -> None:
        """A line with the result."""
        self.note(f"{result}, the best so far" if best else result)

    def note(self, message: str) -> None:
        """A line."""
        if not self.quiet:
            write_line(message)


def write_line(text: str) -> None:
    """Write a line to stderr, above a bar that is shown there."""
    if sys.stderr.isatty():
        tqdm_class().write(text, file=sys.stderr)
    else:
        click.echo(text, err=True)


@cache
def tqdm_class() -> type[Any]:
    """The class of bars, imported only where one is shown."""
    from tqdm import tqdm

    class OneProcessBar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread of its own
        _lock = RLock()  # no semaphore between processes

    return OneProcessBar


class Bar:
    """A stage on a terminal."""

    def __init__(self, name: str, unit: str, total: int | None, done: int) -> None:
        bytes_of = {"unit": "B", "unit_scale": True}
        self._bar = tqdm_class()(
            desc=name,
            total=total,
            initial=done,
            leave=False,
            miniters=1,
            dynamic_ncols=True,
            **(bytes_of if unit == "byte" else {"unit": f" {unit}s"}),
            **({} if unit else {"bar_format": "{desc} …"}),
        )
        self.measured = ""

    def advance(self, done: int, total: int | None) -> None:
        """Move."""
        self._bar.total = total or self._bar.total
        self._bar.set_postfix_str(self.measured, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Vanish."""
        self._bar.close()


class Lines:
    """A stage where nothing can be renewed: a line after two seconds, and then every ten."""

    def __init__(self, name: str, unit: str, total: int | None, done: int) -> None:
        self.name, self.unit, self.total, self.done = name, unit, total, done
        self.measured = ""
        self._first = done
        self._started = time.monotonic()
        self._next_line = self._started + SECONDS_BEFORE_FIRST_LINE
        self._shown: int | None = None
        # Also where the first piece of the work takes long.
        self._timer = Timer(SECONDS_BEFORE_FIRST_LINE, self.show)
        self._timer.daemon = True
        self._timer.start()

    def advance(self, done: int, total: int | None) -> None:
        """Write a line if the last is old enough."""
        self.done, self.total = done, total or self.total
        if time.monotonic() >= self._next_line:
            self.show()

    def show(self) -> None:
        """Write a line: how much is done, how fast, how long the rest will take."""
        self._timer.cancel()
        now = time.monotonic()
        self._next_line, self._shown = now + SECONDS_BETWEEN_LINES, self.done
        write_line(self.describe(now - self._started))

    def close(self) -> None:
        """Write the end where the beginning was written."""
        self._timer.cancel()
        self._timer.join()
        if self._shown not in (None, self.done):
            self.show()

    def describe(self, seconds: float) -> str:
        """The line; of work that has no unit, that it is going on."""
        if not self.unit:
            return f"{self.name} …"
        rate = (self.done - self._first) / seconds if seconds > 0 else 0.0
        shown = [amount(self.done, self.unit, self.total)]
        if 0 < rate < 1 and self.unit != "byte":
            shown.append(f"{1 / rate:.1f} s/{self.unit}")
        elif rate:
            shown.append(f"{amount(round(rate), self.unit)}/s")
        if self.total and rate and seconds >= SECONDS_BEFORE_REST:
            shown.append(f"{duration((self.total - self.done) / rate)} left")
        return f"{self.name}: {', '.join([*shown, *filter(None, [self.measured])])}"


def amount(number: int, unit: str, total: int | None = None) -> str:
    """A number with its unit, and of how many; bytes as megabytes.

    >>> amount(50, "sentence", 200), amount(1, "word"), amount(3_000_000, "byte")
    ('50 of 200 sentences', '1 word', '3.0 MB')
    """
    if unit == "byte":
        of_all = f" of {total / 1e6:.1f}" if total else ""
        return f"{number / 1e6:.1f}{of_all} MB"
    return f"{number:,} of {counted(total, unit)}" if total else counted(number, unit)


def described(values: Mapping[str, float]) -> str:
    """Numbers with their names.

    >>> described({"sentences": 1200, "words_per_second": 5000.5, "loss": 0.12345, "seconds": 150})
    '1,200 sentences, 5,000 words/s, loss 0.1235, 2.5 min'
    """
    shown = []
    for name, value in values.items():
        words = name.replace("_", " ")
        if name == "seconds":
            shown.append(duration(value))
        elif name.endswith("_per_second"):
            shown.append(f"{value:,.0f} {name.removesuffix('_per_second')}/s")
        elif isinstance(value, int):
            shown.append(counted(value, words.removesuffix("s")))
        else:
            shown.append(f"{words} {value:,.4g}")
    return ", ".join(shown)
