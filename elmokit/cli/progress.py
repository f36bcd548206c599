"""How far long work is: a line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from elmokit.bulk.summary import Progress as EmbeddingProgress

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

    def __enter__(self) -> Self:
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
        if self.due():
            self.show(self.describe(done, total, time.monotonic() - self._started))

    def due(self) -> bool:
        """Whether the last line is old enough for another."""
        now = time.monotonic()
        if self.quiet or now - self._shown < SECONDS_BETWEEN_LINES[self.terminal]:
            return False
        self._shown = now
        return True

    def show(self, text: str) -> None:
        """Print a line, or renew it."""
        line = f"{self.label}: {text}"
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


class Embedded(Progress):
    """Progress of bulk embedding."""

    def report(self, state: EmbeddingProgress) -> None:
        """Show how far it is: sentences, words a second, the time left, words known by then."""
        if not self.due():
            return
        if state.written:
            self.show(f"{state.written:,} of {state.sentences:,} sentences written to the file")
            return
        left = state.seconds_left
        rest = "" if left is None else f", {duration(left)} left"
        self.show(
            f"{state.sentences:,} sentences, {state.words_per_second:,.0f} words/s{rest}, "
            f"{state.known_words:.0%} of words from the cache"
        )


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Passes(Bytes):
    """Progress of work that goes over the same bytes several times, each time at its own rate."""

    _done = 0

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done in this pass."""
        if done < self._done:
            self._started = time.monotonic()
        self._done = done
        super().__call__(done, total)
