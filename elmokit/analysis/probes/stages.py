"""Progress of work that goes over one thing after another."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int | None], None]

SENTENCES_AT_A_TIME = 1000


class Stages:
    """Adds up what is done in one stage after another.

    Args:
        progress: Who is told, if anybody.
        total: How much there is in all stages together.
        every: How often to tell. Sentences are embedded many at a time and then come all at once:
            told of the first of them, one would expect the others to take as long.
    """

    def __init__(self, progress: Progress | None, total: int, every: int = 1) -> None:
        self._progress = progress
        self._total = total
        self._every = every
        self._before = 0

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report how much of this stage is done."""
        done += self._before
        if self._progress is not None and (done % self._every == 0 or done == self._total):
            self._progress(done, self._total)

    def next(self, done: int) -> None:
        """Go on to the next stage, behind one of this size."""
        self._before += done
