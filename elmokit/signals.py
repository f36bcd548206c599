"""Ctrl-C and SIGTERM as a wish to stop that training grants between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Wish:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.made = False

    def __bool__(self) -> bool:
        return self.made

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember the first signal; a second one does not wait for the step to end."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def wish_to_stop() -> Iterator[Wish]:
    """Collect signals for the time of a block; only the main thread may do so."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish.note) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
