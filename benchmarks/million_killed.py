"""Sentences through a tiny model with a kill every minute: nothing is lost, doubled or changed.

    python -m benchmarks.million_killed FOLDER              a million, a kill a minute
    python -m benchmarks.million_killed FOLDER --sentences 30000 --every 30

Every sentence is another one, with its number as a word. `elmo embed --resume` is killed (SIGKILL)
again and again until it comes to its end: each time when it has stored a part of its own, after so
many seconds at most, drawn from the seed that is printed. So it comes forward however long it takes
to start. Then all sentences are there once and in order, and the vectors of one in a hundred are
those that the library gives.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from benchmarks.machine import describe
from elmokit import BiLM, Embedder, ModelConfig, open_vectors
from elmokit.config import CharacterEncoderConfig
from elmokit.formats.native import SavedModel, write_model
from elmokit.io.files import write_atomically

WORDS = ("the", "a", "bank", "river", "play", "of", "light", "spring", "한국어", "o'clock", "!")
CHECKED = 100
"""Of so many sentences the vectors of one are compared."""


def main() -> None:
    """Write text and model, embed with kills, look at what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--every", type=float, default=60.0, help="seconds to a kill, at most")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    text, model, output = (options.folder / name for name in ("text.txt", "model", "out.parquet"))
    write_text(text, options.sentences)
    write_tiny_model(model)
    started = time.monotonic()
    kills = embed(text, model, output, options.every, random.Random(options.seed))
    seconds = time.monotonic() - started
    check(text, model, output, options.sentences)
    print(
        f"{options.sentences:,} sentences, {kills} kills (seed {options.seed}), {seconds:,.0f} s: "
        "each is there once, in order, with its vectors"
    )
    print(describe())


def write_text(path: Path, count: int) -> None:
    """A line for each sentence, its number among its words."""
    draw = random.Random(0)
    with write_atomically(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for number in range(count):
            lines.write(" ".join([*draw.choices(WORDS, k=draw.randint(1, 9)), str(number)]) + "\n")


def write_tiny_model(folder: Path) -> None:
    """A random model of a few thousand numbers."""
    torch.manual_seed(0)
    encoder = CharacterEncoderConfig(filters=((1, 4), (2, 8)), character_size=4, highways=1)
    bilm = BiLM(ModelConfig(encoder=encoder, token_size=8, cell_size=16))
    write_model(folder, SavedModel(bilm.config, bilm.state_dict(), "whitespace"), force=True)


def embed(text: Path, model: Path, output: Path, every: float, draw: random.Random) -> int:
    """Start it again and again until it ends well; how often it was killed."""
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(output), "--resume"]
    command += ["--model", str(model), "--pool", "mean", "--quiet"]
    parts = output.with_name(f"{output.name}.parts")
    kills = 0
    while True:
        before = set(parts.glob("part-*"))
        with subprocess.Popen(command) as process:
            while set(parts.glob("part-*")) <= before and process.poll() is None:
                time.sleep(0.05)
            try:
                status = process.wait(every * draw.uniform(0, 1))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
                print(f"kill {kills}, {len(set(parts.glob('part-*')))} parts", flush=True)
                continue
        if status != 0:
            raise SystemExit(f"elmo embed ended with {status}")
        return kills


def check(text: Path, model: Path, output: Path, count: int) -> None:
    """Raise where a sentence is missing, double or has other vectors."""
    embedder = Embedder.load(str(model))
    with open_vectors(output) as found, text.open(encoding="utf-8") as lines:
        if len(found) != count:
            raise SystemExit(f"{len(found):,} items of {count:,}")
        items = enumerate(zip(found, lines, strict=True))
        while batch := list(islice(items, 10_000)):
            for number, (item, line) in batch:
                if item.sentence != line.strip():
                    raise SystemExit(f"item {number} is {item.sentence!r}, not {line.strip()!r}")
            chosen = [item for number, (item, _) in batch if number % CHECKED == 0]
            sentences = [str(item.sentence).split() for item in chosen]
            expected = embedder.embed(sentences, pool="mean")
            np.testing.assert_allclose([item.vectors for item in chosen], expected, atol=1e-5)


if __name__ == "__main__":
    main()
