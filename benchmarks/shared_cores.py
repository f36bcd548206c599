"""Programs whose cores are not theirs alone: beside busy processes, and under a quota of CPU time.

    python -m benchmarks.shared_cores                       about ten minutes on two cores
    python -m benchmarks.shared_cores --tree ../before      another tree of the package beside it
    python -m benchmarks.shared_cores keras --turns 1       one program, once

Seconds of programs with the bundled model, without those that they take for one sentence; the best
of several turns in which the trees and the conditions alternate: `elmo embed` of real sentences,
`elmo task predict` of a tagger, and the network of docs/spam.md, trained for one epoch on the first
sentences of the same text. Beside: one busy process per core. Quota: half a core, by a control
group, where this process may make one (it is left out elsewhere). In percent: the speed beside that
of one thread, alone or under the quota.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe
from benchmarks.text import REPOSITORY, real_sentences

SENTENCES = {"embed": 2000, "predict": 1000, "keras": 400}
LABELLED = 60
BUSY = "while True: pass"
KERAS = """
import sys
from elmokit.adaptors.keras import ElmoLayer, ElmoTextModel, text_input
import keras

messages = open(sys.argv[1], encoding="utf-8").read().splitlines()
labels = [number % 2 for number in range(len(messages))]
network = keras.Sequential([
    text_input(),
    ElmoLayer(trainable=True),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
network.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model = ElmoTextModel(network)
model.fit(messages, labels, epochs=1, batch_size=60, verbose=0)
model.predict(messages, verbose=0)
"""
ELMO = [sys.executable, "-m", "elmokit"]
HALF = {"cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # of version 1 and 2


class Condition(NamedTuple):
    """How a program is run."""

    name: str
    threads: int | None = None  # the program's own default
    busy: bool = False
    quota: bool = False


CONDITIONS = (
    Condition("one thread, alone", threads=1),
    Condition("default, alone"),
    Condition("default, beside", busy=True),
    Condition("one thread, quota", threads=1, quota=True),
    Condition("default, quota", quota=True),
)


def main() -> None:
    """Measure what the command line asks for; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=" ".join(SENTENCES))
    parser.add_argument("--tree", type=Path, action="append", default=[], help="another tree")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual sentences")
    parsed = parser.parse_args()
    trees = [REPOSITORY, *(tree.resolve() for tree in parsed.tree)]
    with tempfile.TemporaryDirectory() as folder, half_a_core() as group:
        conditions = [one for one in CONDITIONS if group or not one.quota]
        print(f"`python -m benchmarks.shared_cores`: {describe()}\n")
        print(f"| | {' | '.join([*(one.name for one in conditions), 'load'])} |")
        print("|---" * (len(conditions) + 2) + "|")
        for program in parsed.programs or SENTENCES:
            _, sentences = real_sentences(int(SENTENCES[program] * parsed.share))
            command = command_of(program, Path(folder), sentences[:LABELLED])
            texts = [Path(folder) / "one.txt", Path(folder) / "all.txt"]
            for text, some in zip(texts, (sentences[:1], sentences), strict=True):
                text.write_text("".join(f"{' '.join(words)}\n" for words in some), "utf-8")
            for tree, seconds in measured(command, texts, trees, conditions, group, parsed.turns):
                print_row(f"{program}, {tree.name}", conditions, seconds)


def command_of(program: str, folder: Path, labelled: Sequence[Sequence[str]]) -> list[str]:
    """The command of a program, to be followed by a text."""
    if program == "embed":
        return [*ELMO, "embed", "-o", str(folder / "out.h5"), "--force", "--quiet"]
    if program == "keras":
        return [sys.executable, "-c", KERAS]
    train_tagger(labelled, folder / "tagger")
    return [*ELMO, "task", "predict", str(folder / "tagger"), "--quiet"]


def train_tagger(sentences: Sequence[Sequence[str]], folder: Path) -> None:
    """Make a tagger that has learnt next to nothing, which takes as long as any other."""
    tagged = folder.with_suffix(".conll")
    lines = ("\n".join(f"{word} {word.istitle()}" for word in words) for words in sentences)
    tagged.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    command = [*ELMO, "task", "train", "pos", "--train", str(tagged), "--format", "columns"]
    command += ["-o", str(folder), "--set", "training.epochs=1", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measured(
    command: Sequence[str],
    texts: Sequence[Path],
    trees: Sequence[Path],
    conditions: Sequence[Condition],
    group: Path | None,
    turns: int,
) -> Iterator[tuple[Path, list[float]]]:
    """The seconds that a command takes longer for the second text, in each tree and condition."""
    cases = [(tree, one, text) for one in conditions for tree in trees for text in texts]
    seconds: dict[tuple[Path, Condition, Path], list[float]] = {case: [] for case in cases}
    for _ in range(turns):
        for tree, condition, text in cases:
            spent = run([*command, str(text)], tree, condition, group)
            seconds[tree, condition, text].append(spent)
    least = {case: min(some) for case, some in seconds.items()}
    for tree in trees:
        yield tree, [least[tree, one, texts[1]] - least[tree, one, texts[0]] for one in conditions]


def run(command: Sequence[str], tree: Path, condition: Condition, group: Path | None) -> float:
    """Seconds of a command in one condition."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    environment.pop("OMP_NUM_THREADS", None)
    if condition.threads is not None:
        environment["OMP_NUM_THREADS"] = str(condition.threads)
    if condition.quota:
        enter = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        command = ["sh", "-c", enter, "sh", *command]
    with busy_processes(os.cpu_count() or 1 if condition.busy else 0):
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Have some processes compute for nothing for the time of a block."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextmanager
def half_a_core() -> Iterator[Path | None]:
    """A control group with a quota of half a core for the time of a block; None if not allowed."""
    for parent in GROUPS:
        group = parent / f"elmokit-shared-cores-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            files = [group / name for name in HALF if (group / name).exists()]
            for file in files:
                file.write_text(HALF[file.name])
            if files:
                try:
                    yield group
                finally:
                    group.rmdir()
                return
            group.rmdir()
    yield None


def print_row(name: str, conditions: Sequence[Condition], seconds: Sequence[float]) -> None:
    """Print seconds, and the speed beside the one thread that the condition is compared with."""
    least = {
        one.quota: spent for one, spent in zip(conditions, seconds, strict=True) if one.threads
    }
    cells = [
        f"{spent:.1f} s" if one.threads else f"{spent:.1f} s, {least[one.quota] / spent:.0%}"
        for one, spent in zip(conditions, seconds, strict=True)
    ]
    print(f"| {' | '.join([name, *cells, f'{os.getloadavg()[0]:.1f}'])} |", flush=True)


if __name__ == "__main__":
    main()
