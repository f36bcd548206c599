from __future__ import annotations

import sys

import pytest

from elmokit.cli import main


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
