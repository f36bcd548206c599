"""Work shared among processes: little of it waits in memory, and all end with this one."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

from elmokit.errors import ElmoError

ADVICE = 'in a script of your own, call this under if __name__ == "__main__", or with processes=1'

Task = TypeVar("Task")
Result = TypeVar("Result")


def check_may_start_processes() -> None:
    """Refuse to start processes in one that is itself still starting.

    Such a process runs the script of the one that started it, up to the call that started it:
    without a guard it would start processes in turn, or wait for a lock that its starter holds.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ElmoError(f"processes are started while a script is imported; {ADVICE}")


def work_in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], processes: int
) -> Generator[Result, None, None]:
    """The results of all tasks, in the order in which they get done.

    A task is taken when a process is free for it. One process is this one. `work` is a function
    of a module, or a `functools.partial` of one.
    """
    if processes == 1:
        yield from map(work, tasks)
        return
    team = _Team(work)
    try:
        for task in tasks:
            while not team.idle:
                if len(team.busy) < processes:
                    team.enlarge()
                yield from team.results()
            team.give(task)
        while team.busy:
            yield from team.results()
    finally:
        team.end()


class _Team:
    """Processes at work, each behind a pipe.

    Not `concurrent.futures`, which cannot be ended before its tasks are, nor
    `multiprocessing.Pool`, which waits for ever when a process is killed.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.idle: list[Connection] = []
        self.busy: set[Connection] = set()
        self._members: list[BaseProcess] = []

    def enlarge(self) -> None:
        """Start a process; it is busy until it says that it is ready."""
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.work), daemon=True)
        with _without_interrupts():
            process.start()
        theirs.close()
        self._members.append(process)
        self.busy.add(ours)

    def give(self, task: Any) -> None:
        """Let an idle process do a task."""
        connection = self.idle.pop()
        self.busy.add(connection)
        with _explained():
            connection.send(task)

    def results(self) -> Iterator[Any]:
        """Wait for some busy process, and give what is done."""
        for connection in wait(list(self.busy)):
            connection = cast("Connection", connection)
            with _explained():
                state, value = connection.recv()
            if state == "failed":
                raise value
            self.busy.remove(connection)
            self.idle.append(connection)
            if state == "done":
                yield value

    def end(self) -> None:
        """Stop every process, whatever it does."""
        for connection in (*self.idle, *self.busy):
            connection.close()
        for process in self._members:
            process.terminate()
        for process in self._members:
            process.join()


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """Do the tasks that come, until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the other side too, which ends us
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(("ready", None))
        while True:
            connection.send(_outcome(work, connection.recv()))


def _outcome(work: Callable[[Any], Any], task: Any) -> tuple[str, Any]:
    try:
        return "done", work(task)
    except ElmoError as error:
        return "failed", error
    except Exception:  # not every exception can be sent, but what it says can
        return "failed", RuntimeError(traceback.format_exc())


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the end of a process into one line."""
    try:
        yield
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise ElmoError(
            f"a process ended before its work was done; if memory is short, use fewer; {ADVICE}"
        ) from None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start a process that never sees Ctrl-C: it would answer with a traceback while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
