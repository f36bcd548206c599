from __future__ import annotations

import errno
import math
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import SLOWLY, Heard, error_of, write_sentences
from pretraining.small_runs import (
    assert_same_run,
    end,
    measured,
    newest,
    send,
    sentences,
    small_run,
    start,
    train,
    write_run,
)

from elmokit.errors import ConfigError, DiskError, DivergedError, ElmoWarning, InputError
from elmokit.jobs import checkpoints as checkpoints_module
from elmokit.jobs.checkpoints import Checkpoints
from elmokit.jobs.metrics import METRICS
from elmokit.model.bilm import BiLMState
from elmokit.pretraining.batches import Batch
from elmokit.pretraining.objective import Objective

STREAM: dict[str, Any] = {"training.dropout": 0.2, "training.steps": 18}
RUNS: dict[str, dict[str, Any]] = {
    "stream, sampled, averaged, AdamW": STREAM
    | {
        "training.samples": 20,
        "training.ema": 0.9,
        "training.optimiser": "adamw",
        "training.learning_rate": 0.01,
        "training.schedule": "cosine",
        "training.warmup_steps": 4,
    },
    "Muon, some sentences from zeros, two words ahead": STREAM
    | {
        "training.reset_state": 0.4,
        "training.multi_token": 0.5,
        "training.optimiser": "muon",
        "training.learning_rate": 0.01,
    },
    "sentences": STREAM | {"training.mode": "sentence", "training.multi_token": 0.5},
    "in two parts": STREAM | {"training.accumulate": 2},
}
KILLS = 3


