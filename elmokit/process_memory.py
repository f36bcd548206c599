"""What keeps a process small that computes for hours: what it remembers, and what it gives back."""

from __future__ import annotations

import ctypes
import os

SHAPES_REMEMBERED = 8
"""oneDNN keeps what it has made for 1,024 shapes of products unless told otherwise, and every
batch has other shapes: 100 MB that save no time."""
LARGE_BLOCK = 1 << 20
M_MMAP_THRESHOLD = -3  # of malloc.h


def keep_process_small() -> None:
    """Bound what this process keeps of memory it does not use; to be called before torch is loaded.

    The C library learns to keep ever larger blocks for later use. Those of batches differ in size,
    so they leave holes: here blocks of a megabyte or more go back to the system at once. Where the
    C library is not GNU's, it stays as it is.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(SHAPES_REMEMBERED))
    _call("mallopt", M_MMAP_THRESHOLD, LARGE_BLOCK)


def give_back_free_memory() -> None:
    """Give back to the system what the C library keeps for later use, where it is GNU's."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library, or Windows
        return
    function(*arguments)
