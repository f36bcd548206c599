"""Metrics of a run: metrics.jsonl, TensorBoard, curves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError, InputError
from elmokit.io.files import disk_errors, write_atomically
from elmokit.io.pictures import new_figure, write_figure
from elmokit.io.tables import json_object
from elmokit.system import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch.utils.tensorboard import SummaryWriter


METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class MetricsLog:
    """The measurements of one run: `metrics.jsonl` in its folder, and TensorBoard's if wanted."""

    def __init__(self, folder: str | Path, tensorboard: bool = False) -> None:
        self.path = Path(folder) / METRICS
        self._events: Any = None
        if tensorboard:
            self._events = import_extra("torch.utils.tensorboard", "tensorboard", "TensorBoard")
        self._first_step: int | None = None
        self._writer: SummaryWriter | None = None  # made when the first line is written

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *exception: object) -> None:
        """Finish the files of TensorBoard; the lines need no closing."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def write(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Append one line, which is in the file when this returns; NaN and infinity are null."""
        numbers = {name: _plain(value) for name, value in values.items()}
        line = json.dumps({"step": step, "kind": kind} | numbers, allow_nan=False) + "\n"
        with disk_errors(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(line.encode())
        if self._events is not None:
            with disk_errors(self.path.with_name(TENSORBOARD), "written"):
                self._write_events(step, kind, numbers)

    def resume(self, step: int) -> None:
        """Forget what was measured after `step`, and half a line; every run begins with this."""
        self._first_step = step + 1
        if not self.path.exists():
            return
        kept = [line for line in read_metrics(self.path) if line.get("step", 0) <= step]
        with write_atomically(self.path) as temporary:
            text = "".join(json.dumps(line) + "\n" for line in kept)
            temporary.write_text(text, encoding="utf-8")

    def _write_events(self, step: int, kind: str, numbers: Mapping[str, Any]) -> None:
        if self._writer is None:
            folder = str(self.path.with_name(TENSORBOARD))
            self._writer = self._events.SummaryWriter(folder, purge_step=self._first_step)
        for name, number in numbers.items():
            if isinstance(number, (int, float)):
                self._writer.add_scalar(f"{kind}/{name}", number, step)
        self._writer.flush()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Read a file of metrics, except for a last line that was cut off in the middle."""
    path = Path(path)
    with disk_errors(path, "read"):
        lines = path.read_bytes().split(b"\n")
    metrics = []
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                text = line.decode("utf-8", "replace")
                metrics.append(json_object(text, f"{path}, line {number}"))
        except FormatError:
            if any(rest.strip() for rest in lines[number:]):
                raise
    return metrics


def _plain(value: Any) -> int | float | str | None:
    """A number as JSON can hold it; tensors and arrays of one number are accepted."""
    if value is None or isinstance(value, (int, str)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


Metrics = Sequence[Mapping[str, Any]]
Numbers = NDArray[np.float64]

COLOURS = {"forward": "#1f6fb4", "backward": "#d9730d", "mean": "#2b2b2b", "rate": "#5a8f3c"}
PANEL_HEIGHTS = {"loss": 3.0, "perplexity": 3.0, "rate": 1.2}  # inches
SMOOTHED_PART = 40  # each smoothed point is the mean of this part of the curve
NARROW_RANGE = 8  # up to this ratio, ticks at powers of ten would be too few


class Curve(NamedTuple):
    """One line of a panel: y over x."""

    label: str
    colour: str
    x: Numbers  # (points,)
    y: Numbers  # (points,)


def draw_curves(metrics: Metrics, path: str | Path, title: str = "") -> None:
    """Draw the metrics of a run, as `read_metrics` gives them, into a PNG or SVG file."""
    write_figure(_figure(metrics, title), path)


def _figure(metrics: Metrics, title: str) -> Figure:
    """A figure with a panel for each kind of curve that there is, one above the other."""
    panels = _panels(metrics)
    if not panels:
        raise InputError("there are no curves to draw: no loss or perplexity was measured yet")
    heights = [PANEL_HEIGHTS[name] for name in panels]
    figure = new_figure(8, sum(heights) + 0.8)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, (name, curves) in zip(rows[:, 0], panels.items(), strict=True):
        DRAWN[name](axes, curves)
        _tidy(axes)
    ticker = import_extra("matplotlib.ticker", "plots")
    rows[-1, 0].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    rows[-1, 0].set_xlabel("words seen" if _horizontal(metrics) == "words" else "steps")
    if title:
        figure.suptitle(title, fontsize=12, fontweight="bold")
    return figure


def _panels(metrics: Metrics) -> dict[str, list[Curve]]:
    """The curves of each panel; the learning rate alone is not worth a drawing."""
    losses = [
        _curve(metrics, "train", f"{name}_{direction}", direction, label)
        for name, label in (("loss", ""), ("sampled_loss", ", sampled softmax"))
        for direction in ("forward", "backward")
    ]
    perplexities = [
        _curve(metrics, "validation", f"perplexity_{direction}", direction)
        for direction in ("forward", "backward")
    ]
    perplexities.append(_curve(metrics, "validation", "perplexity", "mean"))
    rate = _curve(metrics, "train", "learning_rate", "rate")
    found = {"loss": losses, "perplexity": perplexities, "rate": [rate]}
    drawn = {name: [each for each in curves if len(each.x)] for name, curves in found.items()}
    if not drawn["loss"] and not drawn["perplexity"]:
        return {}
    return {name: curves for name, curves in drawn.items() if curves}


def _horizontal(metrics: Metrics) -> str:
    """What runs from left to right: words seen where every line tells, or else steps."""
    return "words" if all(line.get("words") is not None for line in metrics) else "step"


def _curve(metrics: Metrics, kind: str, name: str, colour: str, label: str = "") -> Curve:
    """What was measured under a name in lines of a kind; null stands for what was not."""
    x = _horizontal(metrics)
    lines = [line for line in metrics if line.get("kind") == kind and line.get(name) is not None]
    places = np.array([line[x] for line in lines], dtype=np.float64)
    values = np.array([line[name] for line in lines], dtype=np.float64)
    return Curve(colour + label, COLOURS[colour], places, values)


def _draw_losses(axes: Axes, curves: Sequence[Curve]) -> None:
    for curve in curves:
        style = "--" if "sampled" in curve.label else "-"
        axes.plot(curve.x, curve.y, color=curve.colour, alpha=0.2, linewidth=0.8)
        mean = smoothed(curve)
        axes.plot(mean.x, mean.y, style, color=curve.colour, label=curve.label, **_marker(curve))
    axes.set_ylabel("training loss (nats per word)")
    axes.legend(loc="upper right", frameon=False)


def _draw_perplexities(axes: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    for curve in curves:
        label = f"{curve.label} (best {curve.y.min():,.1f})"
        axes.plot(curve.x, curve.y, "o-", color=curve.colour, markersize=3, label=label)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    narrow = high / low < NARROW_RANGE
    axes.yaxis.set_major_locator(
        MaxNLocator(6, steps=[1, 2, 5, 10]) if narrow else LogLocator(subs=(1, 2, 5))
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("validation perplexity")
    axes.legend(loc="upper right", frameon=False)


def _draw_rate(axes: Axes, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter

    [curve] = curves
    axes.plot(curve.x, curve.y, color=curve.colour, linewidth=1.2, **_marker(curve))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_ylabel("learning rate")


DRAWN = {"loss": _draw_losses, "perplexity": _draw_perplexities, "rate": _draw_rate}


def _marker(curve: Curve) -> dict[str, Any]:
    """Points, where they are too few for a line to be seen."""
    return {"marker": "o", "markersize": 3} if len(curve.x) <= 3 else {}


def smoothed(curve: Curve) -> Curve:
    """Running mean over a fortieth of the points; it starts and ends where that is complete.

    >>> curve = Curve("forward", "blue", np.arange(100.0), np.arange(100.0) ** 2)
    >>> smoothed(curve).x[[0, -1]].tolist(), round(smoothed(curve).y[0].item(), 3)
    ([1.0, 98.0], 1.667)

    """
    reach = len(curve.y) // SMOOTHED_PART // 2
    window = np.ones(2 * reach + 1) / (2 * reach + 1)
    return curve._replace(
        x=curve.x[reach : len(curve.x) - reach], y=np.convolve(curve.y, window, mode="valid")
    )


def _tidy(axes: Axes) -> None:
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    axes.spines[["top", "right"]].set_visible(False)
