"""A million different sentences to vectors, and the memory that takes all the while.

    python -m benchmarks.million FOLDER             about an hour on 2 cores
    python -m benchmarks.million FOLDER --sentences 10000 --threads 1

The sentences are the first different ones of ../shared/data/pretrain-en: news, reviews, novels,
Wikipedia. They are written to FOLDER once; then `elmo embed --pool mean --dtype float16` runs in a
process of its own, whose memory is read every few seconds from /proc (so this needs Linux). FOLDER
keeps the vectors, the memory as memory.csv, and its picture as memory.png.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import describe
from benchmarks.text import REPOSITORY
from elmokit.io.files import write_atomically
from elmokit.io.text_files import TextSettings
from elmokit.text.tokenizer import read_sentences
from elmokit.vectors.files import open_vectors

TEXT = REPOSITORY.parent / "shared/data/pretrain-en"
SOURCES = ("news", "imdb", "books", "enwiki")
EVERY = 2.0  # seconds between two looks at the memory
WARM = 0.1  # the part of a run in which caches fill


class Reading(NamedTuple):
    """What a process had in memory at a moment."""

    seconds: float
    megabytes: float


def main() -> None:
    """Write the sentences, embed them, say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where else to write the picture")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = arguments.folder / f"{arguments.sentences}.txt"
    if not text.exists():
        write_sentences(text, arguments.sentences)
    summary, readings = embed(text, arguments.folder / "vectors.parquet", arguments.threads)
    write_readings(arguments.folder / "memory.csv", readings)
    for picture in filter(None, [arguments.folder / "memory.png", arguments.picture]):
        draw(picture, readings, summary)
    check(arguments.folder / "vectors.parquet", arguments.sentences)
    report(summary, readings, arguments.threads)


def write_sentences(path: Path, count: int) -> None:
    """A line for each different sentence, in the order of the shards."""
    with write_atomically(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for line in distinct_lines(count):
            lines.write(line + "\n")


def distinct_lines(count: int) -> Iterator[str]:
    """The first different sentences, their words separated by whitespace."""
    seen: set[int] = set()
    settings = TextSettings.of_corpus(tokenizer="default")
    for shard in shards():
        for words in read_sentences([shard], settings):
            line = " ".join(words)
            if hash(line) not in seen:
                seen.add(hash(line))
                yield line
            if len(seen) == count:
                return
    raise SystemExit(f"{TEXT}: {len(seen):,} different sentences, {count:,} are asked for")


def shards() -> list[Path]:
    """The files of text, the small sources first."""
    return [path for name in SOURCES for path in sorted(TEXT.glob(f"{name}.train-*.txt.xz"))]


def embed(text: Path, output: Path, threads: int) -> tuple[dict[str, Any], list[Reading]]:
    """Run `elmo embed`; its summary, and its memory over time."""
    command = [sys.executable, "-m", "elmokit", "embed", str(text), "-o", str(output)]
    command += ["--pool", "mean", "--dtype", "float16", "--threads", str(threads)]
    command += ["--force", "--json", "--quiet"]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    readings = []
    while process.poll() is None:
        readings.append(Reading(time.monotonic() - started, resident_megabytes(process.pid)))
        time.sleep(EVERY)
    assert process.stdout is not None
    printed = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"elmo embed ended with {process.returncode}")
    return json.loads(printed), [reading for reading in readings if reading.megabytes]


def resident_megabytes(process: int) -> float:
    """What a process has in memory now; 0 where it has just ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(sizes[0]) / 1024 if sizes else 0.0


def write_readings(path: Path, readings: list[Reading]) -> None:
    """A line for each look at the memory."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(Reading._fields)
        rows.writerows((f"{seconds:.1f}", f"{megabytes:.1f}") for seconds, megabytes in readings)


def draw(path: Path, readings: list[Reading], summary: dict[str, Any]) -> None:
    """Memory over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([r.seconds / 60 for r in readings], [r.megabytes for r in readings], color="#1f6fb4")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel("memory, MB")
    axes.set_title(f"elmo embed: {summary['sentences']:,} sentences, {summary['words']:,} words")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def check(vectors: Path, sentences: int) -> None:
    """The file can be read from end to end, and has a vector for each sentence."""
    with open_vectors(vectors) as opened:
        sizes = Counter(item.vectors.shape for item in opened)
    if list(sizes.values()) != [sentences]:
        raise SystemExit(f"{vectors}: {sentences:,} sentences, and vectors {dict(sizes)}")


def report(summary: dict[str, Any], readings: list[Reading], threads: int) -> None:
    """Print what came of it as a table."""
    warm = [r.megabytes for r in readings if r.seconds > WARM * readings[-1].seconds]
    halves = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    print(f"`python -m benchmarks.million`: {describe()}; `--threads {threads}`\n")
    print("| sentences | words | minutes | words/s | memory, first half | second half | at most |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {summary['sentences']:,} | {summary['words']:,} | {summary['seconds'] / 60:.0f} "
        f"| {summary['words_per_second']:,.0f} | {max(halves[0]):,.0f} MB "
        f"| {max(halves[1]):,.0f} MB | {summary['peak_memory_bytes'] / 1e6:,.0f} MB |"
    )


if __name__ == "__main__":
    main()
