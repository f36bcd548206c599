"""Try variants of a recipe, each for the same time by the clock, and print what they reach.

    python -m runs.sweep modern --train TEXT --valid TEXT --minutes 15 --blimp BLIMP \
        "training.learning_rate=0.001" "training.rows=128 training.unroll=35"

Each further argument is one variant: settings separated by spaces; "" is the recipe itself. They
run one after the other, each in a process of its own, so the machine should do nothing else. First
a step is measured, then the whole schedule is laid into the time. `--start` names a model whose
weights, vocabulary and sizes all variants start from.

Columns: words per second; held-out perplexity from zeros and carried from sentence to sentence; the
nats of a sentence's first word from zeros; the percentage of BLiMP's pairs that are right by the
sum of both directions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe

STEPS_TO_MEASURE = (10, 110)
COLUMNS = ("words/s", "steps", "words", "zeros", "carried", "first word", "BLiMP")


class Sweep:
    """What all variants have in common."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from elmokit.formats.find import read_model

        self.recipe, self.seconds = arguments.recipe, 60 * arguments.minutes
        self.valid, self.blimp = arguments.valid, arguments.blimp
        self.pairs, self.keep = arguments.pairs, arguments.keep
        self.steps = arguments.steps
        self.common: dict[str, Any] = {"corpus.train": arguments.train}
        self.start = read_model(arguments.start) if arguments.start else None

    def train(self, settings: dict[str, Any], steps: int, folder: str) -> dict[str, Any]:
        """Train for some steps in a new folder; give the result and the seconds it took."""
        from elmokit.pretraining.config import read_run
        from elmokit.pretraining.run import pretrain

        lengths = {"training.steps": steps, "training.epochs": None, "output": folder}
        quiet = {"logging.every": steps, "corpus.valid": None}
        config = read_run(self.recipe, self.common | settings | lengths | quiet)
        started = time.monotonic()
        result = pretrain(config, initial=self.start)
        assert result is not None
        return {**result.to_dict(), "clock": time.monotonic() - started}

    def run(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Measure a step, then train for as many as fit into the time, and measure the model."""
        steps = self.steps or self.steps_in_time(settings)
        with tempfile.TemporaryDirectory() as folder:
            place = str(self.keep or folder)
            result = self.train(settings, steps, place)
            return {**result, **self.measure(result["model"])}

    def steps_in_time(self, settings: dict[str, Any]) -> int:
        """How many steps fit into the time, by a few of them."""
        clocks = []
        for steps in (1, *STEPS_TO_MEASURE):  # the first prepares the text, and warms up
            with tempfile.TemporaryDirectory() as folder:
                clocks.append(self.train(settings, steps, folder)["clock"])
        few, many = STEPS_TO_MEASURE
        # The difference, since opening the text and writing the model take their time once.
        per_step = (clocks[2] - clocks[1]) / (many - few)
        found = max(1, round(self.seconds / per_step))
        print(f"{per_step:.4f} s a step, so {found:,} steps", file=sys.stderr, flush=True)
        return found

    def measure(self, model: str) -> dict[str, float]:
        """What a model has learnt."""
        from elmokit.analysis.probes.files import read_minimal_pairs
        from elmokit.analysis.probes.probes import probe_minimal_pairs
        from elmokit.inference.language_model import LanguageModel
        from elmokit.io.text_files import TextSettings, find_files
        from elmokit.text.tokenizer import read_sentences

        language_model = LanguageModel.load(model)
        sentences = list(read_sentences(find_files(self.valid), TextSettings.of_corpus("default")))
        found = {
            "zeros": language_model.perplexity(sentences).mean,
            "carried": language_model.perplexity(sentences, "carry").mean,
            "first_word": first_word(language_model, sentences),
        }
        if self.blimp:
            report = probe_minimal_pairs(
                language_model, read_minimal_pairs(self.blimp), most=self.pairs
            )
            score = report.scores["all"][-1]
            assert score is not None  # there are pairs
            found["blimp"] = 100 * score
        return found


def first_word(language_model: Any, sentences: Iterable[Sequence[str]]) -> float:
    """Nats that the first word of a sentence costs from zeros, on average."""
    starts = [sentence[:1] for sentence in sentences if sentence]
    return -sum(float(score.forward[0]) for score in language_model.score(starts)) / len(starts)


def run_apart(variant: str) -> dict[str, Any]:
    """Run one variant in a process of its own."""
    command = [sys.executable, "-m", "runs.sweep", *sys.argv[1:], "--one", variant]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if not done.returncode else {"error": "failed, see above"}


def row(variant: str, result: dict[str, Any]) -> str:
    """One line of the table."""
    name = f"`{variant}`" if variant else "the recipe itself"
    if "error" in result:
        return f"| {name} | {result['error']} |"
    blimp = f"{result['blimp']:.1f}" if "blimp" in result else ""
    return (
        f"| {name} | {result['words'] / result['seconds']:,.0f} | {result['steps']:,} "
        f"| {result['words']:,} | {result['zeros']:.1f} | {result['carried']:.1f} "
        f"| {result['first_word']:.2f} | {blimp} |"
    )


def main() -> None:
    """Run every variant and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("variants", nargs="*", default=[""])
    parser.add_argument("--train", action="append", default=[])
    parser.add_argument("--valid", action="append", required=True)
    parser.add_argument("--minutes", type=float, default=15.0, help="of training, for each")
    parser.add_argument("--steps", type=int, help="so many, whatever time they take")
    parser.add_argument("--start", help="a model to start from")
    parser.add_argument("--blimp", action="append", default=[])
    parser.add_argument("--pairs", type=int, default=50, help="of each of BLiMP's paradigms")
    parser.add_argument("--keep", type=Path, help="a new folder for the run of a single variant")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    if arguments.one is not None:
        from elmokit.config import parse_setting

        settings = dict(map(parse_setting, arguments.one.split()))
        print(json.dumps(Sweep(arguments).run(settings)))
        return
    print(f"{describe()}; {arguments.minutes:g} minutes each\n")
    print("| variant | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    for variant in arguments.variants:
        print(row(variant, run_apart(variant)), flush=True)


if __name__ == "__main__":
    main()
