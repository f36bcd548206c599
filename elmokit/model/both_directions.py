"""Both directions of the biLM at once, a thread for each.

The directions do not need each other. On two cores one core each is faster than a direction after
the other on both cores: nothing waits at the end of every small operation for the slower half.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Barrier, Lock
from typing import TypeVar

import torch

Result = TypeVar("Result")

CORES = 2
"""On more, each thread would need a team of its own beside that of its caller, and libgomp's teams
no longer wait for each other but sleep, once they are more threads than cores (docs/log.md)."""
FEWEST_ROWS = 48
"""With fewer, the threads only take turns at Python's lock."""
in_use = Lock()


def run_each(runs: Sequence[Callable[[], Result]], rows: int, device: torch.device) -> list[Result]:
    """The results of each of some runs over so many rows: side by side where that is faster."""
    worth_it = len(runs) == CORES and rows >= FEWEST_ROWS and can_share_cores(device)
    # Who finds the threads in use has a thread of his own, and so does not wait for them.
    if not worth_it or not in_use.acquire(blocking=False):
        return [run() for run in runs]
    try:
        return run_side_by_side(runs)
    finally:
        in_use.release()


def run_side_by_side(runs: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of each run; when one fails, the others have ended too."""
    inference = torch.is_inference_mode_enabled()

    def run_as_here(run: Callable[[], Result]) -> Result:
        # Whether to record gradients is a setting of each thread.
        with torch.inference_mode(inference), torch.no_grad():
            return run()

    try:
        executor = threads(os.getpid())
        futures = [executor.submit(run_as_here, run) for run in runs]
    except RuntimeError:  # no more threads are to be had, or the interpreter is ending
        return [run() for run in runs]
    wait(futures)
    return [future.result() for future in futures]


def can_share_cores(device: torch.device) -> bool:
    """Whether the caller computes with two cores, and records nothing of what it computes."""
    return computes_plainly(device) and torch.get_num_threads() == CORES


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
    all_started = Barrier(CORES)

    def start() -> None:
        torch.get_num_threads()  # or the thread's first operation sets what its process has
        torch.set_num_threads(1)
        all_started.wait()

    before = torch.get_num_threads()
    executor = ThreadPoolExecutor(CORES, thread_name_prefix="direction", initializer=start)
    try:
        wait([executor.submit(int) for _ in range(CORES)])
    except RuntimeError:  # the second cannot be started: the first is not to wait for it
        all_started.abort()
        raise
    finally:
        # What was set last is also what threads have that start later.
        torch.set_num_threads(before)
    return executor
