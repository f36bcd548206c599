from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import SLOWLY, Elmo, Fails, Prints
from small_models import write_language_model
from static.small_vectors import small_vectors

from elmokit.cli import main, progress


@pytest.fixture
def every_line(monkeypatch):
    """Show all progress, though it is quick."""
    for name in ("BEFORE_FIRST_LINE", "BETWEEN_LINES", "BEFORE_REST"):
        monkeypatch.setattr(f"elmokit.cli.progress.SECONDS_{name}", 0.0)


@pytest.fixture
def elmo(monkeypatch, capsys):
    """Run the command; give its exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["elmo", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code or 0, output.out, output.err

    monkeypatch.setattr("warnings.showwarning", None)  # main() replaces it; put it back afterwards
    if progress.SECONDS_BEFORE_FIRST_LINE:  # what takes long on a busy machine is no test's matter
        monkeypatch.setattr(progress, "SECONDS_BEFORE_FIRST_LINE", float(SLOWLY))
    return run


@pytest.fixture
def prints(elmo: Elmo) -> Prints:
    """Run a command that must succeed; give its standard output."""

    def run(*arguments: str) -> str:
        code, out, err = elmo(*arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def prints_only(elmo: Elmo) -> Prints:
    """The same of a command that must say nothing on standard error."""

    def run(*arguments: str) -> str:
        code, out, err = elmo(*arguments)
        assert (code, err) == (0, "")
        return out

    return run


class Typing(io.RawIOBase):
    """Standard input whose last line comes when the first has been answered."""

    def __init__(self, first: bytes, last: bytes) -> None:
        self.lines, self.answers = [first * 100, last], io.BytesIO()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if len(self.lines) == 1:  # waits where another thread computes, which a busy one may be
            end = time.monotonic() + SLOWLY
            while b"\n" not in self.answers.getvalue():
                assert threading.current_thread() is not threading.main_thread()
                assert time.monotonic() < end
                time.sleep(0.01)
        line = self.lines.pop(0) if self.lines else b""
        buffer[: len(line)] = line
        return len(line)


@pytest.fixture
def answers_at_once(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """The answers, as JSON, of a command to a line that comes 100 times, and to a last one."""

    def run(first: str, last: str, *arguments: str) -> list[Any]:
        typing = Typing(f"{first}\n".encode(), f"{last}\n".encode())
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(typing)))
            # What is not flushed is not seen yet.
            patch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(typing.answers)))
            assert elmo(*arguments)[0] == 0
            sys.stdout.flush()
        return [json.loads(line) for line in typing.answers.getvalue().splitlines()]

    return run


@pytest.fixture
def fails(elmo: Elmo) -> Fails:
    """Run a command that must fail as a user can fix; give its one line."""

    def run(*arguments: str) -> str:
        code, out, err = elmo(*arguments)
        assert (code, out) == (1, "")
        assert err.startswith("elmo: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The folder of a small model with a softmax."""
    return write_language_model(tmp_path / "model")


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """A file of static vectors."""
    small_vectors().save(tmp_path / "glove.txt")
    return str(tmp_path / "glove.txt")
