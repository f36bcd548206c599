from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from chaos.bounds import FULL, SEED

from elmokit.errors import ElmoError, ElmoWarning
from elmokit.model.products import FBGEMMProduct, leave_out_undescribed_tiles, weight_levels, works

leave_out_undescribed_tiles()  # before the first product in bfloat16 that a test makes

numbers = itertools.count()


def one_line_only(kind: type[ElmoError] | type[ElmoWarning]) -> None:
    """Every message of an error or a warning of this kind, in whatever test, is one line."""
    make = kind.__init__

    def check(error: Exception, message: object = "", *arguments: object, **values: object) -> None:
        lines = str(message).splitlines()
        assert len(lines) == 1, f"the message of {type(error).__name__} is {lines}"
        make(error, message, *arguments, **values)

    kind.__init__ = check


one_line_only(ElmoError)
one_line_only(ElmoWarning)


LONG_FILES = (
    *("service/test_page.py", "test_other_cpus.py", "pretraining/test_resume.py"),
    *("test_side_effects.py", "tasks/test_training.py", "bulk/test_pipeline.py"),
)


class Quickly:
    """What spares time in every test, and in examples in documents, which no fixture here reaches.

    Products this small lose by being shared: on a busy machine threads await each other. The
    number is set for each test, since commands set that of the process that they run in.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        torch.set_num_threads(1)

    def pytest_collection(self) -> None:
        gc.disable()  # half a million objects come, and none goes

    def pytest_collection_finish(self) -> None:
        gc.enable()
        gc.freeze()  # nor does any of them in a test


@functools.wraps(os.fsync)
def stay_in_memory(descriptor: int) -> None:
    """In place of `os.fsync`: nobody pulls the plug, and what is killed has written to memory."""


MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # disks take long to delete
    config.option.loadscopereorder = False  # xdist would hand out files of a single test last
    config.pluginmanager.register(Quickly())
    os.fsync = stay_in_memory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, so that no worker is left with one when the others have ended."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG_FILES))


def pytest_report_header() -> list[str]:
    levels = weight_levels(FBGEMMProduct) if works(FBGEMMProduct) else "no"
    capability = torch.backends.cpu.get_cpu_capability()
    kernels = f"torch multiplies with {capability}, and 8-bit weights of {levels} levels"
    return [kernels, *([f"chaos: ELMO_CHAOS_SEED={SEED}"] if FULL else [])]


@contextmanager
def own_cache(factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMOKIT_CACHE", str(factory.getbasetemp() / f"cache-{next(numbers)}"))
        yield patch


@pytest.fixture(scope="session", autouse=True)
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For fixtures of a module: a cache that is not the user's, and no pictures, as in tests."""
    with own_cache(tmp_path_factory) as patch:
        for name in ("elmokit.pretraining.run", "elmokit.tasks.run"):
            if name in sys.modules:  # as a test module has imported it
                drawn[name] = sys.modules[name].draw
                patch.setattr(sys.modules[name], "draw", lambda *_: None)
        yield


drawn: dict[str, object] = {}


@pytest.fixture(autouse=True)
def _own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Each test downloads and prepares into a cache of its own.

    Runs draw their curves only in tests marked `pictures`: that takes longer than a small run.
    The fixture `monkeypatch` is not used: what a test patches is put back before this.
    """
    with own_cache(tmp_path_factory) as patch:
        if request.node.get_closest_marker("pictures"):
            for name, draw in drawn.items():
                patch.setattr(sys.modules[name], "draw", draw)
        yield
