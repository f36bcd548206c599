"""The next items are made while this one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_END = 2.0


def prefetch(items: Iterator[Item], ahead: int = 2) -> Iterator[Item]:
    """The same items, made in a thread of their own, a few of them ahead.

    What fails there fails here. The thread ends when the items do, or when this is closed.
    """
    ready: Queue[Item | BaseException | None] = Queue(ahead)
    closed = Event()

    def put(item: Item | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=SECONDS_BETWEEN_LOOKS)
            except Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = Thread(target=make, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        # A maker that waits for a pipe to say something is left to end with the process.
        thread.join(SECONDS_TO_END)
