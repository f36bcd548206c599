"""`kill -9` while an index is built, and what comes out in the end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from analysis.neighbours.small_indexes import rows_expected, rows_of, sentences, write_corpus
from bulk.elmo_process import start
from small_models import write_small_model

from elmokit.io.files import read_object
from elmokit.jobs.run_folder import RunFolder

pytest.importorskip("lancedb", reason="the extra analysis is not installed")

SENTENCES = 4000
SECONDS_BETWEEN_LOOKS = 0.005


def killed(command: list[str], moment: Callable[[], bool], seconds: float) -> bool:
    """Kill a command so many seconds after a moment; False if it has come to its end before."""
    process = start(*command)
    while process.is_alive() and not moment():
        time.sleep(SECONDS_BETWEEN_LOOKS)
    time.sleep(seconds)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def parts_done(index: Path) -> int:
    record = RunFolder.beside(index).folder / "done.json"
    return read_object(record)["parts"] if record.exists() else 0


def more_parts(index: Path, wanted: int) -> bool:
    return parts_done(index) >= wanted


def finishing(index: Path) -> bool:
    return (RunFolder.beside(index).folder / "index" / "forms.lance").exists()


@pytest.mark.slow
def test_kills_lose_and_double_no_occurrence(tmp_path):
    lines = sentences(SENTENCES)
    lines = [*lines, *random.Random(1).choices(lines, k=300)]
    model = write_small_model(tmp_path / "model", "whitespace")
    corpus, index = write_corpus(tmp_path / "corpus.txt", lines), tmp_path / "index"
    command = ["neighbours", "build", str(corpus), "--model", model, "-o", str(index)]
    command += ["--resume", "--quiet"]
    draw = random.Random(3)
    kills = 0
    for wanted in (0, 1, 3, 5):
        moment = partial(more_parts, index, wanted)
        kills += killed(command, moment, draw.uniform(0, 0.1))
    for _ in range(2):
        kills += killed(command, partial(finishing, index), 0)
    assert kills >= 4  # the last ones may come too late
    last = start(*command)
    last.join()
    assert last.exitcode == 0

    assert rows_of(index) == rows_expected(lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "index", "model"]
