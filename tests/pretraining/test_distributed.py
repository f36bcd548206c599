from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from closeness import assert_close
from helpers import SLOWLY, write_sentences
from pretraining.small_runs import (
    assert_near,
    assert_same_run,
    end,
    measured,
    newest,
    send,
    sentences,
    small_run,
    start,
    start_group,
    train,
    write_run,
)

from elmokit.jobs.checkpoints import Checkpoints

SETTINGS: dict[str, Any] = {
    "training.steps": 15,
    "logging.validate_every": 5,
    "logging.checkpoint_every": 3,
}


def named_run(folder: Path, name: str, **changes: Any) -> dict[str, Any]:
    held_out = {"corpus.valid": [str(folder / "text.txt")]}
    return SETTINGS | held_out | {"output": str(folder / name)} | changes


def train_together(folder: Path, settings: dict[str, Any], *flags: str) -> None:
    """Train in two processes, to the end."""
    arguments = [*write_run(folder, settings), *flags]
    codes = [end(process) for process in start_group(arguments, folder / "log")]
    assert codes == [0, 0], (folder / "log.0").read_text()


def wait_until_saved(run: Path, step: int) -> None:
    """Until a checkpoint of that step or a later one is there."""
    latest = time.monotonic() + SLOWLY
    while max(Checkpoints(run / "checkpoints").steps(), default=0) < step:
        assert time.monotonic() < latest
        time.sleep(0.002)


@pytest.mark.parametrize(
    "training",
    [
        {"training.reset_state": 0.4, "training.multi_token": 0.5},
        {"training.mode": "sentence", "training.multi_token": 0.5},
    ],
    ids=str,
)
def test_two_processes_train_as_one_does(tmp_path: Path, training: dict[str, Any]) -> None:
    one, two = (named_run(tmp_path, n) | training for n in ("one", "two"))
    train(small_run(tmp_path, one))
    train_together(tmp_path, two)

    assert_near(tmp_path / "one", tmp_path / "two")
    for line, same in zip(measured(tmp_path / "one"), measured(tmp_path / "two"), strict=True):
        assert line.keys() == same.keys()
        for name in set(line) - {"kind", "words"}:
            assert_close(same[name], line[name])
    saved = [
        sorted(p.name for p in (tmp_path / n / "checkpoints").iterdir()) for n in ("one", "two")
    ]
    assert saved[0] == saved[1]
    assert "the model is in" in (tmp_path / "log.0").read_text()
    assert (tmp_path / "log.1").read_text() == ""


def test_two_processes_killed_are_resumed_by_two_or_by_one(tmp_path: Path) -> None:
    settings = named_run(tmp_path, "whole")
    train_together(tmp_path, settings)
    killed = settings | {"output": str(tmp_path / "killed")}
    processes = start_group(write_run(tmp_path, killed), tmp_path / "log")
    wait_until_saved(tmp_path / "killed", 3)
    for process in processes:
        process.kill()
        assert end(process) == -signal.SIGKILL
    shutil.copytree(tmp_path / "killed", tmp_path / "alone")

    train_together(tmp_path, killed, "--resume")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    train(small_run(tmp_path, settings | {"output": str(tmp_path / "alone")}), resume=True)
    assert_near(tmp_path / "whole", tmp_path / "alone")


def test_one_process_killed_is_resumed_by_two(tmp_path: Path) -> None:
    train(small_run(tmp_path, named_run(tmp_path, "one")))
    train(small_run(tmp_path, named_run(tmp_path, "grown") | {"training.steps": 7}))
    train_together(tmp_path, named_run(tmp_path, "grown"), "--resume")
    assert_near(tmp_path / "one", tmp_path / "grown")


def test_dropout_sampling_and_averaging_are_resumed_by_two_processes(tmp_path: Path) -> None:
    parts = {
        "training.dropout": 0.2,
        "training.samples": 20,
        "training.ema": 0.9,
        "training.optimiser": "muon",
        "training.learning_rate": 0.01,
        "training.accumulate": 2,
    }
    settings = named_run(tmp_path, "whole", **parts)
    train_together(tmp_path, settings)
    stopped = settings | {"output": str(tmp_path / "stopped")}
    train_together(tmp_path, stopped | {"training.steps": 10})
    train_together(tmp_path, stopped, "--resume")
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_all_processes_stop_where_one_is_asked_to(tmp_path: Path) -> None:
    settings = named_run(tmp_path, "stopped") | {"training.steps": 10**6}
    processes = start_group(write_run(tmp_path, settings), tmp_path / "log")
    wait_until_saved(tmp_path / "stopped", 3)
    send(processes[1], signal.SIGTERM)
    assert [end(process) for process in processes] == [130, 130]
    step = newest(tmp_path / "stopped").step
    assert f"stopped at step {step:,} of 1,000,000" in (tmp_path / "log.0").read_text()


def test_rows_that_cannot_be_shared_are_one_line(tmp_path: Path) -> None:
    arguments = write_run(tmp_path, {"training.rows": 7})
    processes = start_group([*arguments, "--quiet"], tmp_path / "log")
    assert [end(process) for process in processes] == [1, 1]
    for rank in (0, 1):
        lines = (tmp_path / f"log.{rank}").read_text().splitlines()
        assert [line for line in lines if "elmo: 7 rows cannot be shared by 2 processes" in line]
        assert not [line for line in lines if "Traceback" in line]


def torchrun(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *launch, "-m", "elmokit", *arguments]
    with open(log, "wb") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )


@pytest.mark.slow
def test_torchrun_starts_stops_and_resumes_a_run(tmp_path: Path) -> None:
    train_together(tmp_path, named_run(tmp_path, "whole"))
    settings = named_run(tmp_path, "stopped")
    launch = torchrun(write_run(tmp_path, settings | {"training.steps": 10**6}), tmp_path / "first")
    wait_until_saved(tmp_path / "stopped", 3)
    launch.send_signal(signal.SIGTERM)
    assert launch.wait(SLOWLY) != 0
    step = newest(tmp_path / "stopped").step
    assert f"stopped at step {step:,} of 1,000,000" in (tmp_path / "first").read_text()

    longer = {"training.steps": step + 5}
    launch = torchrun([*write_run(tmp_path, settings | longer), "--resume"], tmp_path / "second")
    assert launch.wait(SLOWLY) == 0, (tmp_path / "second").read_text()
    train_together(tmp_path, named_run(tmp_path, "longer") | longer)
    assert_near(tmp_path / "longer", tmp_path / "stopped")


def test_two_processes_train_a_model_on(tmp_path: Path) -> None:
    model = str(train(small_run(tmp_path)).model)
    text = write_sentences(tmp_path / "domain.txt", sentences(64, seed=2))
    recipe = ["--set=training.optimiser=adagrad", "--set=training.dropout=0"]
    arguments = ["finetune", model, text, "--new-words=1", *recipe]
    alone = start([*arguments, "-o", str(tmp_path / "one")], tmp_path / "log")
    together = start_group([*arguments, "-o", str(tmp_path / "two")], tmp_path / "log")
    assert [end(process) for process in (alone, *together)] == [0, 0, 0]
    assert_near(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "log.1").read_text() == ""
