from __future__ import annotations

import ctypes
import sys

import pytest
from helpers import run_python

from elmokit import system as process_memory
from elmokit.system import (
    CAPACITIES,
    give_back_free_memory,
    give_back_large_blocks,
    peak_memory,
    remember_few_shapes,
)

LARGE_BLOCKS = """
import ctypes, sys
from elmokit.system import give_back_large_blocks
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
library = ctypes.CDLL(None)
library.mallinfo2.restype = Info
if sys.argv[1:]:
    give_back_large_blocks()
for _ in range(2):  # GNU's library keeps blocks of this size once one was given back
    block = bytearray(8 << 20)
    del block
block = bytearray(8 << 20)
print(library.mallinfo2().e >> 20)  # what lies in maps of its own
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not GNU's C library")
@pytest.mark.parametrize(("argument", "mapped"), [([], 0), (["small"], 8)])
def test_large_blocks_stay_in_maps_of_their_own(argument: list[str], mapped: int) -> None:
    assert int(run_python(LARGE_BLOCKS, *argument)) == mapped


KEPT_BLOCKS = """
import resource, sys
from elmokit.system import keep_large_blocks
if sys.argv[1:]:
    keep_large_blocks()
def step():
    return len([b"x" * (16 << 20) for _ in range(8)])
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
FEW_PAGES = 500  # a block of 16 MB has 4,096


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not GNU's C library")
@pytest.mark.parametrize(("argument", "few"), [([], False), (["keep"], True)])
def test_kept_blocks_are_not_asked_for_again(argument: list[str], few: bool) -> None:
    assert (int(run_python(KEPT_BLOCKS, *argument)) < FEW_PAGES) == few


@pytest.fixture
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CAPACITIES:
        monkeypatch.setenv(name, "of before")  # so that it is put back afterwards
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("nothing_asked")
def test_few_shapes_are_remembered_unless_a_user_asks_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CAPACITIES[0], "7")
    remember_few_shapes()
    assert [process_memory.os.environ[name] for name in CAPACITIES] == ["7", "64"]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class OtherLibrary:
        def __getattr__(self, name: str) -> object:
            asked.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(process_memory.ctypes, "CDLL", lambda name: OtherLibrary())
    give_back_large_blocks()
    give_back_free_memory()
    assert asked == ["mallopt", "mallopt", "malloc_trim"]


STARTED_BY_A_LARGE_PROCESS = """
import subprocess, sys
block = bytearray(b"1") * (300 << 20)
command = "from elmokit.system import peak_memory; print(peak_memory() >> 20)"
subprocess.run([sys.executable, "-c", command], check=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count by process")
def test_peak_memory_is_not_that_of_the_process_that_started_it() -> None:
    assert 5 < int(run_python(STARTED_BY_A_LARGE_PROCESS)) < 150


def test_peak_memory_grows_with_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = peak_memory()
    block = bytearray(b"1") * (64 << 20)
    assert before is not None
    assert peak_memory() >= max(before, len(block))
    monkeypatch.setattr(process_memory, "STATUS_FILE", process_memory.Path("no/such/file"))
    assert peak_memory() >= len(block)
