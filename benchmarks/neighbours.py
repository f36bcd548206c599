"""Occurrences of a corpus in an index: how fast it is built, how fast it answers, what it misses.

    python -m benchmarks.neighbours FOLDER                    some 20 minutes on 2 cores
    python -m benchmarks.neighbours FOLDER --real 200000      the other vectors are made of these
    python -m benchmarks.neighbours FOLDER --occurrences 20000 --index-above 10000 --questions 5

The words are those of the first different sentences of ../shared/data/pretrain-en, and the
questions those of its held-out news. With `--real` only so many words are embedded; to the vectors
of the others some noise is added, and their sentences get a number, so that nothing is there twice.
FOLDER keeps the index: asked again, it is not built again.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.machine import describe
from benchmarks.million import TEXT, distinct_lines
from elmokit.analysis.neighbours.build import IndexSettings, build_index, description_of
from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.analysis.neighbours.store import (
    PARTITIONS_ASKED,
    REFINED,
    ROWS_WITHOUT_VECTOR_INDEX,
    Halves,
    Hit,
    Occurrences,
    OccurrenceStore,
)
from elmokit.analysis.senses import with_mark
from elmokit.bulk.inputs import Input, open_input
from elmokit.bundled import ENGLISH_SMALL
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.files import write_atomically, write_folder_atomically
from elmokit.io.text_files import TextSettings
from elmokit.jobs.progress import Observer
from elmokit.static.vectors import unit
from elmokit.text.tokenizer import read_sentences

HELD_OUT = TEXT / "news.heldout.txt.xz"
TOP = 10
NOISE = 0.5
ROWS_AT_ONCE = 50_000
SETTINGS = ((8, 10), (16, 10), (32, 5), (32, 10), (32, 20), (64, 10))
"""Partitions that are looked into, and how many times the wanted vectors are compared again."""


class Question(NamedTuple):
    """A word in its sentence."""

    words: list[str]
    position: int


def main() -> None:
    """Build the index, ask it, say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--occurrences", type=int, default=2_000_000)
    parser.add_argument("--real", type=int, help="embed only so many words")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--index-above", type=int, default=ROWS_WITHOUT_VECTOR_INDEX)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    embedder = Embedder.load()
    path = arguments.folder / "index"
    settings = IndexSettings(index_above=arguments.index_above)
    print(f"{describe()}\n")
    if not path.exists():
        words = min(arguments.real or arguments.occurrences, arguments.occurrences)
        text = write_text(arguments.folder / "text.txt", words)
        source = open_input([str(text)], TextSettings())
        if words < arguments.occurrences:
            build_of_noise(embedder, source, path, settings, arguments.occurrences)
        else:
            build(embedder, source, path, settings)
    index = NeighbourIndex.open(path, embedder)
    questions = list(islice(some_questions(), arguments.questions))
    report_times(index, questions)
    report_recall(index, questions)


