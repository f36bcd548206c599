"""Perplexity on the Penn Treebank: the paper's recipe and ours, same model, same minutes.

    python -m runs.ptb ../shared/data/ptb-lm --minutes 15

The folder holds ptb.train.txt.gz, ptb.valid.txt.gz and ptb.test.txt.gz (929,589 targets to train
on, 10,000 words). Each recipe first trains a few steps to see how many fit into its minutes, so
that its schedule can end with them; validation is not counted. The paper's constants are those of
runs/paper.toml, ours those of runs/modern.toml; both recipes train the model below, and what a
small text needs otherwise (rows, dropout) is in SMALL_TEXT.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from elmokit.language_model import LanguageModel
from elmokit.pretraining.config import read_run
from elmokit.pretraining.pretrain import Result, pretrain
from elmokit.text.corpus import CorpusSettings, find_files, read_sentences

MODEL: dict[str, Any] = {
    "model.token_size": 128,
    "model.cell_size": 512,
    "model.encoder.filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
    "model.encoder.highways": 1,
}
TEXT: dict[str, Any] = {
    "corpus.tokenizer": "whitespace",
    "corpus.vocabulary_size": None,
    "corpus.min_count": 1,
}
SMALL_TEXT: dict[str, dict[str, Any]] = {
    "paper": {"training.rows": 128},
    "modern": {"model.softmax_cutoffs": [2000], "training.dropout": 0.2},
}
STEPS_TO_MEASURE = 30


def train(recipe: str, settings: dict[str, Any], steps: int, output: Path) -> Result:
    """Train for some steps."""
    lengths = {"training.steps": steps, "training.epochs": None, "output": str(output)}
    result = pretrain(read_run(f"runs/{recipe}.toml", settings | lengths))
    assert result is not None
    return result


def steps_in(minutes: float, recipe: str, settings: dict[str, Any]) -> int:
    """How many steps fit into the time."""
    without_validation = settings | {"corpus.valid": None}
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, without_validation, 2, Path(folder) / "warm")
        started = time.monotonic()
        train(recipe, without_validation, STEPS_TO_MEASURE, Path(folder) / "measured")
        return round(60 * minutes * STEPS_TO_MEASURE / (time.monotonic() - started))


def main() -> None:
    """Train both recipes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--output", type=Path, default=Path("checkpoints/ptb"))
    parser.add_argument("--recipes", nargs="+", default=["paper", "modern"])
    arguments = parser.parse_args()
    files = {part: str(arguments.data / f"ptb.{part}.txt.gz") for part in ("train", "valid")}
    print("| recipe | steps | epochs | minutes | valid forward | backward | mean | test mean |")
    print("|---|---|---|---|---|---|---|---|")
    for recipe in arguments.recipes:
        settings = MODEL | TEXT | {f"corpus.{part}": name for part, name in files.items()}
        settings |= SMALL_TEXT[recipe]
        steps = steps_in(arguments.minutes, recipe, settings)
        result = train(recipe, settings, steps, arguments.output / recipe)
        print(row(recipe, result, arguments.data / "ptb.test.txt.gz"), flush=True)
    print(f"\n`python -m runs.ptb --minutes {arguments.minutes:g}`: {describe()}")


def row(recipe: str, result: Result, test: Path) -> str:
    """One line of the table."""
    assert result.perplexity is not None
    metrics = (result.model.parent / "metrics.jsonl").read_text().splitlines()
    epoch = [json.loads(line) for line in metrics if '"train"' in line][-1]["epoch"]
    sentences = read_sentences(find_files([test]), CorpusSettings("whitespace"))
    tested = LanguageModel.load(result.model).perplexity(sentences)
    valid = result.perplexity
    return (
        f"| {recipe} | {result.steps:,} | {epoch:.1f} | {result.seconds / 60:.1f} "
        f"| {valid.forward:.1f} | {valid.backward:.1f} | {valid.mean:.1f} | {tested.mean:.1f} |"
    )


if __name__ == "__main__":
    main()
