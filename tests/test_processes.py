from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import error_of, write

from elmokit.errors import ElmoError
from elmokit.system import work_in_processes

# Work is found by its name in another process, which cannot import this file.
PROGRAM = """
import os, signal, sys, time
from elmokit.system import work_in_processes

def work(task):
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, line and end
    time.sleep(60)

if __name__ == "__main__":
    # Whoever starts the tests in the background has Ctrl-C ignored, and this inherits it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _ in work_in_processes(work, range(2), 2):
        pass
"""


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("tasks", [0, 9])
def test_every_task_is_done_once(processes, tasks):
    done = sorted(work_in_processes(abs, range(-tasks, 0), processes))
    assert done == list(range(1, tasks + 1))


def test_tasks_are_taken_no_sooner_than_somebody_is_free_for_them():
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(10):
            taken.append(number)
            yield number

    for done, _ in enumerate(work_in_processes(abs, tasks(), 2)):
        assert len(taken) <= done + 4  # two at work, one in hand


@pytest.mark.parametrize(
    ("work", "task", "kind", "message"),
    [
        (int, "x", ValueError, "invalid literal"),
        (os._exit, 3, ElmoError, "a process ended before its work was done"),
    ],
)
def test_failure_in_another_process_is_raised_here(work, task, kind, message):
    with pytest.raises(kind, match=message):
        list(work_in_processes(work, [task], 2))


def test_failure_of_the_tasks_ends_the_processes():
    def tasks() -> Iterator[float]:
        yield 60.0
        raise ValueError("no more")

    started = time.monotonic()
    assert "no more" in error_of(list, work_in_processes(time.sleep, tasks(), 2), kind=ValueError)
    assert time.monotonic() - started < 30


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The program in a session of its own, and the ids of its two workers."""
    command = [sys.executable, str(write(folder / "program.py", PROGRAM))]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        yield process, [int(process.stdout.readline()) for _ in range(2)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups to interrupt")
def test_ctrl_c_ends_all_processes_without_a_word_from_them(tmp_path: Path):
    with started(tmp_path) as (process, workers):
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    assert said.count("Traceback") == 1  # that of the program itself
    for worker in workers:
        error_of(os.kill, worker, 0, kind=ProcessLookupError)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path):
    with started(tmp_path) as (process, _):
        process.kill()
        # Their end of the pipe closes when the last of them has ended: they sleep for a minute.
        begun = time.monotonic()
        assert process.communicate()[0] == ""
    assert time.monotonic() - begun < 30
