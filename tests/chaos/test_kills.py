"""Long jobs that are killed, stopped, cut short and started twice: the result is the same bytes.

The plan of each job is drawn from the seed at the head of the run; `ELMO_CHAOS_SEED` repeats it.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from analysis.neighbours.small_indexes import rows_of
from bulk.elmo_process import start
from bulk.small_jobs import contents
from chaos.bounds import SEED
from helpers import ROOT, files_in, write
from pretraining.small_runs import RUN, sentences
from safetensors.torch import load_file
from small_models import write_small_model
from tasks.small_tasks import write_bilm, write_examples

pytestmark = [pytest.mark.chaos, pytest.mark.skipif(sys.platform != "linux", reason="kills")]

KILLS = int(os.environ.get("ELMO_CHAOS_KILLS", 8))
PLAN = ["kill", "kill", "kill", "stop", "term", "two"]


class Work(NamedTuple):
    """A command that writes to a place, can be resumed, and whose result can be compared."""

    command: tuple[str, ...]
    output: Path
    result: Callable[[Path], object]


def lines(path: Path, count: int) -> str:
    words = ["the", "a", "bank", "river", "play", "of", "light", "spring", "한국어"]
    draw = random.Random(0)
    return str(write(path, (" ".join([*draw.choices(words, k=6), str(n)]) for n in range(count))))


def embedding(folder: Path, suffix: str) -> Work:
    text, model = lines(folder / "t.txt", 8000), write_small_model(folder / "m")
    command = ("embed", text, "--model", model, "--quiet", "--state", "carry")
    return Work(command, folder / f"out{suffix}", contents)


def indexing(folder: Path) -> Work:
    pytest.importorskip("lancedb", reason="the extra analysis is not installed")
    text, model = lines(folder / "t.txt", 4000), write_small_model(folder / "m")
    command = ("neighbours", "build", text, "--model", model, "--quiet")
    return Work(command, folder / "index", rows_of)


def pretraining(folder: Path) -> Work:
    text = write(folder / "t.txt", (" ".join(words) for words in sentences(200)))
    run = RUN.replace("[corpus]", f"[corpus]\ntrain = [{str(text)!r}]")
    run = run.replace("steps = 12", "steps = 150").replace("every = 6", "every = 10")
    command = ("pretrain", str(write(folder / "run.toml", run)), "--quiet")

    def weights(output: Path) -> object:
        found = load_file(output / "model" / "model.safetensors")
        return {name: value.numpy().tobytes() for name, value in found.items()}

    return Work(command, folder / "run", weights)


def task(folder: Path) -> Work:
    train, dev = (str(write_examples(folder, "spam", part, 200)) for part in ("train", "dev"))
    command = ("task", "train", "spam", "--train", train, "--dev", dev, "--quiet")
    command += ("--model", str(write_bilm(folder / "b")), "--set", "training.epochs=6")
    return Work(command, folder / "spam", lambda output: files_in(output)["weights.safetensors"])


WORKS: dict[str, Callable[[Path], Work]] = {
    "embed .h5": lambda folder: embedding(folder, ".h5"),
    "embed .npz": lambda folder: embedding(folder, ".npz"),
    "embed .parquet": lambda folder: embedding(folder, ".parquet"),
    "neighbours": indexing,
    "pretrain": pretraining,
    "task": task,
}


def run(work: Work, output: Path, *more: str) -> float:
    """Run to the end; the seconds that it took."""
    started = time.monotonic()
    process = start(*work.command, "-o", str(output), *more)
    process.join()
    assert process.exitcode == 0, work.command
    return time.monotonic() - started


def going_on(work: Work) -> str:
    """The flag to go on with; training that has saved nothing yet begins again."""
    trains, begun = work.command[0] in ("pretrain", "task"), any(work.output.rglob("step-*"))
    return "--force" if trains and not begun else "--resume"


def harm(work: Work, how: str, seconds: float) -> bool:
    """Do something to a run after so many seconds; False if it has come to its end before."""
    process = start(*work.command, "-o", str(work.output), going_on(work))
    process.join(seconds)
    if not process.is_alive():
        assert process.exitcode == 0
        return False
    if how == "stop":  # as a laptop that sleeps; then it continues
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGCONT)
        process.join(seconds / 4)
    if how == "two":
        other = start(*work.command, "-o", str(work.output), "--resume")
        other.join()
        assert other.exitcode in (0, 1)  # which of the two is first
    process.terminate() if how == "term" else process.kill()
    process.join()
    assert process.exitcode in (0, 1, 130, -signal.SIGKILL, -signal.SIGTERM)
    return process.exitcode != 0


@pytest.mark.parametrize("name", WORKS)
def test_what_is_killed_and_resumed_ends_with_the_same_result(name: str, tmp_path: Path) -> None:
    work, draw = WORKS[name](tmp_path), random.Random(f"{SEED} {name}")
    whole = tmp_path / "whole" / work.output.name
    whole.parent.mkdir()
    duration = run(work, whole)
    done = []
    for _ in range(3 * KILLS):
        how, after = draw.choice(PLAN), draw.uniform(0, 0.8 * duration)
        if harm(work, how, after):
            done.append(f"{how} {after:.2f}")
        elif len(done) < KILLS:  # it has ended: the next one is of another run
            shutil.rmtree(work.output) if work.output.is_dir() else work.output.unlink()
        if len(done) == KILLS:
            break
    run(work, work.output, going_on(work))
    assert work.result(work.output) == work.result(whole), (SEED, done)
    leftovers = [path.name for path in tmp_path.rglob(".tmp-*")]
    assert not leftovers, leftovers


DISK = """
mount -t tmpfs -o ro,size=SIZE none disk || exit 77
run() { COMMAND "$@" 2> told; echo $? "$(wc -l < told)" "$(tail -n 1 told)"; }
run
mount -o remount,rw,size=SIZE disk
run
find disk -name NAME -type f
find disk -name 'step-*' | grep -q . && FLAG=--resume
mount -o remount,rw,size=1g disk
COMMAND $FLAG && cp -r disk/NAME kept/NAME
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs a disk of its own")
@pytest.mark.parametrize("name", WORKS)
def test_a_read_only_and_a_full_disk_are_one_line_and_room_it_resumes(
    name: str, tmp_path: Path
) -> None:
    work = WORKS[name](tmp_path)
    run(work, work.output)
    files = files_in(work.output) if work.output.is_dir() else {"": work.output.read_bytes()}
    blocks = sum(-(-len(contents) // 4096) for contents in files.values())
    for folder in ("disk", "kept"):
        (tmp_path / folder).mkdir()
    place = f"disk/{work.output.name}"
    program = "import sys; from bulk.elmo_process import run; run(sys.argv[1:])"
    command = shlex.join([sys.executable, "-c", program, *work.command, "-o", place])
    flag = "--force" if work.command[0] in ("pretrain", "task") else "--resume"
    script = DISK.replace("COMMAND", command).replace("SIZE", f"{blocks // 2 * 4}k")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script.replace("NAME", work.output.name)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "FLAG": flag},
        capture_output=True,
        text=True,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this system gives tests no disk of their own")
    assert done.returncode == 0, (done.stdout, done.stderr)
    read_only, full = done.stdout.splitlines()[:2]
    assert read_only.startswith("1 1 elmo: "), done.stdout
    assert "is not writable" in read_only
    assert full.startswith("1 1 elmo: "), done.stdout
    assert re.search("No space left on device|disk is full", full), full
    assert place not in done.stdout.splitlines(), "a file that is not complete"
    assert work.result(tmp_path / "kept" / work.output.name) == work.result(work.output)


@pytest.mark.parametrize("name", WORKS)
def test_files_that_may_not_grow_or_be_made_are_one_line(name: str, tmp_path: Path) -> None:
    """As on a disk with quotas, and in a folder of the system."""
    work = WORKS[name](tmp_path)
    limited = (
        "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1)); sys.argv[0] = 'elmo'; "
        "runpy.run_module('elmokit', run_name='__main__')"
    )
    for program, output in (["-c", limited], work.output), (["-m", "elmokit"], Path("/sys/elmo")):
        place = output if output == work.output else output.with_name(work.output.name)
        command = [sys.executable, *program, *work.command, "-o", str(place)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 1, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    run(work, work.output, *(["--resume"] if any(tmp_path.glob("*.parts")) else ["--force"]))


def test_text_that_changes_between_is_noticed(tmp_path: Path) -> None:
    work = embedding(tmp_path, ".h5")
    while not harm(work, "kill", 1.0):
        work.output.unlink()
    if not any(tmp_path.glob("*.parts/part-*")):
        pytest.skip("nothing was stored before the kill")
    text = Path(work.command[1])
    text.write_text("changed " + text.read_text())
    process = start(*work.command, "-o", str(work.output), "--resume")
    process.join()
    assert process.exitcode == 1
