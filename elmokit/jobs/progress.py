"""Progress of long jobs: the `Observer` that they tell how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmokit.io.fetch import Progress


class Observer:
    """Callbacks that do nothing; override what you need.

    Work is done in stages, each inside the one that was begun before it and has not ended: a
    validation inside the training. A stage counts in its unit, bytes or words or steps, up to its
    total where that is known.
    """

    def begin(self, stage: str, unit: str, total: int | None, done: int) -> None:
        """A stage begins; a resumed one has `done` behind it."""

    def advance(self, done: int, total: int | None = None) -> None:
        """So much of the stage is done; `total` is what is known of it by now."""

    def end(self) -> None:
        """The stage is over, or has failed."""

    def fetching(self, done: int, total: int | None) -> None:
        """Bytes of a download, which is made only where a file is not in the cache."""

    def metrics(self, **values: float) -> None:
        """What is measured in the stage now: a loss, words per second."""

    def validation(self, result: str, best: bool, **values: float) -> None:
        """Held-out data was read: the result in words and in numbers, and if it is the best yet."""

    def note(self, message: str) -> None:
        """Something worth a line: what is read, what was resumed, what was held out."""

    @contextmanager
    def stage(
        self, name: str, unit: str, total: int | None = None, done: int = 0
    ) -> Iterator[Progress]:
        """A stage from its beginning to its end; what it gives is called with what is done."""
        self.begin(name, unit, total, done)
        try:
            yield self.advance
        finally:
            self.end()


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
