import contextlib
import gc
import multiprocessing
import os
import threading
import time
import weakref
from unittest.mock import Mock

import pytest
import torch
from closeness import assert_agree
from small_models import small_bilm

from elmokit import batch_to_ids
from elmokit.model import both_directions
from elmokit.model.both_directions import (
    FEWEST_ROWS,
    FEWEST_ROWS_OF_SMALL,
    SMALL_WEIGHT,
    run_apart,
    run_each,
)

CPU = torch.device("cpu")
SMALL, LARGE = SMALL_WEIGHT - 1, SMALL_WEIGHT


@pytest.fixture(autouse=True)
def two_cores() -> None:
    torch.set_num_threads(2)  # each test begins with one


def name_of_thread() -> str:
    return threading.current_thread().name


def threads_used(rows: int = FEWEST_ROWS, runs: int = 2, weight: int = LARGE) -> set[str]:
    return set(run_each([name_of_thread] * runs, rows, CPU, weight))


def cores_of_a_later_thread() -> int:
    seen: list[int] = []
    later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    later.start()
    later.join()
    return seen[0]


def meet(barrier: threading.Barrier) -> int:
    return barrier.wait(timeout=10)


@torch.no_grad()
def test_the_runs_work_at_the_same_time_with_one_core_each():
    barrier = threading.Barrier(2)
    assert sorted(run_each([lambda: meet(barrier)] * 2, FEWEST_ROWS, CPU, LARGE)) == [0, 1]
    assert run_each([torch.get_num_threads] * 2, FEWEST_ROWS, CPU, LARGE) == [1, 1]


@torch.no_grad()
def test_the_caller_and_later_threads_keep_their_cores():
    both_directions.threads.cache_clear()
    run_each([name_of_thread] * 2, FEWEST_ROWS, CPU, LARGE)
    assert [torch.get_num_threads(), cores_of_a_later_thread()] == [2, 2]


@torch.no_grad()
def test_an_error_does_not_keep_what_the_run_has_made(monkeypatch):
    class Large:
        pass

    made: list[weakref.ref[Large]] = []

    def run() -> None:
        large = Large()
        made.append(weakref.ref(large))
        raise RuntimeError("out of memory")

    gc.disable()
    try:
        with contextlib.suppress(RuntimeError):
            run_apart(run, 1, CPU, SMALL)
        assert made[0]() is None
    finally:
        gc.enable()


@torch.no_grad()
@pytest.mark.parametrize(
    ("rows", "runs", "cores"), [(FEWEST_ROWS - 1, 2, 2), (FEWEST_ROWS, 1, 2), (FEWEST_ROWS, 2, 1)]
)
def test_one_after_the_other_where_nothing_is_won(rows, runs, cores):
    torch.set_num_threads(cores)
    assert threads_used(rows, runs) == {name_of_thread()}


@torch.no_grad()
def test_small_weights_share_any_number_of_cores_if_rows_are_few():
    torch.set_num_threads(3)
    assert name_of_thread() not in threads_used(FEWEST_ROWS_OF_SMALL, weight=SMALL)
    assert threads_used(FEWEST_ROWS, weight=SMALL) == {name_of_thread()}
    assert threads_used(FEWEST_ROWS_OF_SMALL - 1, weight=SMALL) == {name_of_thread()}
    assert threads_used(FEWEST_ROWS, weight=LARGE) == {name_of_thread()}


@torch.no_grad()
def test_what_is_run_apart_has_one_core_for_an_operation_and_two_for_two_runs():
    def run() -> tuple[str, int, set[str]]:
        return name_of_thread(), torch.get_num_threads(), threads_used(weight=SMALL)

    name, cores, both = run_apart(run, 1, CPU, SMALL)
    assert name != name_of_thread()
    assert cores == 1
    assert both.isdisjoint({name, name_of_thread()})
    assert torch.get_num_threads() == 2


@torch.no_grad()
def test_large_weights_and_one_core_are_not_run_apart():
    assert run_apart(name_of_thread, 1, CPU, LARGE) == name_of_thread()
    torch.set_num_threads(1)
    assert run_apart(name_of_thread, 1, CPU, SMALL) == name_of_thread()


@torch.no_grad()
def test_who_finds_the_thread_apart_in_use_runs_where_he_is():
    def ask_again() -> str:
        return run_apart(name_of_thread, 1, CPU, SMALL)

    name = run_apart(name_of_thread, 1, CPU, SMALL)
    assert run_apart(ask_again, 1, CPU, SMALL) == name


def test_one_after_the_other_where_a_thread_would_not_know_what_is_set():
    assert threads_used() == {name_of_thread()}  # gradients are wanted
    with torch.no_grad():
        assert name_of_thread() not in threads_used()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert threads_used() == {name_of_thread()}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_results_are_those_of_one_after_the_other(mode, monkeypatch):
    bilm = small_bilm()
    ids = batch_to_ids([["word"] * (1 + n % 7) for n in range(FEWEST_ROWS)])
    with mode():
        together = bilm(ids)
        monkeypatch.setattr(both_directions, "FEWEST_ROWS_OF_SMALL", FEWEST_ROWS + 1)
        apart = bilm(ids)
    assert_agree(together.layers.vectors, apart.layers.vectors)
    for one, other in zip(together.state, apart.state, strict=True):
        assert_agree(one, other)


@torch.no_grad()
def test_an_error_in_one_of_them_is_raised():
    def fail() -> str:
        raise MemoryError("no room")

    ended = []

    def end_later() -> str:
        time.sleep(0.2)
        ended.append(True)
        return ""

    with pytest.raises(MemoryError, match="no room"):
        run_each([fail, end_later], FEWEST_ROWS, CPU, LARGE)
    assert ended  # nothing continues in memory that the caller will use again
    assert name_of_thread() not in threads_used()


@torch.no_grad()
def test_another_caller_does_not_wait_for_the_threads():
    started, done = threading.Event(), threading.Event()

    def hold() -> bool:
        started.set()
        return done.wait(timeout=10)

    def hold_both() -> None:
        with torch.no_grad():
            torch.set_num_threads(2)
            run_each([hold, hold], FEWEST_ROWS, CPU, LARGE)

    holder = threading.Thread(target=hold_both)
    holder.start()
    assert started.wait(timeout=10)
    assert threads_used() == {name_of_thread()}
    done.set()
    holder.join()


@torch.no_grad()
def test_one_after_the_other_where_no_thread_is_to_be_had(monkeypatch):
    failing = Mock(side_effect=RuntimeError("can't start new thread"))
    monkeypatch.setattr(both_directions, "threads", failing)
    assert threads_used() == {name_of_thread()}


@torch.no_grad()
def test_the_first_thread_does_not_wait_for_a_second_that_cannot_start(monkeypatch):
    start_thread, started = threading.Thread.start, []

    def start_one(self: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start_thread(self)

    both_directions.threads.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start_one)
    monkeypatch.setattr("logging.Logger.critical", lambda *arguments, **settings: None)
    assert threads_used() == {name_of_thread()}
    started[0].join(timeout=10)
    assert not started[0].is_alive()
    assert torch.get_num_threads() == 2


def send_threads_used(sender: multiprocessing.connection.Connection) -> None:
    with torch.no_grad():
        torch.set_num_threads(2)
        sender.send(len(threads_used()))


@torch.no_grad()
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # of Python 3.12 and later
def test_a_forked_process_has_threads_of_its_own():
    threads_used()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_threads_used, args=(sender,))
    child.start()
    assert receiver.poll(30), "the child waits for threads that only its parent has"
    child.join(30)
    assert child.exitcode == 0
