"""What imports leave in a process, as JSON: `test_side_effects` runs this in fresh ones.

`python imported_state.py` imports every module of elmokit, and then has those other packages
imported that it imports when first needed. `python imported_state.py NAMES.json` imports, plainly,
the modules of those names.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import logging
import os
import pkgutil
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "elmokit"
LATER = ("sentencex", "lancedb")
MAY_BE_MISSING = ("spacy", "sentence_transformers")
environment_before = dict(os.environ)
mapped: list[str] = []


def note_mapped_memory(event: str, arguments: tuple[Any, ...]) -> None:
    """Note who maps memory that belongs to no file, as code that is made at run time does."""
    if event == "mmap.__new__" and arguments[0] == -1:
        mapped.append(sys._getframe(1).f_globals["__name__"])


def import_package() -> None:
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        # The library of an adaptor may not be here.
        missing = found.name.startswith(f"{PACKAGE}.adaptors.") and (
            found.name.rpartition(".")[2] in MAY_BE_MISSING
        )
        if not found.name.endswith(".__main__") and not missing:
            importlib.import_module(found.name)


def use_what_is_imported_later() -> None:
    from elmokit.analysis.neighbours.store import import_lancedb
    from elmokit.text.tokenizer import DefaultTokenizer

    DefaultTokenizer().words("I can't")
    import_lancedb()


def import_plainly(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # some have no file: their package makes them
            importlib.import_module(name)


def state() -> dict[str, Any]:
    """What a process has one of, for all who run in it."""
    import torch

    from_torch = vars(importlib.import_module("torch.optim.optimizer")) | vars(
        importlib.import_module("torch.nn.modules.module")
    )
    return {
        "environment": sorted(os.environ.items() ^ environment_before.items()),
        "hooks": [name for name, hooks in from_torch.items() if "_global_" in name and hooks],
        "warnings": sorted(map(str, warnings.filters)),
        "showwarning": warnings.showwarning.__module__,
        "signals": [f"{s} {signal.getsignal(s)}" for s in sorted(signal.valid_signals())],
        "excepthooks": [sys.excepthook.__module__, threading.excepthook.__module__],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "finders": [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path],
        "at exit": atexit._ncallbacks(),
        "logging": [logging.root.level, *map(str, logging.root.handlers)],
        "recursion": sys.getrecursionlimit(),
        "torch": [
            torch.get_num_threads(),
            torch.get_num_interop_threads(),
            str(torch.get_default_dtype()),
            str(torch.get_default_device()),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.mkldnn.enabled,
        ],
    }


def modules() -> dict[str, Any]:
    """Where every module of another package comes from, and what of it is ours."""
    ours = {PACKAGE, "__main__", "__mp_main__"}
    others = [(n, m) for n, m in sys.modules.items() if n.split(".")[0] not in ours]
    with warnings.catch_warnings(action="ignore"):  # some only warn that they are deprecated
        return {name: origin(module) for name, module in others}


def origin(module: ModuleType) -> dict[str, Any]:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    return {
        "kind": type(module).__qualname__,
        "file": str(getattr(module, "__file__", None)),
        "loader": getattr(loader, "__name__", type(loader).__name__),
        "ours": [name for name, value in vars(module).items() if is_ours(value)],
    }


def is_ours(value: object) -> bool:
    home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
    return isinstance(home, str) and home.split(".")[0] == PACKAGE


if __name__ == "__main__":
    plain = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    sys.addaudithook(note_mapped_memory)
    import_plainly(plain[0]) if plain else import_package()
    found = {"state": state(), "modules": modules(), "mapped": mapped[:]}
    import_plainly(LATER) if plain else use_what_is_imported_later()
    sys.stdout.write(json.dumps({**found, "modules later": modules()}))
