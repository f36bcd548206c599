"""Programs whose cores are not theirs alone: beside busy processes, and under a quota of CPU time.

    python -m benchmarks.shared_cores                       about five minutes on two cores
    python -m benchmarks.shared_cores --tree ../before      another tree of the package beside it
    python -m benchmarks.shared_cores keras --turns 3       one program, shorter

Words per second with the bundled model of `elmo embed` (files of 200 real sentences), of a tagger's
`elmo task predict` (50 sentences at a time), and of a network of Keras, which reads and learns
from 60 sentences at a time. Every program waits, loaded, in a process of its own for each
tree and condition; in each turn all of them work for a second, one after the other; the median of
the turns counts. Beside: one busy process per core. Quota: half a core, by a control group, where
this process may make one (it is left out elsewhere). In percent: of one thread, alone or under the
quota.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

PROGRAMS = ("embed", "predict", "keras")
SENTENCES = 2400
LABELLED = 60
SECONDS = 1.0
BUSY = "while True: pass"
HALF = {"cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # of version 1 and 2
Sentences = Sequence[Sequence[str]]


class Condition(NamedTuple):
    """How a program is run."""

    name: str
    threads: int | None = None  # the program's own default
    busy: bool = False
    quota: bool = False


CONDITIONS = (
    Condition("one thread, alone", threads=1),
    Condition("default, alone"),
    Condition("one thread, beside", threads=1, busy=True),
    Condition("default, beside", busy=True),
    Condition("one thread, quota", threads=1, quota=True),
    Condition("default, quota", quota=True),
)


def main() -> None:
    """Measure what the command line asks for; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=" ".join(PROGRAMS))
    parser.add_argument("--tree", type=Path, action="append", default=[], help="another tree")
    parser.add_argument("--turns", type=int, default=9)
    parsed = parser.parse_args()
    from benchmarks.machine import describe
    from benchmarks.text import REPOSITORY

    trees = [REPOSITORY, *(tree.resolve() for tree in parsed.tree)]
    with tempfile.TemporaryDirectory() as folder, half_a_core() as group:
        conditions = [one for one in CONDITIONS if group or not one.quota]
        print(f"`python -m benchmarks.shared_cores`: {describe()}\n")
        print(f"| | {' | '.join([*(one.name for one in conditions), 'load'])} |")
        print("|---" * (len(conditions) + 2) + "|")
        for program in parsed.programs or PROGRAMS:
            for tree, speeds in measured(program, folder, trees, conditions, group, parsed.turns):
                print_row(f"{program}, {tree.name}", conditions, speeds)


def measured(
    program: str,
    folder: str,
    trees: Sequence[Path],
    conditions: Sequence[Condition],
    group: Path | None,
    turns: int,
) -> Iterator[tuple[Path, list[float]]]:
    """The words per second of a program in each tree and condition."""
    cases = [(tree, one) for one in conditions for tree in trees]
    speeds: dict[tuple[Path, Condition], list[float]] = {case: [] for case in cases}
    with ExitStack() as stack:
        if program == "predict":
            train_tagger(Path(folder))
        workers = {
            case: stack.enter_context(worker(program, folder, *case, group)) for case in cases
        }
        for _ in range(turns):
            for case in cases:
                with busy_processes(os.cpu_count() or 1 if case[1].busy else 0):
                    speeds[case].append(workers[case]())
    for tree in trees:
        yield tree, [statistics.median(speeds[tree, one]) for one in conditions]


