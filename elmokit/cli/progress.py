"""How far long work is: a line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

SECONDS_BETWEEN_LINES = {True: 0.1, False: 10.0}
"""A terminal is renewed often; a log file gets a line now and then."""


class Progress:
    """Shows how much is done, how fast, and how long the rest will take."""

    unit = "items"

    def __init__(self, label: str, quiet: bool = False) -> None:
        self.label = label
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()
        self._open_line = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open_line:
            click.echo(err=True)

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done."""
        now = time.monotonic()
        if self.quiet or now - self._shown < SECONDS_BETWEEN_LINES[self.terminal]:
            return
        self._shown = now
        line = f"{self.label}: {self.describe(done, total, now - self._started)}"
        if self.terminal:
            click.echo(f"\r{line:<79}", err=True, nl=False)
            self._open_line = True
        else:
            click.echo(line, err=True)

    def describe(self, done: int, total: int | None, seconds: float) -> str:
        """One line: how much, how fast, how long."""
        rate = done / seconds if seconds > 0 else 0.0
        far = self.amount(done) if total is None else f"{self.amount(done)} of {self.amount(total)}"
        rest = f", {(total - done) / rate:.0f} s left" if total and rate else ""
        return f"{far}, {self.amount(int(rate))}/s{rest}"

    def amount(self, number: int) -> str:
        """A number with its unit."""
        return f"{number:,} {self.unit}"


class Bytes(Progress):
    """Progress of a download."""

    def amount(self, number: int) -> str:
        """Bytes as megabytes."""
        return f"{number / 1e6:.1f} MB"


class Sentences(Progress):
    """Progress of embedding."""

    unit = "sentences"


class Passes(Bytes):
    """Progress of work that goes over the same bytes several times, each time at its own rate."""

    _done = 0

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done in this pass."""
        if done < self._done:
            self._started = time.monotonic()
        self._done = done
        super().__call__(done, total)
