"""Complete runs of the tasks whose examples are texts with questions, roles or clusters."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Heard, error_of
from tasks.small_coref import train_coref, write_documents
from tasks.small_reading import LONG, train_reader, write_questions
from tasks.small_srl import train_srl, write_roles
from tasks.small_tasks import Interrupting, assert_same_predictions, embedder, weights

from elmokit.errors import StoppedError
from elmokit.tasks.run import TaskResult
from elmokit.tasks.trained import TrainedTask

TRAIN: dict[str, Callable[..., TaskResult]] = {
    "squad": train_reader, "srl": train_srl, "coref": train_coref,
}  # fmt: skip
WRITE = {"squad": write_questions, "srl": write_roles, "coref": write_documents}
ITEMS: dict[str, list[Any]] = {
    "squad": [("who", LONG), ("HOW MUCH", "a 777$")],
    "srl": ["We 777 MOTHER. You 1000 WWW.", ["we", "see"]],
    "coref": ["the Zoë Ek\n\nsees  she\n\nQQQ\n\nand XX"],
}
every_kind = pytest.mark.parametrize("name", TRAIN)


@pytest.fixture
def learnt(name: str, request: pytest.FixtureRequest) -> TaskResult:
    return request.getfixturevalue(f"learnt_{name}")


@every_kind
def test_a_task_learns_and_writes_its_results(name: str, learnt: TaskResult) -> None:
    results = json.loads((learnt.folder / "results.json").read_text(encoding="utf-8"))
    assert results["dev"]["f1"] == learnt.dev.score.main > 0.6
    assert results["examples"]["train"] in (40, 60)
    report = (learnt.folder / "report.txt").read_text(encoding="utf-8")
    assert {"squad": "exact match", "srl": "ARG1", "coref": "MUC"}[name] in report
    assert (learnt.dev.confusion is None) == (name != "srl")


@every_kind
def test_a_loaded_task_says_and_scores_the_same(
    name: str, learnt: TaskResult, tmp_path: Path
) -> None:
    loaded = TrainedTask.load(learnt.folder, bilm=embedder())
    assert_same_predictions(loaded.predict(ITEMS[name]), learnt.trained.predict(ITEMS[name]))
    found = loaded.evaluate(WRITE[name](tmp_path, "dev")).score
    assert found.main == pytest.approx(learnt.dev.score.main)


@every_kind
def test_a_stopped_run_resumes_to_the_same_weights(
    name: str, learnt: TaskResult, tmp_path: Path
) -> None:
    stop = Interrupting(2, 3, lambda: signal.raise_signal(signal.SIGINT))
    assert "resume" in error_of(TRAIN[name], tmp_path, observer=stop, kind=StoppedError)
    told = Heard()
    resumed = TRAIN[name](tmp_path, resume=True, observer=told)
    assert "resumed in epoch 2" in told.notes
    found = weights(resumed.folder)
    for weight, value in weights(learnt.folder).items():
        assert torch.equal(found[weight], value), weight


@every_kind
@pytest.mark.parametrize("place", ["output", "both", "none"])
def test_elmo_joins_wherever_it_is_wanted(name: str, place: str, tmp_path: Path) -> None:
    settings = {"inputs.elmo": place, "inputs.characters": True, "training.epochs": 1}
    found = TRAIN[name](tmp_path, settings, bilm=None if place == "none" else embedder())
    places = {"output": ["output"], "both": ["input", "output"], "none": []}[place]
    assert [mix.place for mix in found.mixes] == places
