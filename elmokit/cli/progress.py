"""How far long work is: a line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from elmokit.errors import StoppedError
from elmokit.system import counted

if TYPE_CHECKING:
    from elmokit.bulk.compute import BulkProgress


SECONDS_BETWEEN_LINES = {True: 0.1, False: 10.0}
"""A terminal is renewed often; a log file gets a line now and then."""
SECONDS_BEFORE_FIRST_LINE = 2.0
SECONDS_BEFORE_REST = 5.0
"""From when on the rate so far says something about the time that is left."""


class ProgressLine:
    """Shows how much is done, how fast, and how long the rest will take."""

    unit = "item"

    def __init__(self, label: str, quiet: bool = False) -> None:
        self.label = label
        self.quiet = quiet
        self.terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next_line = self._started + min(
            SECONDS_BEFORE_FIRST_LINE, SECONDS_BETWEEN_LINES[self.terminal]
        )
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
        if self.due() or (self._open_line and done == total):
            self.show(self.describe(done, total, time.monotonic() - self._started))

    def due(self) -> bool:
        """Whether the last line is old enough for another."""
        now = time.monotonic()
        if self.quiet or now < self._next_line:
            return False
        self._next_line = now + SECONDS_BETWEEN_LINES[self.terminal]
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
        known = total and rate and seconds >= SECONDS_BEFORE_REST
        rest = f", {duration((total - done) / rate)} left" if known and total else ""
        return f"{far}, {self.amount(int(rate))}/s{rest}"

    def amount(self, number: int) -> str:
        """A number with its unit."""
        return counted(number, self.unit)


class DownloadProgress(ProgressLine):
    """Progress of a download."""

    def amount(self, number: int) -> str:
        """Bytes as megabytes."""
        return f"{number / 1e6:.1f} MB"


class Fetched(DownloadProgress):
    """Progress of loading a model, which may have to be fetched; Ctrl-C says what is kept of it."""

    _begun = False

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` have come."""
        self._begun = True
        super().__call__(done, total)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._begun and isinstance(error, KeyboardInterrupt):
            raise StoppedError(
                "interrupted; what has been fetched is kept, and run again the download continues"
            ) from None


class ScoringProgress(ProgressLine):
    """Progress of scoring."""

    unit = "sentence"


class SoonShown(ProgressLine):
    """A line comes soon also where the first part of the work takes long."""

    first_line = "the first are being computed"
    _timer: Timer | None = None

    def begin(self) -> None:
        """The work begins now."""
        self._started = time.monotonic()
        self._timer = Timer(SECONDS_BEFORE_FIRST_LINE, self._show_first_line)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel_first_line()
        super().__exit__(kind, error, trace)

    def cancel_first_line(self) -> None:
        """There is more to tell by now."""
        if self._timer is not None:
            self._timer.cancel()

    def _show_first_line(self) -> None:
        if self.due():
            self.show(self.first_line)


class EmbeddingProgress(SoonShown):
    """Progress of bulk embedding."""

    first_line = "the first sentences are being computed"

    def __enter__(self) -> Self:
        self.begin()
        return super().__enter__()

    def report(self, state: BulkProgress) -> None:
        """Show how far it is: sentences, words a second, the time left, words known by then."""
        if not self.due():
            return
        self.cancel_first_line()
        if state.written:
            total = counted(state.sentences, "sentence")
            self.show(f"{state.written:,} of {total} written to the file")
            return
        left = state.seconds_left if state.seconds >= SECONDS_BEFORE_REST else None
        rest = "" if left is None else f", {duration(left)} left"
        self.show(
            f"{counted(state.sentences, 'sentence')}, {state.words_per_second:,.0f} words/s{rest}, "
            f"{state.known_words:.0%} of words from the cache"
        )


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(42), duration(150), duration(1800), duration(9000)
    ('42 s', '2.5 min', '30 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Passes(DownloadProgress):
    """Progress of work that goes over the same bytes several times, each time at its own rate."""

    _done = 0

    def __call__(self, done: int, total: int | None) -> None:
        """Report that `done` of `total` are done in this pass."""
        again = done < self._done
        self._done = done
        if again:  # the next report is the first that has a rate
            self._started = time.monotonic()
        else:
            super().__call__(done, total)
