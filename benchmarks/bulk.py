"""Bulk embedding from text to closed file: its speed, what is lost beside the model, its memory.

    python -m benchmarks.bulk                 everything, about 15 minutes on 2 cores
    python -m benchmarks.bulk small           a part: small (the bundled model), original, memory

The text is real, its sentences all different: 200,000 words at the small size, 60,000 at the
original one. End to end is from opening the text to closing the file. Outside the model is the
share of that time outside `Embedder.embed_as`, which computes vectors and does nothing else. The
model alone is one call of `Embedder.embed` with all sentences, in the same run, in turns; the best
of several turns counts. Memory is the most that a process of its own had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.embedding import SIZES, Sentences
from benchmarks.machine import describe
from benchmarks.text import real_sentences
from elmokit import BiLM, Embedder
from elmokit.bulk.compute import Summary
from elmokit.bulk.inputs import open_input
from elmokit.bulk.pipeline import embed_files
from elmokit.io.text_files import TextSettings
from elmokit.vectors.items import VectorSettings

WORDS = {"small": 200_000, "original": 60_000}
MEMORY = "memory"
PARTS = (*WORDS, MEMORY)
TURNS = {"small": 3, "original": 1}
SENTENCES = 20_000
TIMES_THE_TEXT = 10

CASES = {
    "HDF5": (".h5", VectorSettings()),
    "HDF5, all layers": (".h5", VectorSettings(layers="all")),
    "Parquet": (".parquet", VectorSettings()),
    "Parquet, mean, float16": (".parquet", VectorSettings(pool="mean", dtype="float16")),
    "NPZ": (".npz", VectorSettings()),
}


class Timed(NamedTuple):
    """One run from text to closed file."""

    seconds: float
    outside: float  # the share of the time without computing


def load(size: str) -> Embedder:
    """The bundled model, or one of the original size with random weights."""
    if size == "small":
        return Embedder.load(tokenizer="whitespace")
    torch.manual_seed(0)
    return Embedder(BiLM(SIZES[size]), tokenizer="whitespace")


def distinct(sentences: Sentences, words: int) -> Sentences:
    """The first different sentences that have so many words together."""
    chosen: dict[tuple[str, ...], None] = {}
    for sentence in sentences:
        if words <= 0:
            break
        if tuple(sentence) not in chosen:
            chosen[tuple(sentence)] = None
            words -= len(sentence)
    return [list(sentence) for sentence in chosen]


def embed(embedder: Embedder, text: Path, output: Path, settings: VectorSettings) -> Summary:
    """From a text to a closed file, with an empty word cache."""
    fresh = Embedder(embedder.bilm, tokenizer="whitespace", vocabulary=embedder.vocabulary)
    source = open_input([str(text)], TextSettings())
    return embed_files(fresh, source, output, settings, force=True)


def timed(run: Callable[[], object]) -> Timed:
    """Time a run, and within it the calls that compute."""
    computing = 0.0
    compute = Embedder.embed_as

    def clocked(self: Embedder, *arguments: Any, **settings: Any) -> Any:
        nonlocal computing
        started = time.perf_counter()
        try:
            return compute(self, *arguments, **settings)
        finally:
            computing += time.perf_counter() - started

    Embedder.embed_as = clocked  # type: ignore[method-assign]
    started = time.perf_counter()
    try:
        run()
    finally:
        Embedder.embed_as = compute  # type: ignore[method-assign]
    seconds = time.perf_counter() - started
    return Timed(seconds, 1 - computing / seconds)


def measure(size: str, sentences: Sentences, folder: Path) -> None:
    """Print the rows of one size."""
    embedder = load(size)
    chosen = distinct(sentences, WORDS[size])
    words = sum(map(len, chosen))
    text = write_text(folder / f"{size}.txt", chosen)
    pure, results = float("inf"), dict.fromkeys(CASES, Timed(float("inf"), 0.0))
    for _ in range(TURNS[size]):
        pure = min(pure, timed(lambda: pure_model(embedder, chosen)).seconds)
        for name, (suffix, settings) in CASES.items():
            output = folder / f"out{suffix}"
            run = timed(partial(embed, embedder, text, output, settings))
            results[name] = min(results[name], run)
    print(f"| {size} | the model alone | {words / pure:,.0f} | | |", flush=True)
    for name, result in results.items():
        print(
            f"| {size} | {name} | {words / result.seconds:,.0f} | {pure / result.seconds:.0%} "
            f"| {result.outside:.1%} |",
            flush=True,
        )


def pure_model(embedder: Embedder, sentences: Sentences) -> None:
    """All sentences in one call, with an empty word cache."""
    Embedder(embedder.bilm, vocabulary=embedder.vocabulary).embed(sentences)


def write_text(path: Path, sentences: Sentences) -> Path:
    """A line for each sentence."""
    path.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    return path


def memory_of(text: Path, output: Path) -> int:
    """The most memory of a process that embeds a text, in bytes."""
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(output)]
    command += ["--force", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["peak_memory_bytes"])


def measure_memory(sentences: Sentences, folder: Path) -> None:
    """Print how memory grows when the text does; no sentence is repeated."""
    chosen = distinct(sentences, WORDS["small"])
    print("\n| text | memory at most |\n|---|---|")
    peaks = []
    for times in (1, TIMES_THE_TEXT):
        many = [[*words, str(number)] for number in range(times) for words in chosen]
        text = write_text(folder / f"{times}.txt", many)
        peaks.append(memory_of(text, folder / "memory.h5"))
        print(f"| {sum(map(len, many)):,} words | {peaks[-1] / 1e6:,.0f} MB |", flush=True)
    print(f"\n{TIMES_THE_TEXT} times the text: {peaks[1] / peaks[0] - 1:+.1%} memory")


def main() -> None:
    """Measure what is asked for; print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parts = parser.parse_args().parts or list(PARTS)
    source, sentences = real_sentences(SENTENCES)
    print(f"`python -m benchmarks.bulk`: {describe()}; text: {source}\n")
    with tempfile.TemporaryDirectory() as folder:
        sizes = [part for part in parts if part in WORDS]
        if sizes:
            print("| size | output | words/s | of the model alone | outside the model |")
            print("|---|---|---|---|---|")
        for size in sizes:
            measure(size, sentences, Path(folder))
        if MEMORY in parts:
            measure_memory(sentences, Path(folder))


if __name__ == "__main__":
    main()
