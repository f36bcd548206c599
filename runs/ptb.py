"""Perplexity on the Penn Treebank: the paper's recipe and ours, same model, same minutes.

    python -m runs.ptb ../shared/data/ptb-lm --minutes 20

The folder holds ptb.train.txt.gz, ptb.valid.txt.gz and ptb.test.txt.gz (929,589 targets to train
on, 10,000 words). Minutes are those of one CPU, without validation. Each recipe first trains
a few steps to see how many fit into them, so that its schedule can end with them. The constants are
those of `elmo pretrain`, paper and modern; both train the model below. What a small text needs
otherwise is in SMALL_TEXT. The two run side by side, in a process each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe
from elmokit.inference.language_model import LanguageModel
from elmokit.io.text_files import TextSettings, find_files
from elmokit.pretraining.config import read_run
from elmokit.pretraining.run import Result, pretrain
from elmokit.text.tokenizer import read_sentences

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
    "modern": {"model.softmax_cutoffs": [2000], "training.dropout": 0.1},
}
STEPS_TO_MEASURE = (4, 34)


def train(recipe: str, settings: dict[str, Any], steps: int, output: Path) -> Result:
    """Train for some steps."""
    lengths = {"training.steps": steps, "training.epochs": None, "output": str(output)}
    result = pretrain(read_run(recipe, settings | lengths))
    assert result is not None
    return result


def steps_in(minutes: float, recipe: str, settings: dict[str, Any]) -> int:
    """How many steps fit into the time."""
    few, many = (seconds_of(recipe, settings, steps) for steps in STEPS_TO_MEASURE)
    # The difference, since opening the text and writing the model take their time once.
    per_step = (many - few) / (STEPS_TO_MEASURE[1] - STEPS_TO_MEASURE[0])
    return round(60 * minutes / per_step)


def seconds_of(recipe: str, settings: dict[str, Any], steps: int) -> float:
    """Seconds of the CPU that some steps take, and what comes before and after them."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        train(recipe, settings | {"corpus.valid": None}, steps, Path(folder) / "measured")
        return time.process_time() - started


def run(recipe: str, data: str, minutes: float, output: str) -> str:
    """Train one recipe; give its line of the table."""
    torch.set_num_threads(1)
    folder = Path(data)
    files = {f"corpus.{part}": str(folder / f"ptb.{part}.txt.gz") for part in ("train", "valid")}
    settings = MODEL | TEXT | files | SMALL_TEXT[recipe]
    steps = steps_in(minutes, recipe, settings)
    result = train(recipe, settings, steps, Path(output) / recipe)
    return line_of(recipe, result, folder / "ptb.test.txt.gz")


def main() -> None:
    """Train both recipes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--output", default="checkpoints/ptb")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        settings = arguments.data, arguments.minutes, arguments.output
        rows = [pool.submit(run, recipe, *settings) for recipe in SMALL_TEXT]
        print("| recipe | steps | epochs | minutes | valid forward | backward | mean | test mean |")
        print("|---|---|---|---|---|---|---|---|")
        for row in rows:
            print(row.result(), flush=True)
    print(f"\n`python -m runs.ptb --minutes {arguments.minutes:g}`: {describe()}")


def line_of(recipe: str, result: Result, test: Path) -> str:
    """One line of the table."""
    assert result.perplexity is not None
    metrics = (result.model.parent / "metrics.jsonl").read_text().splitlines()
    epoch = [json.loads(line) for line in metrics if '"train"' in line][-1]["epoch"]
    sentences = read_sentences(find_files([test]), TextSettings())
    tested = LanguageModel.load(result.model).perplexity(sentences)
    valid = result.perplexity
    return (
        f"| {recipe} | {result.steps:,} | {epoch:.1f} | {result.seconds / 60:.1f} "
        f"| {valid.forward:.1f} | {valid.backward:.1f} | {valid.mean:.1f} | {tested.mean:.1f} |"
    )


if __name__ == "__main__":
    main()
