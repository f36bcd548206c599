from __future__ import annotations

import io
import sys
import time

import pytest

from elmokit.cli import say
from elmokit.cli.progress import (
    DownloadProgress,
    EmbeddingProgress,
    Passes,
    ScoringProgress,
    duration,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_says_how_much_how_fast_and_how_long():
    progress = ScoringProgress("embedding")
    assert (
        progress.describe(50, 200, 10.0)
        == "50 sentences of 200 sentences, 5 sentences/s, 30 s left"
    )
    assert DownloadProgress("fetching").describe(3_000_000, None, 2.0) == "3.0 MB, 1.5 MB/s"


@pytest.mark.parametrize(
    ("stream", "start"), [(Terminal(), "\rfetching"), (io.StringIO(), "fetching")]
)
def test_a_terminal_is_renewed_and_a_log_gets_lines(monkeypatch, stream, start):
    monkeypatch.setattr("sys.stderr", stream)
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with DownloadProgress("fetching") as progress:
        progress(1_000_000, 2_000_000)
    assert stream.getvalue().startswith(start)
    assert stream.getvalue().endswith("\n")


def test_a_note_stands_over_an_open_line_of_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    say("note: a")
    assert sys.stderr.getvalue() == "\relmo: note: a".ljust(80) + "\n"
    monkeypatch.setattr("sys.stderr", io.StringIO())
    say("note: a")
    assert sys.stderr.getvalue() == "elmo: note: a\n"


def test_the_end_is_shown_where_the_beginning_was(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    clock = iter([0.0, 20.0, 20.0, 20.0, 20.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with ScoringProgress("scoring") as progress:
        progress(1, 4)
        progress(4, 4)
    assert "4 sentences of 4" in sys.stderr.getvalue()


def test_another_pass_begins_with_a_rate_of_its_own(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Passes("reading") as progress:
        progress(5_000_000, None)
        progress(1, None)  # of the next pass, at no time after its beginning
        before = stream.getvalue()
        assert "0.0 MB" not in before
        progress(2_000_000, None)
    assert "2.0 MB, 0.1 MB/s" in stream.getvalue().removeprefix(before)


def test_one_thing_is_no_plural():
    assert ScoringProgress("scoring").describe(1, None, 1.0) == "1 sentence, 1 sentence/s"


def test_no_time_is_told_before_there_is_a_rate():
    assert "left" not in DownloadProgress("fetching").describe(1_000_000, 3_000_000, 1.0)


def test_embedding_shows_itself_soon_though_the_first_batch_takes_long(monkeypatch, capsys):
    monkeypatch.setattr("elmokit.cli.progress.SECONDS_BEFORE_FIRST_LINE", 0.01)
    with EmbeddingProgress("embedding"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "embedding: the first sentences are being computed\n"


def test_quiet_shows_nothing(monkeypatch, capsys):
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with DownloadProgress("fetching", quiet=True) as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0 s"), (99, "99 s"), (110, "1.8 min"), (3000, "50 min"), (6000, "1.7 h")],
)
def test_time_is_shown_in_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
