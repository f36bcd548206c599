"""Report of a probe: scores of each layer, as a table, as JSON, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.analysis.comparison import layers_of
from elmokit.analysis.probes.files import SenseOccurrence, SenseSentence
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.pictures import new_figure, write_figure
from elmokit.jobs.progress import Observer
from elmokit.static.vectors import StaticVectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Scores = tuple[float | None, ...]

CELL = 13
COLOURS = (
    "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#7F7F00", "#8C8C8C",
)  # fmt: skip
"""To be told apart by the colour-blind, too; further columns begin again."""
LAST_COLOUR = "#1A1A1A"
PANEL_INCHES = (5.6, 4.2)


@dataclass(frozen=True)
class ProbeReport:
    """The scores of each layer, beside what they are to be compared with."""

    probe: str  # what was asked, such as "part of speech"
    measure: str  # what a score is, such as "accuracy"
    columns: tuple[str, ...]  # what the scores are of; the last one is the one that counts
    scores: dict[str, Scores]  # by row: 1 at best, None where there is none
    layers: tuple[str, ...] = ()  # which rows are layers of the model, from the lowest up
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of what each column has
    notes: dict[str, str] = field(default_factory=dict)  # what stands behind a row
    details: dict[str, Any] = field(default_factory=dict)  # more for JSON

    @property
    def title(self) -> str:
        """What the numbers are."""
        return f"{self.probe}: {self.measure} x 100"

    def table(self) -> str:
        """As text: a line for each row, then the counts."""
        lines = [(self.title, list(self.columns)), *self.cells()]
        first = max(len(name) for name, _ in lines) + 2
        widths = [max(CELL, len(column) + 2) for column in self.columns]
        return "\n".join(
            f"{name:<{first}}"
            + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            + (f"   {self.notes[name]}" if name in self.notes else "")
            for name, cells in lines
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; scores are from 0 to 1."""
        return {
            "probe": self.probe,
            "measure": self.measure,
            "scores": {row: self._by_column(scores) for row, scores in self.scores.items()},
            "counts": {what: self._by_column(counts) for what, counts in self.counts.items()},
            **self.details,
        }

    def cells(self) -> list[tuple[str, list[str]]]:
        """The name and the cells of each row, and of each count."""
        scores = [(row, [shown(one) for one in values]) for row, values in self.scores.items()]
        counts = [(what, [f"{one:,}" for one in values]) for what, values in self.counts.items()]
        return [*scores, *counts]

    def _by_column(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.columns, values, strict=True))


def shown(score: float | None) -> str:
    """A score in hundredths; a dash where there is none.

    >>> shown(0.9254), shown(None)
    ('92.5', '-')
    """
    return "-" if score is None else f"{100 * score:.1f}"


def draw_reports(reports: Sequence[ProbeReport], path: str | Path, data: str = "") -> None:
    """Draw a panel for each report as a .png or .svg file; `data` is what they are of."""
    columns = min(len(reports), 2)
    rows = -(-len(reports) // columns)
    figure = new_figure(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows, extra="analysis")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes, report in zip(panels, reports, strict=False):
        draw_report(axes, report)
    for axes in figure.axes[len(reports) :]:
        axes.set_axis_off()
    figure.suptitle(data)
    write_figure(figure, path)


def draw_report(axes: Axes, report: ProbeReport) -> None:
    """Draw a mark for each score; the layers are joined, the last column is labelled."""
    names = list(report.scores)
    for number, column in enumerate(report.columns):
        last = number == len(report.columns) - 1
        colour = LAST_COLOUR if last else COLOURS[number % len(COLOURS)]
        scores = [values[number] for values in report.scores.values()]
        # A line without a score in it is drawn as a gap.
        heights = [float("nan") if one is None else 100 * one for one in scores]
        axes.plot(names, heights, "o", color=colour, label=column, markersize=7 if last else 4)
        places = [place for place, name in enumerate(names) if name in report.layers]
        axes.plot(
            places, [heights[place] for place in places], color=colour, linewidth=2 if last else 1
        )
        for place, height in enumerate(heights) if last else ():
            if height == height:  # NaN is not
                label, above = f"{height:.1f}", (0, 7)
                axes.annotate(
                    label,
                    (place, height),
                    above,
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
    axes.set_title(report.title, fontsize=11, fontweight="bold")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axes.grid(axis="y", color="#E5E5E5")
    axes.set_axisbelow(True)
    axes.margins(y=0.12)
    if len(report.columns) > 1:
        axes.legend(fontsize=8, loc="best", framealpha=0.8)


SENTENCES_AT_A_TIME = 1000


Step = Callable[[], None]  # to be called when one more step of a stage is done


@contextmanager
def counted_stage(
    observer: Observer | None, name: str, unit: str, total: int, every: int = 1
) -> Iterator[Step]:
    """A stage of so many steps, which an observer is told of.

    Of every so many: sentences are embedded many at a time and then come all at once; told of the
    first of them, one would expect the others to take as long.
    """
    numbers = count(1)
    with (observer or Observer()).stage(name, unit, total) as advance:

        def step() -> None:
            done = next(numbers)
            if done % every == 0 or done == total:
                advance(done, total)

        yield step


Source = Embedder | StaticVectors


def layer_count(source: Source) -> int:
    """How many layers its vectors have."""
    return 1 if isinstance(source, StaticVectors) else source.config.layer_count


def layer_names(sources: Sequence[Source]) -> tuple[str, ...]:
    """What the layers of models are called in a report; their average is not one of them."""
    models = [source for source in sources if isinstance(source, Embedder)]
    return tuple(name for one in models for name, _ in layers_of(one)[: layer_count(one)])


def occurrence_vectors(
    source: Source, sentences: Sequence[SenseSentence], step: Step
) -> Iterator[tuple[SenseOccurrence, Vectors]]:
    """Each occurrence with its vectors (layers, size), the mean where it has several words."""
    stream = source.embed_stream((sentence.words for sentence in sentences), "all")
    for sentence, layers in zip(sentences, stream, strict=True):
        for occurrence in sentence.occurrences:
            yield occurrence, layers[:, occurrence.start : occurrence.end].mean(1)
        step()
