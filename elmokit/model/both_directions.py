"""Both directions of the biLM at once, a thread for each.

The directions do not need each other. On two cores one core each is faster than a direction after
the other on both cores: nothing waits at the end of every small operation for the slower half.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch

Result = TypeVar("Result")

CORES = 2
"""On more, each thread would need a team of its own beside that of its caller, and libgomp's teams
no longer wait for each other but sleep, once they are more threads than cores (docs/log.md)."""
FEWEST_ROWS = 48
"""With fewer, the threads only take turns at Python's lock."""


def run_each(runs: Sequence[Callable[[], Result]], rows: int, device: torch.device) -> list[Result]:
    """The results of each of some runs over so many rows: side by side where that is faster."""
    if len(runs) < CORES or rows < FEWEST_ROWS or not can_share_cores(device):
        return [run() for run in runs]
    inference = torch.is_inference_mode_enabled()

    def run_as_here(run: Callable[[], Result]) -> Result:
        # Whether to record gradients is a setting of each thread.
        with torch.inference_mode(inference), torch.no_grad():
            return run()

    return list(threads(os.getpid()).map(run_as_here, runs))


def can_share_cores(device: torch.device) -> bool:
    """Whether two cores are there for this, and nothing that other threads would not know of."""
    return (
        device.type == "cpu"
        and torch.get_num_threads() == CORES
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
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
    wait([executor.submit(int) for _ in range(CORES)])
    # What was set last is also what threads have that start later.
    torch.set_num_threads(before)
    return executor
