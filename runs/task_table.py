"""Each task without ELMo and with it: the table of the paper, made with the bundled model.

    python -m runs.task_table                       all rows, each with its seeds
    python -m runs.task_table ner pos --seeds 1     some of them

A run that is done is not run again, and one that was stopped continues; see runs/task_runs.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.machine import table
from runs.task_rows import PAPER, PAPER_TABLE, ROWS
from runs.task_runs import (
    BASELINE,
    BOTH,
    ELMO,
    VARIANTS,
    Scores,
    asked_for,
    error_reduction,
    run_seeds,
    sources,
)

HEADER = (
    "data", "measure", *VARIANTS, "errors fewer", "minutes a run",
    f"{PAPER_TABLE}: previous best", "baseline", "+ ELMo", "errors fewer",
)  # fmt: skip


def cells(row: str, found: dict[str, Scores]) -> list[str]:
    """One row of the table."""
    fewer = error_reduction(found[BASELINE].mean, found[BOTH].mean)
    slowest = max(seconds for scores in found.values() for seconds in scores.seconds)
    return [
        ROWS[row].title,
        ROWS[row].measure,
        *(found[name].cell() if name in found else "" for name in VARIANTS),
        f"{fewer:.1%}",
        f"{slowest / 60:.1f}",
        *paper_cells(row),
    ]


def paper_cells(row: str) -> list[str]:
    """What the paper has, where it has the task."""
    if row not in PAPER:
        return [""] * 4
    paper = PAPER[row]
    fewer = error_reduction(paper.baseline, paper.elmo)
    return [f"{paper.previous}", f"{paper.baseline}", f"{paper.elmo}", f"{fewer:.1%}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the rows that are asked for, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked = asked_for("runs.task_table", parser, list(ROWS), arguments)
    found = {
        row: {
            name: run_seeds(row, name, VARIANTS[name], asked.seeds_of(row))
            for name in VARIANTS
            if name != ELMO or ROWS[row].alone
        }
        for row in asked.rows
    }
    print(table(HEADER, [cells(row, scores) for row, scores in found.items()]))
    every = (one for scores in found.values() for one in scores.values())
    print("\n" + sources(asked.command, every))


if __name__ == "__main__":
    main()
