"""CPUs and threads: how many this process may use, and how its threads wait for each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from elmokit.errors import InputError

VARIABLE = "ELMOKIT_THREADS"
THREADS_PER_CPU = 4
"""More only wait for each other; some hundred thousand end in a segmentation fault."""
WAITING = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}
"""How long a thread of OpenMP (GNU's in turns of a loop, LLVM's and Intel's in milliseconds) looks
for work before it sleeps. Beside a busy process the other half of its work may be scheduled out:
GNU's 300,000 turns are then spent for nothing at the end of every small operation."""
WAITING_CHOSEN = ("OMP_WAIT_POLICY", *WAITING)
PROC = Path("/proc/self")  # of Linux


class Mount(NamedTuple):
    """A hierarchy of control groups in the file system."""

    root: PurePosixPath  # the group that is shown at `point`
    point: Path
    version: int


def usable_cpus() -> int:
    """How many CPUs this process may use: those it is bound to, or the whole ones of its quota."""
    if hasattr(os, "sched_getaffinity"):
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    quota = cpu_quota()
    return bound if quota is None else max(1, min(bound, int(quota)))


def cpu_quota(proc: Path = PROC) -> float | None:
    """The CPUs that control groups, of version 1 or 2, grant this process; None without a limit."""
    try:
        groups = _lines(proc / "cgroup")
        mounts = [mount for line in _lines(proc / "mountinfo") if (mount := _mount(line))]
        quotas: list[float] = []
        for line in groups:
            _, controllers, path = line.split(":", 2)
            version = 1 if "cpu" in controllers.split(",") else 2 if not controllers else None
            for mount in mounts:
                if mount.version == version:
                    quotas += _quotas(mount, PurePosixPath(path))
    except (OSError, ValueError):  # another system, or one that imitates Linux
        return None
    return min(quotas, default=None)


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    return [line for line in text.split("\n") if line]


def _mount(line: str) -> Mount | None:
    """What a line of mountinfo says of a hierarchy that has the controller `cpu`, or may have it.

    Its fields are of proc(5): the fourth and fifth are root and mount point; behind " - " are the
    file system's type, its source and its options.
    """
    before, _, after = line.partition(" - ")
    root, point = before.split()[3:5]
    kind, _, options = after.split(" ", 2)
    if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
        point = point.replace("\\040", " ")
        return Mount(PurePosixPath(root), Path(point), 2 if kind == "cgroup2" else 1)
    return None


def _quotas(mount: Mount, group: PurePosixPath) -> Iterator[float]:
    """The quotas of a group and of all groups around it, as far as they are shown."""
    # In a container the group may be named as its host sees it, and be the root of what is shown.
    below = group.relative_to(mount.root) if group.is_relative_to(mount.root) else PurePosixPath()
    for part in (below, *below.parents):
        quota = _quota(mount.point / part, mount.version)
        if quota is not None:
            yield quota


def _quota(folder: Path, version: int) -> float | None:
    """Of one group, its microseconds in each period; version 1 has -1, 2 has "max" for no limit."""
    files = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    try:
        quota, period = map(float, " ".join((folder / file).read_text() for file in files).split())
    except (OSError, ValueError):  # no such group, or no limit
        return None
    return quota / period if quota > 0 and period > 0 else None


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
        quota = cpu_quota()
        limited = quota is not None and quota < (os.cpu_count() or 1)
        threads = usable_cpus() if limited and "OMP_NUM_THREADS" not in os.environ else None
    if threads is None:
        return  # torch's own default knows cores from hyperthreads, and affinity
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
