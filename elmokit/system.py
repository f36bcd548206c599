"""The process: stop requests, threads, memory settings of long runs, prefetch, process pool."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from queue import Full, Queue
from threading import Event, Thread
from types import FrameType
from typing import Any, TypeVar

from elmokit.errors import ElmoError, InputError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody has asked to stop: it is `made` then."""

    made = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember the first signal; a second one does not wait for the step to end."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Collect signals for the time of a block; only the main thread may do so."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    # What the process is to ignore stays ignored.
    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, request.note) for number in heard}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


SHAPES_REMEMBERED = 64
"""oneDNN keeps what it has made for 1,024 shapes of products unless told otherwise, and torch's
layer above it for 1,024 too: some 140 MB. To make it again costs about a millisecond, so whoever
computes small batches of sentences of all lengths wants all of it; batches of like lengths need
little of it."""
SHAPES_OF_A_SERVICE = 160
"""Turns of up to 64 sentences, mixed in length, have a step of nearly every number of rows, and two
products in each; some are left for the inputs'. Every thread that computes keeps its own."""
CAPACITIES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
LARGE_BLOCK = 1 << 20
KEPT = 8  # how many such blocks may stay free at the end of the heap
LARGEST_KEPT = 32 << 20
"""The largest block that every version of GNU's C library may be told to keep on its heap."""
FREE_AT_MOST = 1 << 30  # what training may keep free for the next step
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
STATUS_FILE = Path("/proc/self/status")  # of Linux


def remember_few_shapes(count: int = SHAPES_REMEMBERED) -> None:
    """Bound what is kept of shapes of products already met; to be called before torch is loaded."""
    for name in CAPACITIES:
        os.environ.setdefault(name, str(count))


def give_back_large_blocks(size: int = LARGE_BLOCK) -> None:
    """Have the C library give blocks of this size or more back to the system at once.

    It learns to keep ever larger blocks for later use. Those of batches differ in size, so they
    leave holes. Where it is not GNU's library, it stays as it is. The last call counts.
    """
    _call("mallopt", M_MMAP_THRESHOLD, size)
    # Once the first is set, this one would be 128 kB: every step would return its memory.
    _call("mallopt", M_TRIM_THRESHOLD, KEPT * size)


def keep_large_blocks() -> None:
    """Have the C library keep what a step of training gave back for the next step.

    It would return large blocks to the system, and get them again page by page, each of which the
    system has to clear.
    """
    _call("mallopt", M_MMAP_THRESHOLD, LARGEST_KEPT)
    _call("mallopt", M_TRIM_THRESHOLD, FREE_AT_MOST)


def give_back_free_memory() -> None:
    """Give back to the system what the C library keeps for later use, where it is GNU's."""
    _call("malloc_trim", 0)


def peak_memory() -> int | None:
    """The most memory this process has had, in bytes; None where the system does not tell.

    On Linux, getrusage's number would be that of the process which started this one, if it is more.
    """
    if sys.platform == "win32":
        return None
    with suppress(OSError):
        if found := re.search(r"VmHWM:\s*(\d+) kB", STATUS_FILE.read_text(encoding="utf-8")):
            return int(found[1]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _call(name: str, *arguments: int) -> None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library, or Windows
        return
    function(*arguments)


Item = TypeVar("Item")
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_END = 2.0


def prefetch(items: Iterator[Item], ahead: int = 2) -> Iterator[Item]:
    """The same items, made some ahead in a thread, which ends with them; its errors come here."""
    ready: Queue[Item | BaseException | None] = Queue(ahead)
    closed = Event()

    def put(item: Item | BaseException | None) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=SECONDS_BETWEEN_LOOKS)
            except Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = Thread(target=make, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        # A maker that waits for a pipe to say something is left to end with the process.
        thread.join(SECONDS_TO_END)


VARIABLE = "ELMOKIT_THREADS"
THREADS_PER_CPU = 4
"""More only wait for each other; some hundred thousand end in a segmentation fault."""
WAITING = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}
"""How long a thread of OpenMP (GNU's in turns of a loop, LLVM's and Intel's in milliseconds) looks
for work before it sleeps. Beside a busy process the other half of its work may be scheduled out:
GNU's 300,000 turns are then spent for nothing at the end of every small operation."""
WAITING_CHOSEN = ("OMP_WAIT_POLICY", *WAITING)
OWN_GROUPS, ALL_GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # of Linux


def usable_cpus() -> int:
    """How many CPUs this process may use: those it is bound to, or the whole ones of its quota."""
    if hasattr(os, "sched_getaffinity"):
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    return max(1, int(min(bound, cpu_quota())))


def cpu_quota(own_groups: Path = OWN_GROUPS, all_groups: Path = ALL_GROUPS) -> float:
    """The CPUs that control groups, of version 1 or 2, grant this process; or infinity."""
    quotas = []
    try:
        for line in own_groups.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = all_groups / "cpu" if controllers else all_groups
            group = PurePosixPath(path.lstrip("/"))
            # In a container the group may be named as its host sees it, and be the root here.
            quotas += [_quota(root / outer) for outer in (group, *group.parents)]
    except (OSError, ValueError):  # another system, or one that imitates Linux
        return math.inf
    return min(quotas, default=math.inf)


def _quota(group: Path) -> float:
    """A group's microseconds in each period: version 1 has -1, 2 has "max" for no limit."""
    for files in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):  # no such file, or no limit
            numbers = " ".join((group / file).read_text() for file in files)
            quota, period = map(float, numbers.split())
            return quota / period if quota > 0 else math.inf
    return math.inf