@contextmanager
def worker(
    program: str, folder: str, tree: Path, condition: Condition, group: Path | None
) -> Iterator[Callable[[], float]]:
    """A process that has a program loaded; gives what has it work for a while."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    environment.pop("OMP_NUM_THREADS", None)
    if condition.threads is not None:
        environment["OMP_NUM_THREADS"] = str(condition.threads)
    command = [sys.executable, os.path.abspath(__file__), "--work", program, folder]
    if condition.quota:
        enter = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        command = ["sh", "-c", enter, "sh", *command]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()  # it is loaded
        yield lambda: ask(process.stdin, process.stdout)
    finally:
        process.kill()
        process.wait()


def ask(to: IO[str] | None, answer: IO[str] | None) -> float:
    """Have a worker work; give its words per second."""
    assert to is not None
    assert answer is not None
    print(SECONDS, file=to, flush=True)
    return float(answer.readline())


def work(program: str, folder: str) -> None:
    """Be a worker: for each number of seconds read, work so long, and print words per second."""
    with suppress(ImportError):  # trees of before have no such thing
        from elmokit.system import use_threads, wait_briefly

        if program != "keras":  # as the commands do before torch is loaded
            wait_briefly()
            use_threads(None)
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from benchmarks.text import real_sentences

    sentences = real_sentences(SENTENCES)[1][LABELLED:]
    unit = {"embed": embed, "predict": predict, "keras": keras}[program](sentences, folder)
    next(unit)  # lays out weights
    print("loaded", flush=True)
    for line in sys.stdin:
        words, started = 0, time.perf_counter()
        while time.perf_counter() - started < float(line):
            words += next(unit)
        print(words / (time.perf_counter() - started), flush=True)


def groups_of(sentences: Sentences, size: int) -> Iterator[Sentences]:
    """Some sentences after the other, again and again."""
    for start in itertools.cycle(range(0, len(sentences) - size, size)):
        yield sentences[start : start + size]


def embed(sentences: Sentences, folder: str) -> Iterator[int]:
    """What `elmo embed` does with each file; gives how many words it had."""
    from elmokit import Embedder
    from elmokit.bulk.inputs import open_input
    from elmokit.bulk.pipeline import embed_files
    from elmokit.io.text_files import TextSettings

    embedder = Embedder.load()
    with tempfile.TemporaryDirectory(dir=folder) as own:
        text = Path(own) / "text.txt"
        for some in groups_of(sentences, 200):
            text.write_text("\n".join(" ".join(words) for words in some), encoding="utf-8")
            source = open_input([str(text)], TextSettings())
            yield embed_files(embedder, source, Path(own) / "out.npz", force=True).words


def predict(sentences: Sentences, folder: str) -> Iterator[int]:
    """What `elmo task predict` does with some sentences; gives how many words they had."""
    from elmokit.tasks.trained import TrainedTask

    for some in groups_of(sentences, 50):
        # Loaded again, since it remembers the sentences that it has seen.
        TrainedTask.load(Path(folder) / "tagger").predict([" ".join(words) for words in some])
        yield sum(map(len, some))


def train_tagger(folder: Path) -> None:
    """Make a tagger that has learnt next to nothing, which takes as long as any other."""
    from benchmarks.text import real_sentences

    tagged = folder / "tagged.txt"
    lines = (
        "\n".join(f"{word} {word.istitle()}" for word in words)
        for words in real_sentences(LABELLED)[1]
    )
    tagged.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "elmokit", "task", "train", "pos", "--train", str(tagged)]
    command += ["--format", "columns", "-o", str(folder / "tagger"), "--quiet"]
    subprocess.run([*command, "--set", "training.epochs=1"], check=True, stdout=subprocess.DEVNULL)


def keras(sentences: Sentences, folder: str) -> Iterator[int]:
    """A batch of docs/how-to/use-in-keras.md, read and learnt from; gives how many words it had."""
    from elmokit.adaptors.keras import ElmoLayer, ElmoTextModel, keras, text_input

    layer = ElmoLayer(trainable=True)
    dense = [
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
    network = keras.Sequential([text_input(), layer, *dense])
    network.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    model = ElmoTextModel(network)
    labels = [number % 2 for number in range(60)]
    for some in groups_of(sentences, 60):
        layer.forget()
        model.fit([" ".join(words) for words in some], labels, batch_size=60, verbose=0)
        yield sum(map(len, some))


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
    with ExitStack() as stack:
        found = None
        for parent in GROUPS:
            group = parent / f"elmokit-shared-cores-{os.getpid()}"
            with suppress(OSError):
                group.mkdir()
                stack.callback(group.rmdir)
                files = [group / name for name in HALF if (group / name).exists()]
                for file in files:
                    file.write_text(HALF[file.name])
                if files:
                    found = group
                    break
        yield found


def print_row(name: str, conditions: Sequence[Condition], speeds: Sequence[float]) -> None:
    """Print words per second, and their share of one thread's."""
    pairs = list(zip(conditions, speeds, strict=True))
    one_thread = {one.quota: speed for one, speed in pairs if one.threads and not one.busy}
    cells = [f"{speed:,.0f}, {speed / one_thread[one.quota]:.0%}" for one, speed in pairs]
    print(f"| {' | '.join([name, *cells, f'{os.getloadavg()[0]:.1f}'])} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        main()
