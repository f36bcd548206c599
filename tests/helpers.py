"""Helpers that tests of all folders share: files, messages of errors, processes, equal bits."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmokit.errors import ElmoError
from elmokit.jobs.progress import Observer
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import SentenceVectors

ROOT = Path(__file__).resolve().parents[1]
SLOWLY = 100
"""Seconds that a process may take on a busy machine."""


# Files


def write(path: Path, contents: str | bytes | Iterable[str] = "") -> Path:
    """Write a file and the folders above it; gives its path.

    Text is UTF-8 with the line ends that it has, compressed where the name ends in `.gz`; a list
    holds lines. Bytes are written as they are.
    """
    if not isinstance(contents, str | bytes):
        contents = "".join(f"{line}\n" for line in contents)
    if isinstance(contents, str):
        data = contents.encode()
        contents = gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return path


def write_sentences(path: Path, sentences: Iterable[Iterable[str]]) -> str:
    """Write tokenized text, a sentence per line; gives the name of the file."""
    return str(write(path, [" ".join(words) for words in sentences]))


def files_in(folder: Path) -> dict[str, bytes]:
    """The contents of all files under a folder, by their names there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a full disk; not on Windows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


# Errors


def error_of(
    call: Callable[..., object],
    *arguments: Any,
    kind: type[BaseException] | tuple[type[BaseException], ...] = ElmoError,
    after: object = "",
    **named: Any,
) -> str:
    """The message of the error that a call raises; that it is one line is checked in all tests.

    `after` is what the message must begin with, such as a path; the rest of it is given.
    """
    with pytest.raises(kind) as error:
        call(*arguments, **named)
    message = str(error.value)
    assert message.startswith(str(after)), message
    return message.removeprefix(str(after))


# Progress


class Heard(Observer):
    """Remembers all that it is told.

    Args:
        then: Called after every step of a stage, and given this.
    """

    def __init__(self, then: Callable[[Heard], object] | None = None) -> None:
        self.then = then
        self.stages: dict[str, list[tuple[int, int | None]]] = {}  # what was done of each
        self.units: dict[str, str] = {}
        self.notes: list[str] = []
        self.measured: list[dict[str, float]] = []
        self.validations: list[dict[str, float]] = []
        self._open: list[str] = []

    def begin(self, stage: str, unit: str, total: int | None, done: int) -> None:
        self.stages.setdefault(stage, []).append((done, total))
        self.units[stage] = unit
        self._open.append(stage)

    def advance(self, done: int, total: int | None = None) -> None:
        self.stages[self._open[-1]].append((done, total))
        if self.then is not None:
            self.then(self)

    def end(self) -> None:
        self._open.pop()

    def metrics(self, **values: float) -> None:
        self.measured.append(values)

    def validation(self, result: str, best: bool, **values: float) -> None:
        self.validations.append({"best": best, **values})

    def note(self, message: str) -> None:
        self.notes.append(message)


# The command in this process: its fixtures are in tests/cli/conftest.py

Elmo = Callable[..., tuple[int, str, str]]
Prints = Fails = Callable[..., str]


def set_flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings by their dotted names, as the command takes them."""
    return [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]


# Processes of their own


def run_python(
    program: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> str:
    """What a program prints that runs in a process of its own, and ends well.

    `environment` replaces the variables of this process.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        env=dict(os.environ if environment is None else environment),
        capture_output=True,
        text=True,
        timeout=SLOWLY,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(program: str, names: Iterable[str], *arguments: object) -> set[str]:
    """Which modules of these names a program has loaded when it ends."""
    printed = run_python(f"{program}\nimport sys\nprint(*sys.modules)", *arguments)
    return set(printed.splitlines()[-1].split()) & set(names)


# Numbers


def assert_same_bits(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """The same names, and behind each a tensor or array of the same type, shape and bytes."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        one, other = as_numpy(found[name]), as_numpy(value)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), name
        assert one.tobytes() == other.tobytes(), name


def as_numpy(values: Any) -> np.ndarray:
    if not isinstance(values, torch.Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return values.view(torch.int16).numpy() if values.dtype == torch.bfloat16 else values.numpy()


def read_vectors(path: str | Path) -> list[SentenceVectors]:
    """All of what a file of vectors has, in its order."""
    with open_vectors(path) as file:
        return list(file)
