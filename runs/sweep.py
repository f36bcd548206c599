"""Try variants of a recipe, each for the same time of one processor, and print what they reach.

    python -m runs.sweep runs/modern.toml --train TEXT --valid TEXT --seconds 180 \
        "training.learning_rate=0.001" "training.rows=128 training.unroll=35"

Each further argument is one variant: settings separated by blanks; "" is the recipe itself. The
time is that of the processor, not of the clock, so that variants may run beside other work.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

STEPS_TO_MEASURE = (2, 18)


def train(recipe: str, settings: dict[str, Any], steps: int) -> dict[str, Any]:
    """Train for some steps in a new folder; give the result and the seconds it took."""
    from elmokit.pretraining.config import read_run
    from elmokit.pretraining.pretrain import pretrain

    with tempfile.TemporaryDirectory() as folder:
        lengths = {"training.steps": steps, "training.epochs": None, "output": folder}
        quiet = {"logging.validate_every": steps, "logging.every": steps}
        result = pretrain(read_run(recipe, settings | lengths | quiet), processes=1)
    assert result is not None
    return result.to_dict()


def run_variant(recipe: str, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Measure a step, then train for as many as fit into the time."""
    import torch

    torch.set_num_threads(1)
    train(recipe, settings | {"corpus.valid": None}, 1)  # prepares the text, warms up
    few, many = (seconds_of(recipe, settings, steps) for steps in STEPS_TO_MEASURE)
    # The difference, since opening the text and writing the model take their time once.
    per_step = (many - few) / (STEPS_TO_MEASURE[1] - STEPS_TO_MEASURE[0])
    result = train(recipe, settings, max(1, round(seconds / per_step)))
    return {"per_step": per_step, **result}


def seconds_of(recipe: str, settings: dict[str, Any], steps: int) -> float:
    """Seconds of the processor that some steps take, and what comes before and after them."""
    started = time.process_time()
    train(recipe, settings | {"corpus.valid": None}, steps)
    return time.process_time() - started


def run_apart(arguments: argparse.Namespace, variant: str) -> dict[str, Any]:
    """Run one variant in a process of its own."""
    command = [sys.executable, "-m", "runs.sweep", arguments.recipe, "--one", variant]
    command += ["--seconds", str(arguments.seconds)]
    for name in ("train", "valid"):
        for pattern in getattr(arguments, name):
            command += [f"--{name}", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def row(variant: str, result: dict[str, Any]) -> str:
    """One line of the table."""
    name = variant or "the recipe itself"
    if "error" in result:
        return f"| {name} | {result['error']} |"
    perplexity = result["perplexity"]
    return (
        f"| {name} | {result['steps']:,} | {result['words']:,} | {perplexity['forward']:.1f} "
        f"| {perplexity['backward']:.1f} | {perplexity['mean']:.1f} |"
    )


def main() -> None:
    """Run every variant and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("variants", nargs="*", default=[""])
    parser.add_argument("--train", action="append", default=[])
    parser.add_argument("--valid", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=180.0, help="of a processor, for each")
    parser.add_argument("--processes", type=int, default=2, help="variants at a time")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    if arguments.one is not None:
        from elmokit.settings import parse_setting

        settings = dict(map(parse_setting, arguments.one.split()))
        settings |= {"corpus.train": arguments.train, "corpus.valid": arguments.valid}
        print(json.dumps(run_variant(arguments.recipe, settings, arguments.seconds)))
        return
    print("| variant | steps | words | forward | backward | mean |\n|---|---|---|---|---|---|")
    with ThreadPoolExecutor(arguments.processes) as pool:
        results = pool.map(lambda variant: run_apart(arguments, variant), arguments.variants)
        for variant, result in zip(arguments.variants, results, strict=True):
            print(row(variant, result), flush=True)


if __name__ == "__main__":
    main()
