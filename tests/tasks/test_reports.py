from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tasks.small_tasks import embedder, of_characters, train

from elmokit.tasks.config import InputConfig
from elmokit.tasks.examples import Labels
from elmokit.tasks.inputs import TaskInputs, build_inputs
from elmokit.tasks.reports import (
    MixReport,
    errors_text,
    mix_reports,
)
from elmokit.tasks.scores import score_labels
from elmokit.tasks.trainer import Evaluation

PNG = b"\x89PNG"
ACCURACY = score_labels(Labels(("ham", "spam")), ["ham", "spam", "ham"], ["ham", "ham", "ham"])
METRICS: list[dict[str, Any]] = [
    {"step": 3, "kind": "train", "epoch": 1, "loss": 0.7},
    {"step": 3, "kind": "dev", "epoch": 1, "score": 0.5},
    {"step": 6, "kind": "train", "epoch": 2, "loss": 0.4},
    {"step": 6, "kind": "dev", "epoch": 2, "score": 0.8},
]
MIX = MixReport("input", ("token layer", "layer 1", "layer 2"), (0.5, 0.25, 0.25), True, 1.5)


def inputs(**settings: Any) -> TaskInputs:
    return build_inputs(InputConfig(**settings), embedder())


def test_a_mix_is_reported_with_the_share_of_each_layer() -> None:
    elmo = inputs(elmo="both")
    with torch.no_grad():
        elmo.mixes[1].weights[2] = 50.0
        elmo.mixes[1].gamma.fill_(2.0)

    first, second = mix_reports(elmo)

    assert (first.place, second.place) == ("input", "output")
    assert first.layers == ("token layer", "layer 1", "layer 2")
    assert first.weights == pytest.approx([1 / 3] * 3)
    assert second.weights == pytest.approx([0, 0, 1])
    assert second.to_dict()["gamma"] == 2.0


def test_a_mix_per_direction_names_both() -> None:
    [report] = mix_reports(inputs(per_direction=True))
    assert report.layers == (
        "token layer", "layer 1 forward", "layer 2 forward", "layer 1 backward", "layer 2 backward",
    )  # fmt: skip
    assert not report.shares


@pytest.mark.parametrize(("layers", "name"), [("top", "layer 2"), (0, "token layer")])
def test_one_layer_alone_is_all_of_the_mix(layers: Any, name: str) -> None:
    [report] = mix_reports(inputs(layers=layers))
    assert (report.layers, report.weights) == ((name,), (1.0,))
    assert mix_reports(of_characters()) == []


def test_a_mix_as_text() -> None:
    assert MIX.table().splitlines() == [
        "ELMo at the input: gamma 1.500",
        "  token layer   50.0%",
        "  layer 1       25.0%",
        "  layer 2       25.0%",
    ]


def test_errors_are_told_by_class_and_a_matrix_of_many_labels_is_left_to_the_picture() -> None:
    text = errors_text(Evaluation(ACCURACY, ACCURACY))
    assert "spam taken for ham: 1" in text
    assert "right \\ predicted" in text
    assert "precision" in text
    labels = Labels(tuple(f"label {n}" for n in range(30)))
    many = score_labels(labels, labels.names, labels.names[::-1])
    assert "right \\ predicted" not in errors_text(Evaluation(many, many))


@pytest.mark.pictures
def test_a_run_draws_its_pictures(tmp_path: Path) -> None:
    folder = train(tmp_path, "spam", {"training.epochs": 2}).folder
    for name in ("curves.png", "mix.png", "confusion.png"):
        assert (folder / name).read_bytes().startswith(PNG)
    report = (folder / "report.txt").read_text()
    assert "ELMo at the input: gamma" in report
    assert "dev, in detail:" in report


@pytest.mark.pictures
def test_a_run_without_matplotlib_only_lacks_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    folder = train(tmp_path, "spam", {"training.epochs": 1}).folder
    assert (folder / "results.json").exists()
    assert not (folder / "curves.png").exists()