def often(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with held-out text; metrics, validation and checkpoints seldom coincide."""
    looks = {"logging.every": 2, "logging.validate_every": 5, "logging.checkpoint_every": 3}
    return settings | looks | {"corpus.valid": [str(folder / "text.txt")]}


def saved_steps(run: Path) -> list[int]:
    return Checkpoints(run / "checkpoints").steps()


def wait_for_step(run: Path, step: int, alive: Callable[[], bool]) -> None:
    """Until a step is saved, or nobody is left to save it."""
    latest = time.monotonic() + SLOWLY
    while max(saved_steps(run), default=0) < step and alive() and time.monotonic() < latest:
        time.sleep(0.002)


# Killed


@pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS.keys())
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    settings = often(tmp_path, settings)
    train(small_run(tmp_path, settings))
    run = tmp_path / "killed"
    arguments = write_run(tmp_path, settings | {"output": str(run)})

    chance = random.Random(len(settings))
    codes: list[int | None] = []
    while 0 not in codes:
        before = saved_steps(run)
        process = start([*arguments, *["--resume"] * bool(before)], tmp_path / "log")
        if len(codes) < KILLS:
            wait_for_step(run, max(before, default=0) + 1, process.is_alive)
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
        codes.append(end(process))
        assert codes[-1] in (0, -signal.SIGKILL), (tmp_path / "log").read_text()

    assert len(codes) > 1
    assert_same_run(tmp_path / "run", run)


def test_a_run_killed_before_its_first_checkpoint_starts_afresh(tmp_path: Path) -> None:
    train(small_run(tmp_path, often(tmp_path, {})))
    run = tmp_path / "killed"
    run.mkdir()
    (run / METRICS).write_text('{"step": 2, "kind": "train", "words": 90}\n{"step": 4, "ki')

    train(small_run(tmp_path, often(tmp_path, {"output": str(run)})))

    assert_same_run(tmp_path / "run", run)


# Asked to stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_asked_to_stop_saves_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    run, settings = tmp_path / "stopped", often(tmp_path, STREAM)
    settings["logging.checkpoint_every"] = 10**6  # but for validations, nothing else is saved
    endless = settings | {"output": str(run), "training.steps": 10**6}
    process = start([*write_run(tmp_path, endless), "--quiet"], tmp_path / "log")
    wait_for_step(run, 1, process.is_alive)
    send(process, number)
    assert end(process) == 130

    step = newest(run).step
    message = (tmp_path / "log").read_text()
    assert message.startswith(f"elmo: stopped at step {step:,} of 1,000,000; everything is saved")
    assert message.endswith("--resume\n")
    assert message.count("\n") == 1

    longer = settings | {"training.steps": step + 7}
    train(small_run(tmp_path, longer | {"output": str(run)}), resume=True)
    train(small_run(tmp_path, longer))
    assert_same_run(tmp_path / "run", run)


def test_a_run_that_is_done_is_resumed_without_another_step(tmp_path: Path) -> None:
    train(small_run(tmp_path, often(tmp_path, {})))
    before = newest(tmp_path / "run"), measured(tmp_path / "run")
    (tmp_path / "run" / "model").rename(tmp_path / "model")

    result = train(small_run(tmp_path, often(tmp_path, {})), resume=True)

    assert result.steps == 12
    assert measured(tmp_path / "run") == before[1]
    models = [folder / "model.safetensors" for folder in (result.model, tmp_path / "model")]
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"logging.patience": 1}, "stopped early: no better in 1 validation"),
        ({"training.minutes": 1e-9}, "stopped after 1e-09 minutes, at step 1"),
    ],
)
def test_a_run_that_ended_early_is_resumed_without_another_step(
    tmp_path: Path, over: dict[str, Any], why: str
) -> None:
    # Nothing is learned, so no validation is better than the first.
    settings = often(tmp_path, {"training.learning_rate": 0.0} | over)
    told = Heard()
    first = train(small_run(tmp_path, settings), observer=told)
    assert first.steps < 12
    assert why in told.notes
    assert train(small_run(tmp_path, settings), resume=True).steps == first.steps


# What can go wrong


def test_a_damaged_checkpoint_is_passed_over_and_trained_again(tmp_path: Path) -> None:
    settings, run = often(tmp_path, RUNS["in two parts"]), tmp_path / "damaged"
    train(small_run(tmp_path, settings | {"training.steps": 12}))
    train(small_run(tmp_path, settings | {"training.steps": 6, "output": str(run)}))
    tensors = run / "checkpoints" / "step-000000006" / "state.safetensors"
    contents = bytearray(tensors.read_bytes())
    contents[-10] ^= 1
    tensors.write_bytes(contents)

    longer = small_run(tmp_path, settings | {"training.steps": 12, "output": str(run)})
    with pytest.warns(ElmoWarning, match="step-000000006.* step-000000005 is used instead"):
        train(longer, resume=True)

    assert_same_run(tmp_path / "run", run)


def test_a_loss_that_is_no_number_stops_the_run_at_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Objective.forward

    def fails(
        self: Objective, batch: Batch, state: BiLMState, step: int
    ) -> tuple[torch.Tensor, BiLMState]:
        losses, after = honest(self, batch, state, step)
        return losses * math.nan if step == 7 else losses, after

    monkeypatch.setattr(Objective, "forward", fails)
    assert "not a number at step 8; the last checkpoint, step 6, is complete" in error_of(
        train, small_run(tmp_path, often(tmp_path, {})), kind=DivergedError
    )
    assert not (tmp_path / "run" / "model").exists()
    monkeypatch.undo()
    train(small_run(tmp_path, often(tmp_path, {})), resume=True)
    train(small_run(tmp_path, often(tmp_path, {"output": str(tmp_path / "honest")})))
    assert_same_run(tmp_path / "run", tmp_path / "honest")


def test_a_full_disk_is_one_line_and_takes_no_checkpoint_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoints_module.write_tensors

    def fills_up(tensors: dict[str, torch.Tensor], path: Path) -> None:
        if "step-000000009" in str(path):
            path.write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(tensors, path)

    with monkeypatch.context() as full:
        full.setattr(checkpoints_module, "write_tensors", fills_up)
        with pytest.raises(DiskError) as error:
            train(small_run(tmp_path, often(tmp_path, {})))

    assert "step-000000009: cannot be written" in str(error.value)
    assert "No space left" in str(error.value)
    assert newest(tmp_path / "run").step == 6
    assert all(path.name.startswith("step-") for path in (tmp_path / "run/checkpoints").iterdir())
    train(small_run(tmp_path, often(tmp_path, {})), resume=True)
    train(small_run(tmp_path, often(tmp_path, {"output": str(tmp_path / "roomy")})))
    assert_same_run(tmp_path / "run", tmp_path / "roomy")


# What may be different, and what may not


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training.rows": 4}, "training.rows was 8, is 4"),
        ({"model.cell_size": 16}, "model.cell_size was 12, is 16"),
        ({"corpus.min_count": 2}, "corpus.min_count was 1, is 2"),
    ],
)
def test_another_setting_is_named_with_both_values(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    train(small_run(tmp_path, {"training.steps": 1}))
    assert message in error_of(
        train, small_run(tmp_path, {"training.steps": 2} | change), resume=True, kind=ConfigError
    )
    assert newest(tmp_path / "run").step == 1


@pytest.mark.parametrize(("table", "name"), [("train", "corpus"), ("vocabulary", "vocabulary")])
def test_another_text_or_vocabulary_is_an_error_and_the_same_elsewhere_is_not(
    tmp_path: Path, table: str, name: str
) -> None:
    words = [[word] for word in ("<S>", "</S>", "<UNK>", "the", "a", ".")]
    lines = sentences(60) if table == "train" else words

    def files(name: str, lines: list[list[str]]) -> dict[str, Any]:
        return {f"corpus.{table}": write_sentences(tmp_path / name, lines)}

    train(small_run(tmp_path, {"training.steps": 1} | files("first", lines)))
    with pytest.raises(InputError, match=f"{name} is another"):
        train(small_run(tmp_path, files("other", [*lines, ["!"]])), resume=True)
    assert train(small_run(tmp_path, files("moved", lines)), resume=True).steps == 12


def test_how_long_and_how_often_may_be_different(tmp_path: Path) -> None:
    train(small_run(tmp_path, {"training.steps": 1}))
    other = {"training.steps": None, "training.epochs": 1.0, "logging.keep": 1}
    assert train(small_run(tmp_path, other), resume=True).steps > 1
    assert len(saved_steps(tmp_path / "run")) == 1


def test_resuming_leaves_the_random_numbers_of_its_caller_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(small_run(tmp_path, STREAM | {"training.steps": 2}))
    assert torch.equal(torch.rand(3), expected)
