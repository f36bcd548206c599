"""How well networks that were trained on whole documents resolve the pronouns of GAP.

python -m runs.pronouns            those of OntoGUM, with all their seeds

A network that is not there yet is trained first; see runs/task_runs.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.machine import mean_and_deviation, table
from elmokit.tasks.coref.scores import GapScore
from elmokit.tasks.trained import TrainedTask
from runs.task_rows import DATA, ROWS
from runs.task_runs import (
    BASELINE,
    BOTH,
    VARIANTS,
    asked_for,
    error_reduction,
    made_in,
    run_folder,
)

GAP = DATA / ROWS["gap"].test


class Found(NamedTuple):
    """What one network makes of GAP."""

    score: GapScore
    made: str


def found_by(row: str, name: str, seed: int) -> Found:
    """What a network of a row, trained with a seed, makes of GAP."""
    folder = run_folder(row, name, VARIANTS[name], seed)
    score = TrainedTask.load(folder).evaluate(GAP).score
    assert isinstance(score, GapScore)  # the file is GAP's
    return Found(score, made_in(folder))


def cells(name: str, found: Sequence[Found], baseline: Sequence[Found]) -> list[str]:
    """One row of the table."""
    f1 = [100 * each.score.main for each in found]
    before = [100 * each.score.main for each in baseline]
    fewer = error_reduction(sum(before) / len(before), sum(f1) / len(f1))
    return [
        name,
        mean_and_deviation(f1),
        mean_and_deviation([100 * each.score.accuracy for each in found]),
        "" if found is baseline else f"{fewer:.1%}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Score the networks, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked = asked_for("runs.pronouns", parser, ["ontogum"], arguments)
    lines: list[list[str]] = []
    made: set[str] = set()
    for row in asked.rows:
        found = {
            name: [found_by(row, name, seed) for seed in asked.seeds_of(row)]
            for name in (BASELINE, BOTH)
        }
        for name, each in found.items():
            lines.append(cells(f"{ROWS[row].title}, {name}", each, found[BASELINE]))
            made.update(one.made for one in each)
    print(table(["trained on", "GAP F1", "accuracy", "errors fewer"], lines))
    print(f"\n`{asked.command}`: {'; '.join(sorted(made))}")


if __name__ == "__main__":
    main()
