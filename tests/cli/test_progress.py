from __future__ import annotations

import io
import time

import pytest
from helpers import error_of

from elmokit.cli import say
from elmokit.cli.options import loading
from elmokit.cli.progress import Display, Lines
from elmokit.errors import StoppedError
from elmokit.jobs.progress import duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("unit", "first", "done", "total", "seconds", "line"),
    [
        ("sentence", 0, 50, 200, 10.0, "50 of 200 sentences, 5 sentences/s, 30 s left"),
        ("sentence", 0, 1, None, 1.0, "1 sentence, 1 sentence/s"),
        ("byte", 0, 3_000_000, None, 2.0, "3.0 MB, 1.5 MB/s"),
        ("byte", 0, 1_000_000, 3_000_000, 1.0, "1.0 of 3.0 MB, 1.0 MB/s"),  # too soon to say more
        ("step", 40, 60, 100, 10.0, "60 of 100 steps, 2 steps/s, 20 s left"),  # resumed
        ("step", 0, 10, 20, 35.0, "10 of 20 steps, 3.5 s/step, 35 s left"),
        ("step", 0, 0, 100, 10.0, "0 of 100 steps"),
    ],
)
def test_a_line_says_how_much_how_fast_and_how_long(unit, first, done, total, seconds, line):
    stage = Lines("work", unit, total, first)
    stage.close()
    stage.done = done
    assert stage.describe(seconds) == f"work: {line}"


def test_a_bar_moves_on_a_terminal_and_vanishes(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Display().stage("fetching", "byte") as progress:
        for done in range(1, 5):
            progress(done * 1_000_000, 4_000_000)
            time.sleep(0.15)
    shown = terminal.getvalue()
    assert "fetching:  75%|" in shown
    assert "2.00M/4.00M" in shown
    assert "fetching: 100%|" in shown
    assert shown.split("\r")[-2].strip() == ""


def test_notes_and_warnings_stand_above_the_bars_of_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Display() as shown, shown.stage("training", "step", 10) as progress:
        shown.metrics(loss=0.25, words_per_second=1000.0)
        progress(1, None)
        with shown.stage("reading held-out text", "sentence", 5):
            shown.validation("step 1: perplexity 12", best=True)
            say("note: a")
    assert "step 1: perplexity 12, the best so far\n" in terminal.getvalue()
    assert "elmo: note: a\n" in terminal.getvalue()
    assert "loss 0.25, 1,000 words/s" in terminal.getvalue()
    assert "reading held-out text:   0%|" in terminal.getvalue()


def test_elsewhere_lines_come_now_and_then_and_at_the_end(monkeypatch, capsys):
    clock = 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    with Display() as shown, shown.stage("training", "step", 100) as progress:
        for step in range(1, 101):
            clock = step / 10
            shown.metrics(loss=1 / step)
            progress(step, None)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "training: 20 of 100 steps, 10 steps/s, loss 0.05"
    assert last == "training: 100 of 100 steps, 10 steps/s, 0 s left, loss 0.01"


def test_quick_work_is_not_shown_elsewhere(capsys):
    with Display().stage("scoring", "sentence") as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""


def test_a_line_comes_soon_though_the_first_batch_takes_long(monkeypatch, capsys):
    monkeypatch.setattr("elmokit.cli.progress.SECONDS_BEFORE_FIRST_LINE", 0.01)
    with Display().stage("embedding", "sentence"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "embedding: 0 sentences\n"


@pytest.mark.usefixtures("every_line")
def test_a_stage_inside_another_has_its_own_count(capsys):
    with Display() as shown, shown.stage("training", "step", 3) as progress:
        with shown.stage("validating", "word", 10) as inner:
            inner(10, None)
        progress(2, None)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("validating: 10 of 10 words") for line in lines)
    assert lines[-1].startswith("training: 2 of 3 steps")


@pytest.mark.usefixtures("every_line")
def test_quiet_shows_nothing(capsys):
    with Display(quiet=True) as shown, shown.stage("training", "step") as progress:
        progress(1, 2)
        shown.fetching(1, 2)
        shown.note("a")
        shown.validation("b", best=True)
    assert capsys.readouterr().err == ""


def test_a_download_that_is_interrupted_says_what_is_kept():
    def interrupted(done):
        with Display(quiet=True) as shown:
            if done:
                shown.fetching(done, 10)
            raise KeyboardInterrupt

    assert "run again the download continues" in error_of(interrupted, 5, kind=StoppedError)
    for done in (0, 10):  # not begun, and complete
        error_of(interrupted, done, kind=KeyboardInterrupt)


@pytest.mark.usefixtures("every_line")
@pytest.mark.parametrize(
    "command",
    [
        ("info", "URL/a.json"),
        ("convert", "URL/a.json", "DST"),
        ("finetune", "URL/a", "b", "-o", "c"),
    ],
)
def test_commands_that_download_a_model_show_it(elmo, monkeypatch, tmp_path, command):
    def fetch(location, progress, **_):
        progress(5_000_000, 10_000_000)
        raise StoppedError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("elmokit.formats.find.local_path", fetch)
    _, _, err = elmo(*(word.replace("URL", "https://example.org") for word in command))
    assert "fetching: 5.0 of 10.0 MB" in err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0 s"), (99, "99 s"), (110, "1.8 min"), (3000, "50 min"), (6000, "1.7 h")],
)
def test_time_is_shown_in_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_line_tells_that_a_model_is_being_loaded(monkeypatch, capsys):
    monkeypatch.setattr("elmokit.cli.progress.SECONDS_BEFORE_FIRST_LINE", 0.0)
    with loading(quiet=False):
        time.sleep(0.05)
    assert "loading the model …\n" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with loading(quiet=False):
        pass
    assert "loading the model …" in terminal.getvalue()
