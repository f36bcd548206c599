from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread, current_thread
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


def test_items_are_made_in_a_thread_of_their_own_a_few_ahead() -> None:
    made: list[int] = []
    items = prefetch(counting(made), ahead=3)
    assert next(items) == 0
    # Three wait to be taken, and one to be put.
    wait_until(lambda: len(made) == 5)
    time.sleep(0.02)
    assert len(made) == 5
    items.close()  # type: ignore[attr-defined]


def test_maker_is_not_the_thread_that_reads() -> None:
    def makers() -> Iterator[Thread]:
        yield current_thread()

    (maker,) = prefetch(makers())
    assert maker is not current_thread()


def test_nothing_is_made_before_the_first_item_is_asked_for() -> None:
    made: list[int] = []
    items = prefetch(counting(made))
    time.sleep(0.02)
    assert made == []
    items.close()  # type: ignore[attr-defined]
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


@pytest.mark.parametrize("taken", [1, 4])
def test_thread_ends_when_closed_early(taken: int) -> None:
    made: list[int] = []
    items = prefetch(counting(made), ahead=2)
    assert [next(items) for _ in range(taken)] == list(range(taken))
    wait_until(lambda: len(made) == taken + 3)
    assert len(threads()) == 1
    items.close()  # type: ignore[attr-defined]
    assert threads() == []
    assert len(made) <= taken + 4


def test_thread_ends_when_the_reader_fails() -> None:
    def read() -> None:
        items = prefetch(counting([]))
        try:
            for number in items:
                if number == 3:
                    raise RuntimeError("cannot read on")
        finally:
            items.close()  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError, match="cannot read on"):
        read()
    assert threads() == []


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
