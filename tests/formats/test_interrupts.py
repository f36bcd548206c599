from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from elmokit.formats.interrupts import held_interrupts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def stop(number: int, frame: FrameType | None) -> None:
    """What the command line does at SIGTERM."""
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the command line; a test run in the background may ignore Ctrl-C."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, stop),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_waits_until_the_block_has_come_to_its_end(number: signal.Signals) -> None:
    done = []

    def work() -> None:
        with held_interrupts():
            signal.raise_signal(number)
            done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["after"]
    assert signal.getsignal(signal.SIGTERM) is stop
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signal_waits_until_the_block_asks() -> None:
    done = []

    def work() -> None:
        with held_interrupts() as held:
            held.check()
            signal.raise_signal(signal.SIGINT)
            done.append("before")
            held.check()
            done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["before"]


def test_error_of_the_block_is_not_replaced() -> None:
    def work() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with held_interrupts():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)


def test_threads_which_get_no_signals_are_left_alone() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with held_interrupts() as held:
                held.check()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
