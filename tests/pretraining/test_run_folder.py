"""What a run asks of its folder, and of the run that it resumes."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest
import torch
from pretraining.small_runs import (
    draw_no_curves,
    measured,
    newest,
    sentences,
    small_run,
    train,
    write_text,
)

from elmokit.errors import ConfigError, DivergedError, ElmoWarning, InputError
from elmokit.formats.find import read_model
from elmokit.io.files import claim
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
from elmokit.pretraining import trainer as training
from elmokit.pretraining.run import best_or_newest


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    draw_no_curves(monkeypatch)


def held_out(folder: Path, seed: int = 5) -> dict[str, object]:
    name = f"held-out-{seed}.txt"
    return {"corpus.valid": [write_text(folder / name, sentences(20, seed))]}


def test_a_model_is_not_overwritten_though_its_checkpoints_are_gone(tmp_path: Path) -> None:
    train(small_run(tmp_path))
    rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(InputError, match="already holds a model"):
        train(small_run(tmp_path))
    assert measured(tmp_path / "run")


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
    seconds = newest(tmp_path / "run").values["progress"]["seconds"]
    train(small_run(tmp_path, longer | {"training.minutes": seconds / 60 + 1e-9}), resume=True)
    last = measured(tmp_path / "run", "validation")[-1]
    assert last["step"] == newest(tmp_path / "run").step == 6


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
    with pytest.raises(DivergedError, match="step 4, is whole"):
        train(small_run(tmp_path, {"logging.checkpoint_every": 2}))
    assert newest(tmp_path / "run").step == 4


def test_characters_cannot_be_frozen_as_word_vectors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="freeze_word_vectors is for a model that reads words"):
        small_run(tmp_path, {"training.freeze_word_vectors": True})


def test_a_run_may_be_named_in_the_place_of_its_model(tmp_path: Path) -> None:
    result = train(small_run(tmp_path))
    assert read_model(tmp_path / "run").config == read_model(result.model).config
