from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from elmokit import process_memory
from elmokit.process_memory import give_back_free_memory, keep_process_small

LARGE_BLOCKS = """
import ctypes, sys
from elmokit.process_memory import keep_process_small
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
library = ctypes.CDLL(None)
library.mallinfo2.restype = Info
if sys.argv[1:]:
    keep_process_small()
for _ in range(2):  # GNU's library keeps blocks of this size once one was given back
    block = bytearray(8 << 20)
    del block
block = bytearray(8 << 20)
print(library.mallinfo2().e >> 20)  # what lies in maps of its own
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not GNU's C library")
@pytest.mark.parametrize(("argument", "mapped"), [([], 0), (["small"], 8)])
def test_large_blocks_stay_in_maps_of_their_own(argument: list[str], mapped: int) -> None:
    command = [sys.executable, "-c", LARGE_BLOCKS, *argument]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) == mapped


def test_what_a_user_asked_of_onednn_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    keep_process_small()
    assert process_memory.os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"


def test_onednn_is_asked_to_remember_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "of before")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    keep_process_small()
    assert process_memory.os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "8"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class OtherLibrary:
        def __getattr__(self, name: str) -> object:
            asked.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(process_memory.ctypes, "CDLL", lambda name: OtherLibrary())
    keep_process_small()
    give_back_free_memory()
    assert asked == ["mallopt", "malloc_trim"]
