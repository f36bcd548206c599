from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_models import write_language_model

from elmokit.cli import main


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
    return run


@pytest.fixture
def fails(elmo: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
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