def write_text(path: Path, words: int) -> Path:
    """The first different sentences, with so many words in all."""
    with write_atomically(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for line in distinct_lines(sys.maxsize):
            lines.write(line + "\n")
            words -= len(line.split())
            if words <= 0:
                break
    return path


class Notes(Observer):
    """Remembers when each note came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def note(self, message: str) -> None:
        """Of what is done after the last sentence is read."""
        self.times.append(time.perf_counter())


def build(embedder: Embedder, source: Input, path: Path, settings: IndexSettings) -> None:
    """Build the index as `elmo neighbours build` does."""
    notes = Notes()
    summary = build_index(
        embedder,
        source,
        path,
        settings,
        model=ENGLISH_SMALL,
        observer=notes,
    )
    ended = time.perf_counter()
    finishing = ended - notes.times[0]
    print(f"{summary.describe()}; {size_of(path) / 1e9:.2f} GB")
    reading = summary.seconds - finishing
    rate = summary.words_read / reading
    print(
        f"reading and embedding {reading:.0f} s ({rate:,.0f} words/s), indexing {finishing:.0f} s"
    )


def build_of_noise(
    embedder: Embedder, source: Input, path: Path, settings: IndexSettings, count: int
) -> None:
    """Build an index of `count` occurrences: those of a source, and again with some noise."""
    sentences = [record.words for record in source.records() if record.words]
    words = [word for sentence in sentences for word in sentence]
    lengths = [len(sentence) for sentence in sentences]
    numbers = np.repeat(np.arange(len(sentences)), lengths)
    positions = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    real = unit(np.concatenate(embedder.embed(sentences, layers="top"))).astype(np.float16)
    description = description_of(embedder, settings, source, ENGLISH_SMALL)
    draw = np.random.default_rng(0)
    with write_folder_atomically(path) as folder:
        store = OccurrenceStore(folder, description, create=True)
        for turn in range(-(-count // len(words))):
            first = turn * len(sentences)
            texts = [[*sentence, str(turn)] for sentence in sentences]
            changed = noisy(real, NOISE if turn else 0.0, draw)
            vectors = dict.fromkeys(description.layers, changed)
            store.add(first, texts, Occurrences(words, numbers + first, positions, vectors))
        started = time.perf_counter()
        occurrences = store.finish(settings.index_above, Observer()).occurrences
        print(f"indexing {time.perf_counter() - started:.0f} s")
    print(f"{occurrences:,} occurrences, {len(words):,} of them real; {size_of(path) / 1e9:.2f} GB")


def noisy(vectors: Halves, noise: float, draw: np.random.Generator) -> Halves:
    """Vectors (rows, size) of length 1 with noise of some length added, of length 1 again."""
    changed = np.empty_like(vectors)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        some = vectors[start : start + ROWS_AT_ONCE].astype(np.float32)
        other = draw.standard_normal(some.shape, dtype=np.float32) * noise / some.shape[1] ** 0.5
        changed[start : start + len(some)] = unit(some + other)
    return changed


def some_questions() -> Iterator[Question]:
    """A word of each sentence of the held-out news that has some."""
    draw = random.Random(0)
    for words in read_sentences([HELD_OUT], TextSettings.of_corpus(tokenizer="default")):
        places = [place for place, word in enumerate(words) if word.isalpha() and len(word) > 3]
        if places and len(words) > 5:
            yield Question(list(words), draw.choice(places))


def report_times(index: NeighbourIndex, questions: Sequence[Question]) -> None:
    """Print how long a question takes, its sentence embedded and those found read."""
    print(f"\nSeconds for a question, top {TOP} of {len(index):,} occurrences.\n")
    print("| | median | slowest of 20 |\n|---|---|---|")
    command = [sys.executable, "-m", "elmokit", "neighbours", "query", str(index.path)]
    sentence = with_mark(*questions[0])
    cold = seconds(lambda: subprocess.run([*command, sentence], check=True, capture_output=True))
    print(f"| `elmo neighbours query`, a process | {cold:.2f} | |")
    first = seconds(lambda: index.query(*questions[0], top=TOP))
    print(f"| first in a process that has loaded the model | {first:.3f} | |")
    vectors = [vector_of(index, question) for question in questions]
    layer = index.description.column(None)
    asked: dict[str, list[Callable[[], object]]] = {
        "warm": [partial(index.query, *one, top=TOP) for one in questions],
        "warm, of a vector": [partial(index.store.nearest, layer, one, TOP) for one in vectors],
        "warm, same word": [
            partial(index.query, *one, top=TOP, same_word=True)
            for one in questions
            if index.store.count_of(one.words[one.position].lower())
        ],
        "warm, exact": [partial(index.query, *one, top=TOP, exact=True) for one in questions],
    }
    for name, calls in asked.items():
        times = sorted(map(seconds, calls))
        slow = times[int(0.95 * len(times))]
        print(f"| {name} | {times[len(times) // 2]:.3f} | {slow:.3f} |")


def report_recall(index: NeighbourIndex, questions: Sequence[Question]) -> None:
    """Print how many of the true neighbours the vector index finds."""
    if not index.description.vector_index:
        print("\nThere is no vector index: all vectors are compared.")
        return
    print(f"\nOf the {TOP} nearest of {len(questions)} questions, those the vector index finds; a")
    print(f"query looks into {PARTITIONS_ASKED} partitions and compares {REFINED} x again.\n")
    print("| partitions | compared again | recall | ms |\n|---|---|---|---|")
    vectors = [vector_of(index, question) for question in questions]
    layer = index.description.column(None)
    exact = [index.store.nearest(layer, vector, TOP, exact=True) for vector in vectors]
    for partitions, refined in SETTINGS:
        started = time.perf_counter()
        found = [
            index.store.nearest(layer, vector, TOP, partitions=partitions, refined=refined)
            for vector in vectors
        ]
        each = (time.perf_counter() - started) / len(vectors)
        recall = np.mean(list(map(share_found, found, exact)))
        print(f"| {partitions} | {refined} x | {recall:.3f} | {1000 * each:.0f} |")


def share_found(found: Sequence[Hit], exact: Sequence[Hit]) -> float:
    """How many of the nearest are among those found; one as near as the last counts, too."""
    least = exact[-1].cosine - 1e-6
    return sum(hit.cosine >= least for hit in found) / len(exact)


def vector_of(index: NeighbourIndex, question: Question) -> Vectors:
    """The vector (size,) of a question's word."""
    return index.vector(question.words, question.position, index.description.column(None))


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
