"""Matrix tiles (AMX) that a CPU announces but does not describe.

Some virtual machines announce tiles and hide the table of their sizes. oneDNN then sets up tiles of
no size, and the first product in bfloat16 or 8 bits ends the process with an illegal instruction.
Told to do without tiles, it computes with AVX-512.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from functools import cache

import torch

INSTRUCTIONS = "ONEDNN_MAX_CPU_ISA"
"""The variable that bounds what oneDNN uses; it is read before the first product."""
WITHOUT_TILES = "AVX512_CORE_BF16"
CPUID = bytes.fromhex("53 89f8 89f1 0fa2 48c1e220 89c0 4809d0 5b c3")
"""f(leaf, part): the CPU's answer, eax in the lower half and edx in the upper."""
FEATURES, TILE_SIZES = 7, 0x1D  # leaves
TILES = 1 << (32 + 24)  # a bit of edx


@cache
def leave_out_undescribed_tiles() -> bool:
    """Have oneDNN do without tiles where their sizes are hidden; whether that is so.

    A choice of the user's stays.
    """
    if not are_undescribed():
        return False
    os.environ.setdefault(INSTRUCTIONS, WITHOUT_TILES)
    return True


def are_undescribed() -> bool:
    """Whether the CPU announces tiles, and says nothing of their sizes."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        highest_leaf = ask_cpu(0, 0) & 0xFFFFFFFF
        if not ask_cpu(FEATURES, 0) & TILES:
            return False
        return highest_leaf < TILE_SIZES or not ask_cpu(TILE_SIZES, 0) & 0xFFFFFFFF
    except OSError:  # a system that runs no code made at run time: nothing can be asked
        return False


def ask_cpu(leaf: int, part: int) -> int:
    """What the instruction CPUID answers: eax, and edx above it."""
    with mmap.mmap(
        -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    ) as code:
        code.write(CPUID)
        begin = ctypes.c_char.from_buffer(code)
        prototype = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        answer = prototype(ctypes.addressof(begin))(leaf, part)
        del begin  # the map cannot be closed while something points into it
    return int(answer)


@cache
def obeys() -> bool:
    """Whether oneDNN leaves tiles out: False if it had computed before it was told.

    What it says of float16, which comes after bfloat16 and before tiles, tells how far it goes.
    """
    return onednn_has("fp16") is False


def onednn_has(numbers: str) -> bool | None:
    """Whether oneDNN multiplies such numbers, as far as it was told to; None if it does not say."""
    question = getattr(torch.ops.mkldnn, f"_is_mkldnn_{numbers}_supported", None)
    return None if question is None else bool(question())
