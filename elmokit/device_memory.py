"""When a device has no memory left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")

# MPS and older versions of CUDA raise a plain RuntimeError, the processor's allocator too.
SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, rather than that something is wrong.

    >>> is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB)"))
    True
    """
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def give_back_memory(device: torch.device) -> None:
    """Give back to the device what torch keeps of it for later use; the processor keeps nothing."""
    backend = getattr(torch, device.type, None)
    if backend is not None and hasattr(backend, "empty_cache"):
        backend.empty_cache()


def unless_out_of_memory(run: Callable[[], Result], device: torch.device) -> Result | None:
    """What `run` gives; None where the device has no memory for it."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Only here: as long as the error is handled, it keeps the tensors of `run` in memory.
    give_back_memory(device)
    return None
