"""What keeps a process small that computes for hours, and how large it was at most."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

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
KEPT = 8
"""How many such blocks may stay free at the end of the heap."""
LARGEST_KEPT = 32 << 20
"""The largest block that every version of GNU's C library may be told to keep on its heap."""
FREE_AT_MOST = 1 << 30
"""What training may keep free for the next step."""
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
    if sys.platform == "linux" and (found := re.search(r"VmHWM:\s*(\d+) kB", _status())):
        return int(found[1]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _status() -> str:
    try:
        return STATUS_FILE.read_text(encoding="utf-8")
    except OSError:
        return ""


def _call(name: str, *arguments: int) -> None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library, or Windows
        return
    function(*arguments)
