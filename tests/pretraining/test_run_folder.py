"""What a run asks of its folder, and of the run that it resumes."""

from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import error_of, write, write_sentences
from pretraining.small_runs import measured, newest, sentences, small_run, train

from elmokit.errors import DivergedError, ElmoWarning, InputError
from elmokit.formats.find import read_model
from elmokit.inference.predictions import Perplexity
from elmokit.io.files import claim
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
from elmokit.pretraining import trainer as training
from elmokit.pretraining.run import best_or_newest
from elmokit.pretraining.trainer import HeldOut


def held_out(folder: Path, seed: int = 5) -> dict[str, object]:
    name = f"held-out-{seed}.txt"
    return {"corpus.valid": [write_sentences(folder / name, sentences(20, seed))]}


def test_a_model_is_not_overwritten_though_its_checkpoints_are_gone(tmp_path: Path) -> None:
    train(small_run(tmp_path))
    rmtree(tmp_path / "run" / "checkpoints")
    assert "already holds a run" in error_of(train, small_run(tmp_path), kind=InputError)
    assert measured(tmp_path / "run")


def test_a_run_is_replaced_by_force_and_other_files_stay(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(small_run(tmp_path, {"training.steps": 4}))
    (run / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="replace it with --force"):
        train(small_run(tmp_path, {"training.steps": 2}))
    train(small_run(tmp_path, {"training.steps": 2}), force=True)
    assert newest(run).step == 2
    assert [line["step"] for line in measured(run)] == [2]
    assert (run / "mine.txt").read_text() == "mine"
    with pytest.raises(InputError, match="give one of them"):
        train(small_run(tmp_path), force=True, resume=True)


@pytest.mark.parametrize("name", ["model/mine.txt", "checkpoints"])
def test_force_removes_nothing_that_is_not_of_a_run(name: str, tmp_path: Path) -> None:
    mine = write(tmp_path / "run" / name, "mine")
    assert "not of a run" in error_of(train, small_run(tmp_path), force=True, kind=InputError)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_checkpoints_of_a_task_are_not_removed(force: bool, tmp_path: Path) -> None:
    values = {"progress": {"epoch": 1}, "settings": {"kind": "text", "training": {"epochs": 5}}}
    Checkpoints(tmp_path / "run" / "checkpoints").save(Checkpoint(3, {"w": torch.ones(2)}, values))
    assert "not of a run" in error_of(train, small_run(tmp_path), force=force, kind=InputError)
    assert newest(tmp_path / "run").values == values


def test_a_run_whose_checkpoints_are_damaged_is_replaced_by_force(tmp_path: Path) -> None:
    train(small_run(tmp_path))
    for record in (tmp_path / "run" / "checkpoints").glob("*/*.json"):
        record.write_text("{")
    train(small_run(tmp_path, {"training.steps": 2}), force=True)
    assert newest(tmp_path / "run").step == 2


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path) -> None:
    with (
        claim(tmp_path / "run" / ".lock"),
        pytest.raises(InputError, match="another process is at work in this folder"),
    ):
        train(small_run(tmp_path))


def test_a_run_is_not_resumed_with_another_held_out_text(tmp_path: Path) -> None:
    train(small_run(tmp_path, held_out(tmp_path) | {"training.steps": 4}))
    for other in ({}, held_out(tmp_path, seed=6)):
        with pytest.raises(InputError, match=r"\(held_out is another"):
            train(small_run(tmp_path, other | {"training.steps": 8}), resume=True)


def test_a_run_that_ends_by_the_clock_validates_its_last_weights(tmp_path: Path) -> None:
    settings = held_out(tmp_path) | {"logging.validate_every": 4, "training.steps": 5}
    train(small_run(tmp_path, settings))
    # Two more steps, and time is over before the next validation is due.
    longer = settings | {"training.steps": 100, "logging.validate_every": 50}
    progress = newest(tmp_path / "run").values["progress"]
    seconds = progress["seconds"] + progress["seconds_validating"]
    train(small_run(tmp_path, longer | {"training.minutes": seconds / 60 + 1e-9}), resume=True)
    last = measured(tmp_path / "run", "validation")[-1]
    assert last["step"] == newest(tmp_path / "run").step == 6


def test_time_of_validation_counts_as_time_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perplexity = HeldOut.perplexity

    hours = 0

    def slowly(self: HeldOut, *arguments: Any, **named: Any) -> Perplexity:
        nonlocal hours
        hours += 1
        return perplexity(self, *arguments, **named)

    clock = SimpleNamespace(monotonic=lambda: 3600 * hours + time.monotonic())
    monkeypatch.setattr(training, "time", clock)
    monkeypatch.setattr(HeldOut, "perplexity", slowly)
    settings = {"logging.validate_every": 4, "training.steps": 50, "training.minutes": 59}
    train(small_run(tmp_path, held_out(tmp_path) | settings))
    assert newest(tmp_path / "run").step == 4


def test_a_damaged_best_checkpoint_does_not_lose_the_rest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(Checkpoint(step, {"a": torch.ones(3)}, {}), best=step == 1)
    tensors = tmp_path / "step-000000001" / "state.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"!")
    with pytest.warns(ElmoWarning, match="the newest is used instead"):
        assert best_or_newest(checkpoints).step == 2


def test_weights_that_are_no_numbers_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = training.Trainer.step

    def overflow(self: training.Trainer, batch: list[training.Batch]) -> None:
        step(self, batch)
        if self.progress.step == 6:
            next(self.bilm.parameters()).data.fill_(float("inf"))

    monkeypatch.setattr(training.Trainer, "step", overflow)
    with pytest.raises(DivergedError, match="step 4, is complete"):
        train(small_run(tmp_path, {"logging.checkpoint_every": 2}))
    assert newest(tmp_path / "run").step == 4


def test_a_run_may_be_named_in_the_place_of_its_model(tmp_path: Path) -> None:
    result = train(small_run(tmp_path))
    assert read_model(tmp_path / "run").config == read_model(result.model).config
