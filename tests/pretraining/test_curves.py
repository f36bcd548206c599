from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest
from helpers import loaded_by

from elmokit.errors import InputError
from elmokit.jobs import metrics as module
from elmokit.jobs.metrics import draw_curves


def train(step: int, **numbers: float | None) -> dict[str, Any]:
    return {"step": step, "kind": "train", "words": 100 * step} | numbers


def validation(step: int, **numbers: float | None) -> dict[str, Any]:
    return {"step": step, "kind": "validation", "words": 100 * step} | numbers


LOSSES = {"loss_forward": 5.0, "loss_backward": 6.0, "learning_rate": 0.1}
PERPLEXITIES = {"perplexity_forward": 40.0, "perplexity_backward": 90.0, "perplexity": 60.0}
METRICS = [train(step, **LOSSES) for step in range(1, 9)] + [
    validation(4, **PERPLEXITIES),
    validation(8, **PERPLEXITIES),
]


def panels(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The axes of the drawing, by what they show."""
    return {axes.get_ylabel(): axes for axes in module._figure(metrics, "").axes}


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def heights(axes: Any, label: str) -> list[float]:
    [line] = [line for line in axes.get_lines() if line.get_label().startswith(label)]
    return [round(height, 3) for height in line.get_ydata().tolist()]


def test_suffix_decides_the_format(tmp_path: Path) -> None:
    draw_curves(METRICS, tmp_path / "curves.png", title="a small run")
    draw_curves(METRICS, tmp_path / "curves.SVG")

    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"curves\.txt: "):
        draw_curves(METRICS, tmp_path / "curves.txt")
    assert xml.etree.ElementTree.parse(tmp_path / "curves.SVG").getroot().tag.endswith("svg")


def test_each_kind_of_curve_has_a_panel() -> None:
    drawn = panels(METRICS)

    assert list(drawn) == [
        "training loss (nats per word)",
        "validation perplexity",
        "learning rate",
    ]
    assert drawn["validation perplexity"].get_yscale() == "log"
    assert legend(drawn["training loss (nats per word)"]) == ["forward", "backward"]


def test_a_curve_of_a_single_point_is_drawn_as_a_point() -> None:
    for axes in panels([train(1, **LOSSES), validation(1, **PERPLEXITIES)]).values():
        marked = [line for line in axes.get_lines() if line.get_marker() == "o"]
        assert {len(line.get_xdata()) for line in marked} == {1}


def test_perplexity_is_drawn_with_the_best_of_each_curve() -> None:
    better = validation(2, **{name: value / 2 for name, value in PERPLEXITIES.items()})
    axes = panels([validation(1, **PERPLEXITIES), better])["validation perplexity"]
    assert heights(axes, "mean") == [60.0, 30.0]
    assert legend(axes)[2] == "mean (best 30.0)"


def test_sampled_loss_is_never_drawn_as_perplexity() -> None:
    sampled = {"sampled_loss_forward": 3.0, "sampled_loss_backward": 3.0}

    drawn = panels([train(1, **sampled), validation(1, **sampled)])

    assert list(drawn) == ["training loss (nats per word)"]
    assert legend(drawn["training loss (nats per word)"]) == [
        "forward, sampled softmax",
        "backward, sampled softmax",
    ]


@pytest.mark.parametrize(("words", "label"), [(100, "words seen"), (None, "steps")])
def test_words_run_from_left_to_right_where_every_line_tells_them(
    words: int | None, label: str
) -> None:
    metrics = [*METRICS, train(9, **LOSSES) | {"words": words}]

    assert panels(metrics)["learning rate"].get_xlabel() == label


def test_what_was_not_measured_is_left_out() -> None:
    metrics = [train(1, loss_forward=None), train(2, loss_forward=4.0), train(3)]

    assert heights(panels(metrics)["training loss (nats per word)"], "forward") == [4.0]


@pytest.mark.parametrize("metrics", [[], [train(1, learning_rate=0.1)], [train(1, loss=None)]])
def test_nothing_to_draw_is_one_line(tmp_path: Path, metrics: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="no curves to draw"):
        draw_curves(metrics, tmp_path / "curves.png")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("low", "high"), [(42.0, 43.0), (30.0, 40_000.0)])
def test_perplexity_axis_has_a_few_plain_numbers_in_any_range(low: float, high: float) -> None:
    axes = panels([validation(1, perplexity=high), validation(2, perplexity=low)])[
        "validation perplexity"
    ]
    bottom, top = axes.get_ylim()

    ticks = [tick for tick in axes.get_yticks() if bottom <= tick <= top]
    texts = [axes.yaxis.get_major_formatter()(tick, 0) for tick in ticks]

    assert 3 <= len(ticks) <= 12
    assert all("e" not in text and "$" not in text for text in texts)


def test_drawing_needs_neither_pyplot_nor_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from elmokit.jobs.metrics import draw_curves\n"
        "draw_curves([{'step': 1, 'kind': 'train', 'loss_forward': 1.0}], sys.argv[1])"
    )
    assert not loaded_by(program, ["matplotlib.pyplot", "torch"], tmp_path / "curves.png")
