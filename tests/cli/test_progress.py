from __future__ import annotations

import io

import pytest

from elmokit.cli.progress import Bytes, Sentences


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_says_how_much_how_fast_and_how_long():
    progress = Sentences("embedding")
    assert (
        progress.describe(50, 200, 10.0)
        == "50 sentences of 200 sentences, 5 sentences/s, 30 s left"
    )
    assert Bytes("fetching").describe(3_000_000, None, 2.0) == "3.0 MB, 1.5 MB/s"


@pytest.mark.parametrize(
    ("stream", "start"), [(Terminal(), "\rfetching"), (io.StringIO(), "fetching")]
)
def test_a_terminal_is_renewed_and_a_log_gets_lines(monkeypatch, stream, start):
    monkeypatch.setattr("sys.stderr", stream)
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Bytes("fetching") as progress:
        progress(1_000_000, 2_000_000)
    assert stream.getvalue().startswith(start)
    assert stream.getvalue().endswith("\n")


def test_quiet_shows_nothing(monkeypatch, capsys):
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Bytes("fetching", quiet=True) as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""
