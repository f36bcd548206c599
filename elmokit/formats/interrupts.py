"""Ctrl-C and SIGTERM, kept waiting while a library is at work that cannot bear an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HeldInterrupts:
    """The signals that came and wait."""

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._waiting: list[int] = []

    def check(self) -> None:
        """Let the first signal that waits do now what it would have done."""
        if self._waiting:
            number = self._waiting.pop(0)
            self._handlers[number](number, None)

    def hold(self) -> None:
        """Keep signals waiting that would raise something.

        Only the main thread ever gets any. What ends the process at once, or is ignored, stays so.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._keep)

    def release(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(number)


@contextmanager
def held_interrupts() -> Iterator[HeldInterrupts]:
    """Keep Ctrl-C and SIGTERM waiting in a block, until it asks for them or has come to its end."""
    held = HeldInterrupts()
    held.hold()
    try:
        yield held
    finally:
        held.release()
    held.check()