def check_threads(threads: int) -> int:
    """Raise where a number of threads is far above the number of CPUs."""
    cpus = os.cpu_count() or 1
    if not 1 <= threads <= THREADS_PER_CPU * cpus:
        raise InputError(
            f"{threads:,} threads are asked for (--threads or {VARIABLE}); this machine has "
            f"{cpus} CPUs; choose 1 to {THREADS_PER_CPU * cpus}"
        )
    return threads


def use_threads(threads: int | None) -> None:
    """Compute with so many threads; None for as many as a quota of CPUs allows."""
    if threads is None:
        if cpu_quota() >= (os.cpu_count() or 1) or "OMP_NUM_THREADS" in os.environ:
            return  # torch's own default knows cores from hyperthreads, and affinity
        threads = usable_cpus()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    else:  # loading it takes a while, and may turn out to be for nothing
        os.environ["OMP_NUM_THREADS"] = str(threads)


def wait_briefly() -> None:
    """Have OpenMP's threads sleep soon, unless the user has chosen; to be called before torch."""
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING_CHOSEN):
        os.environ.update(WAITING)


@contextmanager
def computing_with(threads: int | None) -> Iterator[None]:
    """Compute with so many threads for the time of a block; None for as many as before."""
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(check_threads(threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""Libraries that are installed by another name than they are imported by."""


def import_extra(module: str, extra: str, library: str | None = None) -> Any:
    """A module of a library that an extra installs; one line says how where it is missing."""
    top, in_range = module.partition(".")[0], False
    try:
        check_version(top, extra)
        in_range = True
        return import_module(module)
    except (ImportError, ValueError) as error:  # NumPy of another version is a ValueError
        library, name = library or top, distribution_of(top)
        # Where elmokit is installed, from a wheel or a folder, pip asks no index for it.
        problem, install = "is not installed", f'"elmokit[{extra}]"'
        if sys.modules.get(module, top) is not None and find_spec(top) is not None:
            missing = (isinstance(error, ModuleNotFoundError) and error.name) or top
            of_its_own = name in needed_versions(extra) and missing.partition(".")[0] == top
            install = f"--force-reinstall --no-deps {name}" if in_range and of_its_own else install
            problem = "cannot be imported" if in_range else "is of another version than needed"
            problem += f" ({' '.join(str(error).split())})"
        problem = f"{library} {problem}; run: pip install {install}"
        raise InputError(problem, "missing_library", library=library, extra=extra) from error


def distribution_of(module: str) -> str:
    """What a library is installed by."""
    return DISTRIBUTIONS.get(module, module.replace("_", "-"))


@cache  # reads the library's METADATA; what raises is read again
def check_version(module: str, extra: str) -> None:
    """Raise ImportError where a library is there in a version that its extra does not take."""
    from importlib.metadata import PackageNotFoundError, version

    name = distribution_of(module)
    with suppress(PackageNotFoundError):  # the import says so
        found, wanted = version(name), needed_versions(extra).get(name, "")
        for sign, bound in re.findall(r"(>=|<)([\d.]+)", wanted) if found[:2] != "0+" else ():
            if (numbers_of(found) >= numbers_of(bound)) != (sign == ">="):
                raise ImportError(f"{found}, not {wanted}")


@cache
def needed_versions(extra: str) -> dict[str, str]:
    """What an extra wants of each library: `{"spacy": "<4,>=3.8"}`."""
    from importlib.metadata import PackageNotFoundError, requires

    lines: list[str] = []
    with suppress(PackageNotFoundError):  # run from its source, not installed
        lines = [line for line in requires("elmokit") or () if f'extra == "{extra}"' in line]
    named = (re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;\s]*)", line) for line in lines)
    return {one[1].replace("_", "-"): one[2] for one in named if one}


def numbers_of(version: str) -> list[int]:
    """What versions are compared by: `[1, 22, 0]` of "1.22rc1"."""
    numbers = re.findall(r"\d+", re.split(r"[^\d.]", version)[0])
    return [*map(int, numbers), 0, 0, 0][:3]


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "word"), counted(2000, "word")
    ('1 word', '2,000 words')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


ADVICE = 'in a script of your own, call this under if __name__ == "__main__", or with processes=1'

Task = TypeVar("Task")
Result = TypeVar("Result")


def check_may_start_processes() -> None:
    """Raise where processes are to be started in one that is itself still starting.

    Such a process runs the script of the one that started it, up to the call that started it:
    without a guard it would start processes in turn, or wait for a lock that its starter holds.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ElmoError(f"processes are started while a script is imported; {ADVICE}")


def work_in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], processes: int
) -> Generator[Result, None, None]:
    """The results of all tasks, in the order in which they get done.

    One task is taken ahead of those that are worked on. One process is this one. `work` is a
    function of a module, or a `functools.partial` of one.
    """
    if processes == 1:
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    theirs, ours = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(processes, context, _begin_worker, (theirs,))
    running: set[Future[Result]] = set()
    try:
        for task in tasks:
            with _explained(), _without_interrupts():
                running.add(executor.submit(work, task))
            if len(running) > processes:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from _results(done)
        yield from _results(as_completed(running))
    finally:
        ours.close()  # which ends the workers, whatever they do
        executor.shutdown(cancel_futures=True)
        theirs.close()


def _begin_worker(open_meanwhile: Connection) -> None:
    """Leave Ctrl-C to the process that started this one, and end when it ends or says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_when_closed, args=(open_meanwhile,), daemon=True).start()


def _exit_when_closed(connection: Connection) -> None:
    with suppress(EOFError, OSError):
        connection.recv_bytes()
    os._exit(1)


def _results(futures: Iterable[Future[Result]]) -> Iterator[Result]:
    for future in futures:
        with _explained():
            result = future.result()
        yield result


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the end of a process into one line."""
    try:
        yield
    except BrokenProcessPool:
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
