"""Variants of a task's preset, on dev alone: dropout, λ, layer norm, two mixes, a fine-tuned biLM.

    python -m runs.preset_trials ner --variants "preset,layer norm"
    python -m runs.preset_trials ner sick --seeds 1 2 3 --variants "preset,dropout 0.5"
    elmo finetune english-small TEXT -o checkpoints/ner-bilm    # TEXT: that of the task
    python -m runs.preset_trials ner --variants preset --model checkpoints/ner-bilm/model

Static vectors are those of the row. The test score, which each run has too, is not shown: presets
are chosen by dev.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import mean_and_deviation, table
from runs.task_rows import ROWS, Language, Row
from runs.task_runs import STATIC, Settings, asked_for, main_score, run_one

TRIALS: dict[str, Settings] = {
    "preset": STATIC,
    "dropout 0.1": {**STATIC, "inputs.elmo_dropout": 0.1},
    "dropout 0.5": {**STATIC, "inputs.elmo_dropout": 0.5},
    "λ 0.001": {**STATIC, "inputs.mix_penalty": 0.001},
    "λ 0.1": {**STATIC, "inputs.mix_penalty": 0.1},
    "layer norm": {**STATIC, "inputs.layer_norm": True},
    "two mixes": {**STATIC, "inputs.elmo": "both"},
    "per direction": {**STATIC, "inputs.per_direction": True},
}


def dev_score(found: tuple[dict[str, Any], str]) -> float:
    """The main number on dev, in hundredths."""
    return 100 * main_score(found[0]["dev"])


def with_model(row: Row, model: str) -> Row:
    """The same row with another biLM."""
    return row._replace(language=Language(str(Path(model).resolve()), row.language.static))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is not trained yet, and print a table of dev scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", default=",".join(TRIALS), help=f"of {', '.join(TRIALS)}")
    parser.add_argument("--model", help="a folder of another biLM than the bundled one")
    asked = asked_for("runs.preset_trials", parser, ["ner", "sick"], arguments)
    names, seeds = asked.given.variants.split(","), asked.seeds or (1,)
    if unknown := [name for name in names if name not in TRIALS]:
        parser.error(f"no variant is called {unknown[0]}; use {', '.join(TRIALS)}")
    lines, made = [], set()
    for row in asked.rows:
        if asked.given.model is not None:
            ROWS[row] = with_model(ROWS[row], asked.given.model)
        cells = []
        for name in names:
            runs = [run_one(row, name, TRIALS[name], seed) for seed in seeds]
            cells.append(mean_and_deviation(list(map(dev_score, runs))))
            made |= {where for _, where in runs}
        lines.append([ROWS[row].title, ROWS[row].measure, *cells])
    print(table(["data", "dev", *names], lines))
    print(f"\n`{asked.command}`: {'; '.join(sorted(made))}")


if __name__ == "__main__":
    main()
