"""Reports and pictures of what a task has learnt: mixes of ELMo's layers, mistakes, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elmokit.io.pictures import new_figure, write_figure
from elmokit.model.scalar_mix import ScalarMix
from elmokit.tasks.inputs import TaskInputs
from elmokit.tasks.scores import Accuracy
from elmokit.tasks.trainer import Evaluation

LARGEST_MATRIX = 20
"""Labels up to which a matrix of confusions is readable as text, and has room for numbers."""
MISTAKES_SHOWN = 10


class MixReport(NamedTuple):
    """What one mix has come to."""

    place: str  # "input" or "output" of the task's network
    layers: tuple[str, ...]
    weights: tuple[float, ...]  # one for each: shares that sum to one, unless per direction
    shares: bool
    gamma: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "place": self.place,
            "weights": dict(zip(self.layers, self.weights, strict=True)),
            "gamma": self.gamma,
        }

    def table(self) -> str:
        """A line for each layer."""
        width = max(map(len, self.layers))
        lines = [
            f"  {name:<{width}}  {f'{weight:6.1%}' if self.shares else f'{weight:6.3f}'}"
            for name, weight in zip(self.layers, self.weights, strict=True)
        ]
        return "\n".join([f"ELMo at the {self.place}: gamma {self.gamma:.3f}", *lines])


def mix_reports(inputs: TaskInputs) -> list[MixReport]:
    """What each mix has come to; none where there is no ELMo."""
    if inputs.elmo is None:
        return []
    places = ("input", "output") if inputs.place == "both" else (inputs.place,)
    names = [f"layer {number}" if number else "token layer" for number in inputs.elmo.numbers]
    directed = [f"{name} {way}" for way in ("forward", "backward") for name in names[1:]]
    reports = []
    for place, mix in zip(places, inputs.mixes, strict=True):
        shares = isinstance(mix, ScalarMix)
        weights = mix.shares() if isinstance(mix, ScalarMix) else mix.weights
        layers = names if shares else [names[0], *directed]
        values = tuple(weights.tolist())
        reports.append(MixReport(place, tuple(layers), values, shares, mix.gamma.item()))
    return reports


def errors_text(evaluation: Evaluation) -> str:
    """Precision and recall of each class, and what was taken for what."""
    confusion = evaluation.confusion
    parts = [evaluation.score.table()]
    if confusion is None:
        return parts[0]
    if len(confusion.names) <= LARGEST_MATRIX:
        parts.append(confusion.confusion_table())
    mistakes = [
        f"{expected} taken for {predicted}: {times:,}"
        for expected, predicted, times in confusion.confusions()[:MISTAKES_SHOWN]
    ]
    return "\n\n".join([*parts, *(["\n".join(mistakes)] if mistakes else [])])


EXTRA = "tasks"  # what to install where matplotlib is missing
LOSS, SCORE = "#d9730d", "#1f6fb4"
LONGEST_NAME = 24
LARGEST = 16  # inches of a matrix of however many labels


def draw_curves(metrics: Sequence[Mapping[str, Any]], path: str | Path, title: str) -> None:
    """Draw training loss and dev score over the epochs, of the lines of `metrics.jsonl`."""
    curves = {
        "loss": [(line["epoch"], line["loss"]) for line in metrics if line.get("kind") == "train"],
        "score": [
            (line["epoch"], 100 * line["score"]) for line in metrics if line.get("kind") == "dev"
        ],
    }
    figure = new_figure(7, 5.5, EXTRA)
    rows = figure.subplots(2, 1, sharex=True)
    panels = (("loss", "training loss", LOSS), ("score", "score on dev", SCORE))
    for axes, (name, label, colour) in zip(rows, panels, strict=True):
        measured = [(epoch, value) for epoch, value in curves[name] if value is not None]
        axes.plot(*zip(*measured, strict=True), "o-", color=colour, markersize=3)
        axes.set_ylabel(label)
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    mark_best(rows[-1], curves["score"])
    rows[-1].yaxis.set_major_formatter(lambda share, _: f"{share:.4g} %")
    rows[-1].set_xlabel("epoch")
    rows[-1].set_xlim(0.5, max(epoch for epoch, _ in curves["score"]) + 0.5)
    rows[-1].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    write_figure(figure, path)


def mark_best(axes: Any, scores: Sequence[tuple[int, float]]) -> None:
    """Name the epoch whose weights were stored: the first of the highest score, of 0 the last."""
    epoch, score = max(scores, key=lambda one: one[1])
    if score == 0:
        epoch, score = scores[-1]
    axes.plot([epoch], [score], "o", color=SCORE, markersize=7)
    axes.annotate(
        f"{score:.2f} %", (epoch, score), textcoords="offset points", xytext=(0, 8), ha="center",
        color=SCORE, fontsize=9,
    )  # fmt: skip
    axes.margins(y=0.15)  # room for it
    if score == min(value for _, value in scores):
        axes.set_ylim(max(-1, score - 5), score + 5)


def draw_mix(mixes: Sequence[MixReport], path: str | Path, title: str) -> None:
    """Draw the weight of each layer in each mix."""
    figure = new_figure(1.5 + 2.8 * len(mixes), 3.2, EXTRA)
    columns = figure.subplots(1, len(mixes), sharey=True, squeeze=False)[0]
    for axes, mix in zip(columns, mixes, strict=True):
        places = np.arange(len(mix.layers))
        bars = axes.barh(places, mix.weights, color=SCORE)
        axes.bar_label(bars, [f"{weight:.3f}" for weight in mix.weights], padding=2, fontsize=8)
        axes.margins(x=0.2)
        axes.set_yticks(places, mix.layers)
        axes.set_title(f"{mix.place}, gamma {mix.gamma:.2f}", fontsize=10)
        axes.set_xlabel("share of the mix" if mix.shares else "weight")
        axes.axvline(0, color="#2b2b2b", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    write_figure(figure, path)


def draw_confusion(confusion: Accuracy, path: str | Path, title: str) -> None:
    """Draw what was taken for what: each row as shares of what is right."""
    counts = np.array(confusion.matrix, dtype=np.float64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = min(max(3.2, 0.42 * len(confusion.names) + 1.8), LARGEST)
    figure = new_figure(size + 1.2, size, EXTRA)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes, label="share of the row", shrink=0.8)
    places = np.arange(len(confusion.names))
    names = [
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…" for name in confusion.names
    ]
    axes.set_xticks(places, names, rotation=90)
    axes.set_yticks(places, names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("right")
    if len(places) <= LARGEST_MATRIX:
        for row, column in np.ndindex(*counts.shape):
            colour = "white" if shares[row, column] > 0.5 else "black"
            number = f"{confusion.matrix[row][column]:,}"
            axes.text(column, row, number, ha="center", va="center", color=colour, fontsize=7)
    axes.set_title(title, fontsize=10, fontweight="bold")
    write_figure(figure, path)
