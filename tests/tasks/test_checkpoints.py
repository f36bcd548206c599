from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tasks.small_tasks import config, of_characters

from elmokit.jobs.progress import Observer
from elmokit.tasks import trainer as training
from elmokit.tasks.examples import Labels, TextExample
from elmokit.tasks.inputs import StaticLookup
from elmokit.tasks.labelling import TextTask
from elmokit.tasks.scores import Accuracy
from elmokit.tasks.task import TaskModel
from elmokit.tasks.trainer import Evaluation, TaskProgress, TaskTrainer, fingerprint_of, learnt

EXAMPLES = [
    TextExample(("win", "$"), "spam", "a.csv, line 2"),
    TextExample(("home",), "ham", "a.csv, line 3"),
]


def trainer(
    folder: Path, seed: int = 0, trainable: bool = False, settings: Mapping[str, Any] | None = None
) -> TaskTrainer:
    torch.manual_seed(seed)
    task = TextTask(config("spam", settings), Labels(("ham", "spam")))
    static = StaticLookup(["win"], [[1.0, 2.0]], trainable=trainable)
    inputs = of_characters(4, static)
    model: TaskModel[Any] = TaskModel(inputs, task.make_network(inputs.sizes))
    return TaskTrainer(task, model, EXAMPLES, EXAMPLES, folder, {"data": "mine"}, Observer())


def test_a_restored_trainer_trains_on_as_the_saved_one(tmp_path: Path) -> None:
    one, other = trainer(tmp_path / "one"), trainer(tmp_path / "other", seed=1)
    for _ in range(3):
        one.step(EXAMPLES)
    one.save()
    saved = one.checkpoints.newest()
    assert saved is not None

    other.restore(saved)

    assert other.progress == one.progress
    for each in (one, other):
        each.step(EXAMPLES)
    expected = one.model.state_dict()
    assert all(torch.equal(v, expected[name]) for name, v in other.model.state_dict().items())
    assert saved.values["data"] == "mine"


def test_best_score_that_is_not_there_yet_survives_json(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    one.step(EXAMPLES)
    checkpoint = one.checkpoint()
    assert checkpoint.values["progress"]["best"] is None
    one.restore(checkpoint)
    assert one.progress.best == -math.inf


def test_a_frozen_table_of_static_vectors_is_not_in_a_checkpoint(tmp_path: Path) -> None:
    frozen, trained = trainer(tmp_path / "frozen"), trainer(tmp_path / "trained", trainable=True)
    assert "inputs.static.vectors" not in learnt(frozen.model)
    assert "inputs.static.unknown" in learnt(frozen.model)
    assert "inputs.static.vectors" in learnt(trained.model)


def scored(trainer: TaskTrainer, found: float, monkeypatch: pytest.MonkeyPatch) -> TaskProgress:
    """End an epoch in which dev scored so."""
    score = Accuracy(("no", "yes"), ((round(found * 100), 100 - round(found * 100)), (0, 0)))
    monkeypatch.setattr(training, "evaluate", lambda *arguments: Evaluation(score, None))
    trainer.step(EXAMPLES)
    trainer.finish_epoch()
    return trainer.progress


def test_scores_of_nothing_use_up_no_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = trainer(tmp_path, settings={"training.patience": 2, "training.rate_factor": 0.5})
    for _ in range(4):
        assert scored(mine, 0.0, monkeypatch).epochs_since_best == 0
        assert not mine.over()
    assert mine.progress.rate == 1.0
    assert scored(mine, 0.5, monkeypatch).best_epoch == 5
    assert scored(mine, 0.4, monkeypatch).epochs_since_best == 1
    assert scored(mine, 0.0, monkeypatch).epochs_since_best == 2
    assert mine.over()


def test_mean_loss_of_nothing_is_no_number() -> None:
    assert math.isnan(TaskProgress().mean_loss)
    assert TaskProgress(loss=6.0, examples=4).mean_loss == 1.5


def test_fingerprint_is_of_the_examples_not_of_their_place() -> None:
    moved = [replace(example, place="elsewhere") for example in EXAMPLES]
    assert fingerprint_of(moved) == fingerprint_of(EXAMPLES)
    for other in (EXAMPLES[::-1], EXAMPLES[:1], [replace(EXAMPLES[0], label="ham"), EXAMPLES[1]]):
        assert fingerprint_of(other) != fingerprint_of(EXAMPLES)


@pytest.mark.parametrize("frozen", [True, False])
def test_matrices_decay_and_vectors_do_not(tmp_path: Path, frozen: bool) -> None:
    settings = {"training.weight_decay": 0.25}
    mine = trainer(tmp_path, trainable=not frozen, settings=settings)
    decay = {
        id(weight): group["weight_decay"]
        for group in mine.optimiser.param_groups
        for weight in group["params"]
    }
    expected = {
        id(weight): 0.25 if weight.dim() > 1 else 0.0
        for weight in mine.model.parameters()
        if weight.requires_grad
    }
    assert decay == expected
    assert set(expected.values()) == {0.0, 0.25}
