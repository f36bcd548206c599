"""Which layers, and where they join: the paper's tables 2 and 3, made with the bundled model.

python -m runs.task_ablations            ner and sst, one seed
python -m runs.task_ablations ner
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.machine import table
from runs.task_rows import ROWS
from runs.task_runs import (
    BASELINE,
    STATIC,
    VARIANTS,
    Scores,
    Settings,
    asked_for,
    run_seeds,
    sources,
)

LAYERS: dict[str, Settings] = {
    BASELINE: VARIANTS[BASELINE],
    "top layer": {**STATIC, "inputs.layers": "top"},
    "all layers, λ = 1": {**STATIC, "inputs.mix_penalty": 1.0},
    "all layers, λ of the preset": STATIC,  # 0.001 of sst and 0.01 of ner
}
PLACES: dict[str, Settings] = {
    "input": {**STATIC, "inputs.elmo": "input"},
    "output": {**STATIC, "inputs.elmo": "output"},
    "input and output": {**STATIC, "inputs.elmo": "both"},
}


def ablation(
    variants: dict[str, Settings], rows: Sequence[str], seeds: Sequence[int], command: str
) -> str:
    """A table with a row for each task and a column for each variant."""
    found: dict[str, dict[str, Scores]] = {
        row: {name: run_seeds(row, name, settings, seeds) for name, settings in variants.items()}
        for row in rows
    }
    lines = [
        [ROWS[row].title, ROWS[row].measure, *(one.cell() for one in scores.values())]
        for row, scores in found.items()
    ]
    every = [one for scores in found.values() for one in scores.values()]
    return table(["data", "measure", *variants], lines) + "\n\n" + sources(command, every)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make both tables, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked = asked_for("runs.task_ablations", parser, ["sst", "ner"], arguments)
    seeds = asked.seeds or (1,)
    print(ablation(LAYERS, asked.rows, seeds, asked.command), end="\n\n")
    print(ablation(PLACES, asked.rows, seeds, asked.command))


if __name__ == "__main__":
    main()
