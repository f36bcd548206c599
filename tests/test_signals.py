from __future__ import annotations

import signal
from collections.abc import Iterator
from threading import Thread
from types import FrameType

import pytest

from elmokit.system import SIGNALS, stop_requests

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@pytest.fixture(autouse=True)
def _outer_handlers() -> Iterator[None]:
    """A signal that gets through fails its test, instead of ending all of them."""

    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"signal {number} got through")

    before = {number: signal.signal(number, fail) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@BOTH
def test_first_signal_is_noted_and_the_work_continues(number: signal.Signals) -> None:
    steps = 0
    with stop_requests() as request:
        for step in range(3):
            steps += 1
            if step == 1:
                signal.raise_signal(number)
            assert request.made == (step >= 1)
    assert steps == 3


@BOTH
def test_second_signal_interrupts_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = handlers()

    def ask_twice() -> None:
        with stop_requests():
            assert handlers() != before
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(number)
            pytest.fail("the second signal did not interrupt")

    with pytest.raises(KeyboardInterrupt):
        ask_twice()
    assert handlers() == before


@BOTH
def test_handler_from_before_hears_of_signals_after_the_block(number: signal.Signals) -> None:
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    signal.signal(number, hear)
    with stop_requests() as request:
        signal.raise_signal(number)
    assert heard == []
    signal.raise_signal(number)
    assert heard == [number]
    assert request.made


def test_other_threads_leave_signals_alone() -> None:
    before = handlers()
    found: list[object] = []

    def work() -> None:
        with stop_requests() as request:
            found.extend([handlers(), request.made])

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, False]


def test_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with stop_requests() as request:
        signal.raise_signal(signal.SIGTERM)
        assert not request.made
