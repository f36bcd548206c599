from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import DiskError, FormatError
from elmokit.jobs import metrics as module
from elmokit.jobs.metrics import MetricsLog, read_metrics

ROOT = Path(module.__file__).parents[2]


def logged(folder: Path, *steps: int) -> Path:
    log = MetricsLog(folder)
    for step in steps:
        log.write(step, "train", {"loss_forward": step / 3})
    return folder / "metrics.jsonl"


def steps_in(path: Path) -> list[int]:
    return [line["step"] for line in read_metrics(path)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Lines


def test_line_holds_the_numbers_under_the_names_they_were_given(tmp_path: Path) -> None:
    numbers = {"words": 2560, "sampled_loss_forward": 6.1, "words_per_second": 1e4}

    MetricsLog(tmp_path / "run").write(20, "train", numbers | {"words": torch.tensor(2560)})
    [line] = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()

    assert json.loads(line) == {"step": 20, "kind": "train"} | numbers


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    numbers = {"loss_forward": float("nan"), "loss_backward": float("inf"), "gradient_norm": None}

    MetricsLog(tmp_path).write(1, "train", numbers)
    [line] = read_metrics(tmp_path / "metrics.jsonl")

    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    assert [line[name] for name in numbers] == [None, None, None]


def test_full_disk_is_one_line_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, **_: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskError, match=r"metrics\.jsonl: cannot be written .*free some"):
        MetricsLog(tmp_path).write(1, "train", {})


# Reading


@pytest.mark.parametrize("half", [b'{"step": 3, "ki', b'{"n\xc3', b'{"kind": "train"', b"\0\0\0"])
def test_last_line_that_was_cut_off_is_not_read(tmp_path: Path, half: bytes) -> None:
    path = logged(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes() + half)

    assert steps_in(path) == [1, 2]


@pytest.mark.parametrize("wrong", ["{", "[1]", "7"])
def test_wrong_line_in_the_middle_is_named(tmp_path: Path, wrong: str) -> None:
    path = logged(tmp_path, 1)
    path.write_text(f'{path.read_text()}{wrong}\n{{"step": 2}}\n')

    with pytest.raises(FormatError, match=r"metrics\.jsonl, line 2: "):
        read_metrics(path)


def test_file_that_is_not_there_is_named_and_an_empty_one_has_no_metrics(tmp_path: Path) -> None:
    MetricsLog(tmp_path).resume(7)
    with pytest.raises(DiskError, match=r"metrics\.jsonl: cannot be read"):
        read_metrics(tmp_path / "metrics.jsonl")
    (tmp_path / "metrics.jsonl").touch()
    assert read_metrics(tmp_path / "metrics.jsonl") == []


# Resuming


@pytest.mark.parametrize("cut", ["", '{"step": 2, "ki'], ids=["complete", "cut off"])
def test_resuming_forgets_what_came_after_the_step(tmp_path: Path, cut: str) -> None:
    path = logged(tmp_path, 10, 20, 30, 40)
    before = path.read_text().splitlines()
    path.write_text(path.read_text() + cut)

    MetricsLog(tmp_path).resume(40)
    assert path.read_text().splitlines() == before
    MetricsLog(tmp_path).resume(20)
    assert path.read_text().splitlines() == before[:2]

    logged(tmp_path, 30)
    assert path.read_text().splitlines() == before[:3]


def test_resuming_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logged(tmp_path, 1, 2)
    before = path.read_bytes()

    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DiskError, match="free some space"):
        MetricsLog(tmp_path).resume(1)

    assert path.read_bytes() == before
    assert names(tmp_path) == ["metrics.jsonl"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill")
def test_process_that_is_killed_loses_no_line_that_it_has_written(tmp_path: Path) -> None:
    program = (
        "import sys; from elmokit.jobs.metrics import MetricsLog\n"
        "log = MetricsLog(sys.argv[1])\n"
        "for step in range(10**6): log.write(step, 'train', {}); print(step, flush=True)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(200):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        reported = [199, *(int(line) for line in process.stdout if line.endswith("\n"))][-1]

    assert steps_in(tmp_path / "metrics.jsonl")[: reported + 1] == list(range(reported + 1))


# TensorBoard


class RecordingWriter:
    """Stands for TensorBoard's writer and remembers what it is told."""

    made: list[RecordingWriter]

    def __init__(self, log_dir: str, purge_step: int | None) -> None:
        self.folder, self.purge_step = log_dir, purge_step
        self.scalars: list[tuple[str, float, int]] = []
        self.flushed = self.closed = False
        self.made.append(self)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.scalars.append((tag, value, step))

    def flush(self) -> None:
        self.flushed = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[RecordingWriter]:
    fake: Any = types.ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = RecordingWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    monkeypatch.setattr(RecordingWriter, "made", [], raising=False)
    return RecordingWriter.made


def test_tensorboard_gets_the_same_numbers(tmp_path: Path, writers: list[RecordingWriter]) -> None:
    logged(tmp_path, 1)
    assert writers == []  # unless asked for
    with MetricsLog(tmp_path, tensorboard=True) as log:
        log.write(5, "validation", {"perplexity": 40.5, "loss": float("nan"), "words": 10})

    [writer] = writers
    assert writer.scalars == [("validation/perplexity", 40.5, 5), ("validation/words", 10, 5)]
    assert writer.folder == str(tmp_path / "tensorboard")
    assert writer.purge_step is None
    assert writer.flushed
    assert writer.closed


def test_tensorboard_forgets_what_came_after_the_step_resumed_from(
    tmp_path: Path, writers: list[RecordingWriter]
) -> None:
    log = MetricsLog(tmp_path, tensorboard=True)
    log.resume(20)
    log.write(21, "train", {"loss_forward": 1.0})

    assert [writer.purge_step for writer in writers] == [21]
