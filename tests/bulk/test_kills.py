"""`kill -9` at random moments, and what comes out in the end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pytest
from bulk.elmo_process import start
from bulk.small_jobs import FORMATS, WORDS, contents, parts_of
from helpers import read_vectors
from small_models import write_small_model

from elmokit.vectors.files import write_vectors

SENTENCES = 20_000
KILLS = ["start"] * 3 + ["part"] * 10 + ["assembly"] * 6 + ["end"]
MOST_RUNS = 3 * len(KILLS)
"""Some kills come too late for their run."""
SECONDS_BETWEEN_LOOKS = 0.01


def write_text(path: Path) -> Path:
    """Sentences of up to nine words, some of them blank, some twice."""
    draw = random.Random(0)
    lines: list[str] = []
    for number in range(SENTENCES):
        words = [*draw.choices(WORDS, k=draw.randint(1, 8)), str(number)]
        new = "" if draw.random() < 0.05 else " ".join(words)
        lines.append(draw.choice(lines) if lines and draw.random() < 0.2 else new)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class Run(NamedTuple):
    """One command, which can be started again and again."""

    output: Path
    command: tuple[str, ...]

    @property
    def parts(self) -> int:
        """How many are kept."""
        return len(list(parts_of(self.output).glob("part-*")))

    @property
    def assembling(self) -> bool:
        """Whether the output is being put together, under another name."""
        return any(self.output.parent.glob(f".tmp-????????-{self.output.name}"))

    def start(self) -> BaseProcess:
        return start(*self.command, "-o", str(self.output), "--resume")

    def finish(self) -> None:
        """Go on to the end; what a kill left beside a whole output is removed."""
        process = self.start()
        process.join()
        assert process.exitcode == 0

    def killed(self, moment: Callable[[], bool], seconds: float) -> bool:
        """Kill it so many seconds after a moment; False if it has come to its end before."""
        process = self.start()
        while process.is_alive() and not moment():
            time.sleep(SECONDS_BETWEEN_LOOKS)
        time.sleep(seconds)
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing happened to."""
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    folder = tmp_path_factory.mktemp("whole")
    text, model = write_text(folder / "text.txt"), write_small_model(folder / "model")
    command = ("embed", str(text), "--model", str(model), "--quiet")
    run = Run(folder / "whole.parquet", command)
    run.finish()
    return run


def seconds_to_write(path: Path, whole: Run) -> float:
    """How long a format takes for the output."""
    items = read_vectors(whole.output)
    started = time.monotonic()
    write_vectors(path, ((str(item.sentence).split(), item.vectors) for item in items))
    return time.monotonic() - started


def kill(run: Run, kind: str, seconds: float, draw: random.Random) -> bool:
    """Kill a run in one of the ways; False if it has come to its end before."""
    if kind == "start":
        return run.killed(lambda: True, draw.uniform(0, 1))
    if kind == "part":
        wanted = run.parts + draw.randint(1, 4)
        return run.killed(lambda: run.parts >= wanted, draw.uniform(0, 0.1))
    if kind == "assembly":
        return run.killed(lambda: run.assembling, draw.uniform(0, 0.8 * seconds))
    # The output has its name, and the parts are being removed.
    return run.killed(run.output.exists, 0)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_twenty_kills_change_nothing(tmp_path: Path, whole: Run, suffix: str) -> None:
    seconds = seconds_to_write(tmp_path / f"copy{suffix}", whole)
    folder = tmp_path / "out"
    folder.mkdir()
    run = Run(folder / f"cut{suffix}", whole.command)
    draw = random.Random(7)
    waiting = list(KILLS)
    for _ in range(MOST_RUNS):
        if kill(run, waiting[0], seconds, draw):
            waiting.pop(0)
        if not waiting:
            break
        if run.output.exists() and not parts_of(run.output).exists():
            run.output.unlink()  # it was too fast for this kill, which must land in another run
    assert not waiting
    run.finish()

    assert contents(run.output) == contents(whole.output)
    if suffix == ".parquet":
        assert run.output.read_bytes() == whole.output.read_bytes()
    assert [path.name for path in folder.iterdir()] == [run.output.name]
