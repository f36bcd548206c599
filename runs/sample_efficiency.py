"""How much less data a task needs with ELMo: scores at 1 %, 10 % and 100 % of the training data.

python -m runs.sample_efficiency                            ner and sst, one seed
python -m runs.sample_efficiency --picture docs/sample-efficiency.png

A run that is done is not run again; see runs/task_runs.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import table
from elmokit.io.files import write_atomically
from runs.task_rows import ROWS
from runs.task_runs import (
    BASELINE,
    BOTH,
    VARIANTS,
    Scores,
    asked_for,
    run_seeds,
    sources,
)

FRACTIONS = (0.01, 0.1, 1.0)
COLOURS = {BASELINE: "#7a7a7a", BOTH: "#1f6fb4"}
# So little data needs more epochs for as many steps.
EPOCHS = {0.01: {"training.epochs": 60, "training.patience": 12}, 0.1: {"training.epochs": 30}}
EPOCHS_SAID = "Trained for at most 60 epochs on 1 %, 30 on 10 %, and on 100 % as in the table."

Found = dict[str, dict[float, Scores]]


def measure(row: str, seeds: Sequence[int]) -> Found:
    """The scores of a task without ELMo and with it, by the part of the data."""
    return {
        name: {part: run_seeds(row, *run_of(name, part), seeds) for part in FRACTIONS}
        for name in (BASELINE, BOTH)
    }


def run_of(name: str, part: float) -> tuple[str, dict[str, object]]:
    """The name and the settings of a run on a part of the data; of all of it, as in the table."""
    if part == 1.0:
        return name, dict(VARIANTS[name])
    return f"{name} {part:.0%}", {
        **VARIANTS[name],
        "training.fraction": part,
        **EPOCHS.get(part, {}),
    }


def draw(found: dict[str, Found], path: Path) -> None:
    """A panel for each task: score over the part of the data."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(found), 3.2), layout="constrained")
    for number, (row, variants) in enumerate(found.items(), start=1):
        axes = figure.add_subplot(1, len(found), number)
        for name, scores in variants.items():
            means = [scores[part].mean for part in FRACTIONS]
            axes.plot(FRACTIONS, means, "o-", color=COLOURS[name], label=name)
        axes.set_xscale("log")
        axes.set_xticks(FRACTIONS, [f"{part:.0%}" for part in FRACTIONS])
        axes.minorticks_off()
        axes.set_xlabel("of the training data")
        axes.set_ylabel(ROWS[row].measure)
        axes.set_title(ROWS[row].title)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and draw it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="PNG")
    asked = asked_for("runs.sample_efficiency", parser, ["sst", "ner"], arguments)
    found = {row: measure(row, asked.seeds or (1,)) for row in asked.rows}
    lines = [
        [ROWS[row].title, name, *(scores[part].cell() for part in FRACTIONS)]
        for row, variants in found.items()
        for name, scores in variants.items()
    ]
    print(table(["data", "network", *(f"{part:.0%}" for part in FRACTIONS)], lines))
    every = [one for variants in found.values() for by in variants.values() for one in by.values()]
    print(f"\n{EPOCHS_SAID}\n\n" + sources(asked.command, every))
    if asked.given.picture:
        draw(found, asked.given.picture)


if __name__ == "__main__":
    main()
