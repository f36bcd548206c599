from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from threading import enumerate as living_threads

import pytest

from elmokit.system import prefetch

PATIENCE = 5.0


def threads() -> list[Thread]:
    return [thread for thread in living_threads() if thread.name == "prefetch"]


def wait_until(holds: Callable[[], bool]) -> None:
    """Give another thread the time to come so far."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def counting(made: list[int], count: int = 10**9) -> Iterator[int]:
    for number in range(count):
        made.append(number)
        yield number


@pytest.mark.parametrize("ahead", [1, 2, 100])
@pytest.mark.parametrize("count", [0, 1, 57])
def test_items_come_all_and_in_their_order(count: int, ahead: int) -> None:
    assert list(prefetch(iter(range(count)), ahead)) == list(range(count))
    assert threads() == []


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, StopAsyncIteration])
def test_error_comes_through_after_the_items_before_it(kind: type[BaseException]) -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise kind("no third")

    items = prefetch(failing(), ahead=5)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(kind, match="no third"):
        next(items)
    assert threads() == []
    assert list(items) == []


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_a_few_items_are_made_ahead_until_it_is_closed(taken: int) -> None:
    made: list[int] = []
    items = prefetch(counting(made), ahead=3)
    assert [next(items) for _ in range(taken)] == list(range(taken))
    # Three wait to be taken, and one to be put; nothing is made before one is asked for.
    expected = taken + 4 if taken else 0
    wait_until(lambda: len(made) == expected)
    time.sleep(0.02)
    assert len(made) == expected
    assert len(threads()) == bool(taken)
    items.close()  # type: ignore[attr-defined]
    assert threads() == []
    assert len(made) <= expected + 1


def test_closing_waits_for_the_item_that_is_being_made() -> None:
    begun, may_end = Event(), Event()

    def slow() -> Iterator[int]:
        yield 0
        begun.set()
        assert may_end.wait(PATIENCE)
        yield 1

    items = prefetch(slow())
    assert next(items) == 0
    assert begun.wait(PATIENCE)
    closer = Thread(target=items.close)  # type: ignore[attr-defined]
    closer.start()
    time.sleep(0.02)
    assert closer.is_alive()
    may_end.set()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    assert threads() == []
