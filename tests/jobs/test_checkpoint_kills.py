"""A process that is killed while it saves checkpoints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import run_python

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and kill")


def run(program: str, *arguments: str) -> list[dict[str, Any]]:
    """What a program prints, a JSON object per line."""
    return [json.loads(line) for line in run_python(program, *arguments).splitlines()]


KILLED_AT_RANDOM = """
import json, os, random, signal, sys, time, torch
from pathlib import Path
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
torch.set_num_threads(1)
random.seed(1)
checkpoints = Checkpoints(sys.argv[1])

def save_until_killed(first, reports):
    for step in range(first, first + 10_000):
        tensors = {"bias": torch.full((50_000,), float(step))}
        checkpoints.save(Checkpoint(step, tensors, {"step": step}), best=step % 3 == 0)
        os.write(reports, step.to_bytes(4, "big"))

step = 0
for _ in range(10):
    listen, report = os.pipe()
    child = os.fork()
    if not child:
        save_until_killed(step + 1, report)
    os.close(report)
    reported = os.read(listen, 4)
    time.sleep(random.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(listen, 4):
        reported = more
    newest, best = checkpoints.newest(), checkpoints.best()
    step = newest.step
    print(json.dumps({
        "reported": int.from_bytes(reported, "big"),
        "newest": step,
        "contents": sorted(set(newest.tensors["bias"].tolist())),
        "best": best.step if best else 0,
        "steps": checkpoints.steps(),
    }))
"""


@posix
def test_process_killed_at_random_loses_nothing_that_it_reported_as_saved(tmp_path: Path) -> None:
    rounds = run(KILLED_AT_RANDOM, str(tmp_path))

    assert len(rounds) == 10
    for killed in rounds:
        assert killed["reported"] <= killed["newest"] <= killed["reported"] + 1
        assert killed["contents"] == [killed["newest"]]
        # The newest may have been named before the process could report it.
        assert killed["best"] == killed["newest"] - killed["newest"] % 3
        assert len(killed["steps"]) <= 4


KILLED_EVERYWHERE = """
import json, os, shutil, sys, torch
from pathlib import Path
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints
torch.set_num_threads(1)
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
folder = Path(sys.argv[1])

def save(step, best=False, **values):
    tensors = {"bias": torch.full((3,), float(step))}
    Checkpoints(folder, keep=1).save(Checkpoint(step, tensors, values), best=best)

def kill_before_change(number, report):
    changes = 0
    def count(event, arguments):
        nonlocal changes
        if event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            changes += 1
            if changes == number:
                os._exit(9)
    sys.addaudithook(count)
    save(3, best=True)
    os.write(report, b"3")
    save(3, again=True)
    os.write(report, b"a")
    os._exit(0)

save(1, best=True)
save(2)
before = folder.with_name("before")
folder.rename(before)
number = status = 1
while status:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before, folder)
    listen, report = os.pipe()
    child = os.fork()
    if not child:
        kill_before_change(number, report)
    os.close(report)
    status = os.waitpid(child, 0)[1]
    checkpoints = Checkpoints(folder, keep=1)
    newest, best = checkpoints.newest(), checkpoints.best()
    found = [set(os.listdir(path)) for path in folder.glob("step-*")]
    reported = os.read(listen, 2).decode()
    os.close(listen)
    save(4)
    print(json.dumps({
        "reported": reported,
        "newest": newest.step,
        "again": "again" in newest.values,
        "best": best.step,
        "complete": all({"state.json", "state.safetensors"} <= files for files in found),
        "names": sorted(os.listdir(folder)),
    }))
    number += 1
"""


@posix
def test_process_killed_before_any_of_its_changes_loses_neither_newest_nor_best(
    tmp_path: Path,
) -> None:
    rounds = run(KILLED_EVERYWHERE, str(tmp_path / "run"))

    assert len(rounds) > 20
    assert rounds[-1]["reported"] == "3a"
    for killed in rounds:
        assert (killed["newest"], killed["best"]) in {(2, 1), (3, 3)}
        assert killed["complete"]
        if killed["reported"]:
            assert killed["newest"] == 3
        if killed["reported"] == "3a":
            assert killed["again"]
        # The next save has removed all that the killed process left.
        stored = [int(name.split("-")[1]) for name in killed["names"]]
        assert stored == [killed["best"], 4]
