"""Both directions of the biLM at once, a thread for each.

The directions do not need each other. On two cores one core each is faster than a direction after
the other on both cores: nothing waits at the end of every small operation for the slower half.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from threading import Barrier, Lock, local
from typing import TypeVar

import torch

Result = TypeVar("Result")

CORES = 2
"""On more, each thread would need a team of its own beside that of its caller, and libgomp's teams
no longer wait for each other but sleep, once they are more threads than cores (docs/log.md)."""
FEWEST_ROWS = 48  # with fewer, two threads of one core each gain nothing over one team of both
SMALL_WEIGHT = 2**21
"""Where recurrent weights have fewer numbers, no operation has more than one core: it would gain
little, and beside a busy process the cores wait for each other at the end of every operation."""
FEWEST_ROWS_OF_SMALL = 8  # with fewer, the threads only take turns at Python's lock
in_use, apart_in_use = Lock(), Lock()
here = local()


def run_each(
    runs: Sequence[Callable[[], Result]], rows: int, device: torch.device, weight: int
) -> list[Result]:
    """The results of each of some runs over so many rows: side by side where that is faster.

    `weight` says how many numbers a recurrent weight has.
    """
    small = weight < SMALL_WEIGHT
    enough = rows >= (FEWEST_ROWS_OF_SMALL if small else FEWEST_ROWS)
    few = small and rows < FEWEST_ROWS
    worth_it = enough and len(runs) == CORES and (few or cores_here() == CORES)
    if not worth_it or not can_share_cores(device):
        return in_turn(runs)
    return unless_in_use(in_use, partial(run_in, threads, runs), partial(in_turn, runs))


def run_apart(run: Callable[[], Result], rows: int, device: torch.device, weight: int) -> Result:
    """The result of a run over so many rows; with small weights each operation has one core.

    It is then made in another thread, and may call `run_each` to have two cores. On more cores than
    two, many rows are left to teams of all of them.
    """
    few = rows < FEWEST_ROWS or cores_here() == CORES
    if weight >= SMALL_WEIGHT or not few or not can_share_cores(device):
        return run()
    cores = cores_here()

    def run_there() -> Result:
        here.cores = cores
        try:
            return run()
        finally:
            del here.cores

    return unless_in_use(apart_in_use, lambda: run_in(thread_apart, [run_there])[0], run)


def in_turn(runs: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of each run, one after the other."""
    return [run() for run in runs]


def unless_in_use(lock: Lock, run: Callable[[], Result], otherwise: Callable[[], Result]) -> Result:
    """What `run` gives, while nobody else has the lock.

    Who finds the threads in use has a thread of his own, and so does not wait for them.
    """
    if not lock.acquire(blocking=False):
        return otherwise()
    try:
        return run()
    finally:
        lock.release()


def run_in(
    executor_of: Callable[[int], ThreadPoolExecutor], runs: Sequence[Callable[[], Result]]
) -> list[Result]:
    """The results of each run, side by side; when one fails, the others have ended too."""
    inference = torch.is_inference_mode_enabled()

    def run_as_here(run: Callable[[], Result]) -> Result:
        # Whether to record gradients is a setting of each thread.
        with torch.inference_mode(inference), torch.no_grad():
            return run()

    try:
        executor = executor_of(os.getpid())
        futures = [executor.submit(run_as_here, run) for run in runs]
    except RuntimeError:  # no more threads are to be had, or the interpreter is ending
        return in_turn(runs)
    wait(futures)
    # An error refers to this frame: if that had the futures, it would keep itself and its tensors.
    return [futures.pop(0).result() for _ in runs]


def cores_here() -> int:
    """The cores of this thread, or of the one that it runs something for."""
    cores: int | None = getattr(here, "cores", None)
    return torch.get_num_threads() if cores is None else cores


def can_share_cores(device: torch.device) -> bool:
    """Whether the caller computes with several cores, and records nothing of what it computes."""
    return computes_plainly(device) and cores_here() >= CORES


def computes_plainly(device: torch.device) -> bool:
    """Whether torch computes on the CPU, and neither records nor changes what it is asked for."""
    return (
        device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


@cache
def threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process, which compute with one core each; a fork needs its own."""
    return threads_of_one_core(CORES, "direction")


@cache
def thread_apart(process: int) -> ThreadPoolExecutor:
    """A thread that computes with one core; one more than `threads`, for which it may wait."""
    threads(process)  # made here: made from there, they would leave one core to all later threads
    return threads_of_one_core(1, "apart")


def threads_of_one_core(count: int, name: str) -> ThreadPoolExecutor:
    """New threads, which compute with one core each."""
    all_started = Barrier(count)

    def start() -> None:
        torch.get_num_threads()  # or the thread's first operation sets what its process has
        torch.set_num_threads(1)
        all_started.wait()

    before = torch.get_num_threads()
    executor = ThreadPoolExecutor(count, thread_name_prefix=name, initializer=start)
    try:
        wait([executor.submit(int) for _ in range(count)])
    except RuntimeError:  # the second cannot be started: the first is not to wait for it
        all_started.abort()
        raise
    finally:
        # What was set last is also what threads have that start later.
        torch.set_num_threads(before)
    return executor
