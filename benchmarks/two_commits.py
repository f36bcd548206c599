"""The speed of two checkouts in turn: embedding, bulk embedding, pretraining, the service.

    python -m benchmarks.two_commits ../other-checkout [--repeats 5]

Each job is a command that both know, or requests to `elmo serve`; one checkout after the other runs
it, repeatedly. The medians of their seconds are compared; imports and loading the model count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.machine import describe, heading
from benchmarks.text import real_sentences

LINES, CLIENTS, REQUESTS = 2500, 16, 600
URL = "http://127.0.0.1:8765"
EMBED = """
from elmokit import Embedder
sentences = [line.split() for line in open("text.txt", encoding="utf-8")]
embedder = Embedder.load()
for start in range(0, len(sentences), 1000):
    embedder.embed(sentences[start : start + 1000])
"""
COMMAND = ["-m", "elmokit"]
FILES = ["recipe.toml", "--train", "text.txt", "--valid", "few.txt"]
STEPS = ["training.steps=60", "corpus.tokenizer=whitespace", "model.softmax_cutoffs=[500, 2000]"]
SET = [argument for setting in STEPS for argument in ("--set", setting)]
JOBS = {
    "embed": ["-c", EMBED],
    "pretrain": [*COMMAND, "pretrain", *FILES, *SET, "--quiet", "-o", "run-{number}"],
    "bulk .h5": [*COMMAND, "embed", "text.txt", "--quiet", "-o", "{number}.h5"],
    "bulk .parquet": [*COMMAND, "embed", "text.txt", "--quiet", "-o", "{number}.parquet"],
}


class Checkout:
    """One of the two: runs its own package in a folder of its own."""

    def __init__(self, repository: Path, folder: Path, recipe: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.lines = [" ".join(words) for words in real_sentences(LINES)[1]]
        for name, lines in (("text.txt", self.lines), ("few.txt", self.lines[:50])):
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
        own = {"PYTHONPATH": str(repository.resolve()), "ELMOKIT_CACHE": str(folder / "cache")}
        self.popen = partial(subprocess.Popen, cwd=folder, env=os.environ | own)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Python with these arguments; what it prints is in a file."""
        with open(self.folder / "printed.txt", "wb") as out:
            return self.popen([sys.executable, *arguments], stdout=out, stderr=subprocess.STDOUT)

    def run(self, job: str, number: int) -> None:
        """Do a job to its end."""
        if job == "serve":
            self.serve()
        elif self.start(*(each.replace("{number}", str(number)) for each in JOBS[job])).wait():
            raise SystemExit((self.folder / "printed.txt").read_text())

    def serve(self) -> None:
        """Requests of several clients, from the server's start to its last response."""
        server = self.start(*COMMAND, "serve", "--port", URL.rpartition(":")[2])
        try:
            while server.poll() is None:
                time.sleep(0.05)
                with suppress(OSError):  # until the model is loaded
                    urllib.request.urlopen(f"{URL}/ready").close()
                    break
            with ThreadPoolExecutor(CLIENTS) as clients:
                list(clients.map(post, self.lines[:REQUESTS]))
        finally:
            server.terminate()
            server.wait()


def post(text: str) -> None:
    """Ask for the vector of a text."""
    body = json.dumps({"model": "english-small", "input": text}).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/embeddings", body, headers)).read()


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the checkout of the other commit")
    parser.add_argument("--repeats", type=int, default=5, help="beside a first one, not counted")
    arguments = parser.parse_args()
    (recipe,) = (path.read_text("utf-8") for path in arguments.other.rglob("modern.toml"))
    print(f"{describe()}\n\n{heading('job', 'before, s', 'after, s', 'before / after')}")
    with tempfile.TemporaryDirectory() as folder:
        before = Checkout(arguments.other, Path(folder) / "before", recipe)
        after = Checkout(Path(__file__).parents[1], Path(folder) / "after", recipe)
        for job in (*JOBS, "serve"):
            times: dict[Checkout, list[float]] = {before: [], after: []}
            for number in range(arguments.repeats + 1):
                for checkout, seconds in times.items():
                    started = time.perf_counter()
                    checkout.run(job, number)
                    seconds.append(time.perf_counter() - started)
            old, new = (median(seconds[1:]) for seconds in times.values())
            print(f"| {job} | {old:.2f} | {new:.2f} | {old / new:.2f} |", flush=True)


if __name__ == "__main__":
    main()
