"""Bounds of CPU time and of memory, for what may be given anything."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FULL = "ELMO_CHAOS" in os.environ
"""Whether everything is tried as `make chaos` does: ten minutes rather than seconds."""
SEED = int(os.environ.get("ELMO_CHAOS_SEED") or random.randrange(10**6)) if FULL else 0
"""Where all that is drawn begins; printed at the head of a run, and given to repeat it."""
if FULL:  # the workers of a run have the same
    os.environ["ELMO_CHAOS_SEED"] = str(SEED)


RUNAWAY = 6 << 30
"""Bytes at which a loop in C, which no signal ends, runs out of memory rather than the machine."""


class TooLongError(BaseException):
    """More CPU time than allowed; no reader's `except Exception` stops it."""


def memory(name: str) -> int:
    """Bytes that this process has (VmRSS), or has had at most (VmHWM)."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


@contextmanager
def bounded(*, megabytes: float, seconds: float) -> Iterator[None]:
    """Fail where a block takes more CPU seconds, or more memory than there was before it."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"more than {seconds} s")

    peaks = Path("/proc/self/clear_refs")
    if counts := peaks.exists():
        peaks.write_text("5")  # the peak begins anew
        before = memory("VmRSS")
        import resource  # which Windows has not

        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + RUNAWAY, limits[1]))
    handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
        if counts:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    if counts:
        taken = memory("VmHWM") - before
        assert taken < megabytes * 2**20, f"{taken >> 20} MB"
