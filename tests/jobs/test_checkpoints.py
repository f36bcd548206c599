from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError, DiskError, ElmoError, ElmoWarning, FormatError, InputError
from elmokit.io.files import read_object
from elmokit.jobs import checkpoints as module
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints, fingerprint, newest_of_run

ROOT = Path(module.__file__).parents[2]
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)


def checkpoint(step: int, numbers: int = 3, **values: Any) -> Checkpoint:
    """One whose contents tell its step."""
    return Checkpoint(step, {"model.bias": torch.full((numbers,), float(step))}, values)


def saved(folder: Path, steps: tuple[int, ...], best: int | None = None, keep: int = 2) -> Path:
    for step in steps:
        Checkpoints(folder, keep).save(checkpoint(step), best=step == best)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def one_line(error: pytest.ExceptionInfo[ElmoError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def newest_step(folder: Path) -> int:
    found = Checkpoints(folder).newest()
    assert found is not None
    return found.step


# What is written is read


def test_checkpoint_is_read_back_to_the_bit_in_every_type(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tensors = {
        f"state.{str(dtype).removeprefix('torch.')}": torch.randint(
            0, 2**8, (3 * dtype.itemsize,), dtype=torch.uint8, generator=generator
        ).view(dtype)
        for dtype in DTYPES
    }
    tensors["state.bool"] = torch.tensor([True, False, True])

    Checkpoints(tmp_path).save(Checkpoint(7, tensors, {}))
    read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read.tensors[name].dtype == tensor.dtype
        assert torch.equal(read.tensors[name].view(torch.uint8), tensor.view(torch.uint8)), name


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3),
        torch.zeros(0, 4),
        torch.arange(6.0).reshape(2, 3).T,
        torch.nn.Parameter(torch.ones(2)),
        torch.arange(10)[::3],
    ],
    ids=["single number", "empty", "transposed", "parameter", "every third"],
)
def test_tensor_keeps_its_shape_and_values(tmp_path: Path, tensor: torch.Tensor) -> None:
    Checkpoints(tmp_path).save(Checkpoint(1, {"b": tensor}, {}))
    read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.tensors["b"].shape == tensor.shape
    assert torch.equal(read.tensors["b"], tensor)
    assert not read.tensors["b"].requires_grad


def test_tensors_that_share_memory_are_each_saved_complete(tmp_path: Path) -> None:
    table = torch.arange(6.0)

    Checkpoints(tmp_path).save(Checkpoint(1, {"model.all": table, "model.some": table[2:4]}, {}))
    read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.tensors["model.some"].tolist() == [2.0, 3.0]


def test_tensors_of_a_read_checkpoint_outlive_its_file(tmp_path: Path) -> None:
    saved(tmp_path, (5,))
    read = Checkpoints(tmp_path).newest()

    (tmp_path / "step-000000005" / "state.safetensors").write_bytes(bytes(1000))

    assert read is not None
    assert read.tensors["model.bias"].tolist() == [5.0, 5.0, 5.0]


def test_values_are_read_back(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "position": [3, 17],
        "random": 2**127 - 1,
        "best": float("inf"),
        "rate": 0.1,
    }

    Checkpoints(tmp_path).save(checkpoint(1, **values))
    read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.values == values


def test_values_with_numbers_as_keys_do_not_look_damaged(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(checkpoint(1, shards={2: "b", 10: "a"}))

    read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.values == {"shards": {"2": "b", "10": "a"}}


def test_safetensors_itself_reads_the_file(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    saved(tmp_path, (12,))

    tensors = load_file(tmp_path / "step-000000012" / "state.safetensors")

    assert tensors["model.bias"].tolist() == [12.0, 12.0, 12.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Checkpoint(-1, {}, {}), "step is -1"),
        (Checkpoint(1, {}, {"path": Path("here")}), "JSON cannot hold"),
    ],
)
def test_what_could_not_be_read_back_is_refused(
    tmp_path: Path, wrong: Checkpoint, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        Checkpoints(tmp_path).save(wrong)

    assert one_line(error)
    assert names(tmp_path) == []


# Which are kept


def test_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert Checkpoints(folder).newest() is None
        assert Checkpoints(folder).best() is None
        assert Checkpoints(folder).steps() == []


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, (100, 200, 300, 400, 500), best=200)

    best = Checkpoints(tmp_path).best()

    assert Checkpoints(tmp_path).steps() == [200, 400, 500]
    assert newest_step(tmp_path) == 500
    assert best is not None
    assert best.step == 200
    assert best.tensors["model.bias"].tolist() == [200.0, 200.0, 200.0]


def test_a_better_one_takes_the_place_of_the_best(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2, 3), best=1)
    Checkpoints(tmp_path).save(checkpoint(4), best=True)
    best = Checkpoints(tmp_path).best()

    assert Checkpoints(tmp_path).steps() == [3, 4]
    assert best is not None
    assert best.step == 4


def test_without_a_best_there_is_none(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2))

    assert Checkpoints(tmp_path).best() is None


def test_keeping_one_keeps_the_newest(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2, 3), keep=1)

    assert Checkpoints(tmp_path).steps() == [3]


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep is 0"):
        Checkpoints(tmp_path, keep=0)


def test_steps_of_ten_digits_come_after_those_of_nine(tmp_path: Path) -> None:
    saved(tmp_path, (999_999_999, 1_000_000_000))

    assert Checkpoints(tmp_path).steps() == [999_999_999, 1_000_000_000]
    assert newest_step(tmp_path) == 1_000_000_000


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "step-by-step").mkdir()

    saved(tmp_path, (1, 2, 3), keep=1)

    assert names(tmp_path) == ["notes.txt", "step-000000003", "step-by-step"]


def test_saving_a_step_again_replaces_it_and_keeps_its_mark(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2), best=2)

    Checkpoints(tmp_path).save(checkpoint(2, finished=True))
    best = Checkpoints(tmp_path).best()

    assert names(tmp_path) == ["step-000000001", "step-000000002-2"]
    assert best is not None
    assert best.values == {"finished": True}


def test_second_save_of_a_step_is_newer_than_the_first(tmp_path: Path) -> None:
    saved(tmp_path / "other", (2,))
    for number in range(11):
        Checkpoints(tmp_path).save(checkpoint(2, number=number))
    shutil.copytree(tmp_path / "other/step-000000002", tmp_path / "step-000000002")

    newest = Checkpoints(tmp_path).newest()

    assert newest is not None
    assert newest.values == {"number": 10}


def written_by_0_1(folder: Path, values: dict[str, Any]) -> Path:
    """The first checkpoint of a file format that stays: its header was written by hand."""
    header = (
        b'{"__metadata__": {"format": "pt"}, '
        b'"model.bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    )
    header += b" " * (-len(header) % 8)
    numbers = torch.tensor([1.0, 2.0]).numpy().tobytes()
    contents = len(header).to_bytes(8, "little") + header + numbers
    folder.mkdir(parents=True)
    (folder / "state.safetensors").write_bytes(contents)
    record = {"format": "elmokit-checkpoint", "version": 1, "step": 7, "values": values}
    record["sha256"] = hashlib.sha256(contents).hexdigest()
    text = json.dumps(record, sort_keys=True)
    record["fingerprint"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps(record, indent=2) + "\n")
    (folder / "best").touch()
    return folder


@pytest.mark.parametrize("name", ["step-000000007", "step-000000007-again"])
def test_checkpoint_that_elmokit_0_1_wrote_is_read(tmp_path: Path, name: str) -> None:
    written_by_0_1(tmp_path / name, {"position": 3})

    read = Checkpoints(tmp_path).newest()
    best = Checkpoints(tmp_path).best()

    assert read is not None
    assert (read.step, read.values) == (7, {"position": 3})
    assert read.tensors["model.bias"].tolist() == [1.0, 2.0]
    assert best is not None


# Damage


def flip_a_byte(path: Path) -> None:
    contents = bytearray(path.read_bytes())
    contents[-5] ^= 1
    path.write_bytes(contents)


def flip_a_digit(path: Path) -> None:
    path.write_text(path.read_text().replace('"version": 1', '"version": 3'))


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def put_another_format(path: Path) -> None:
    path.write_text('{"format": "elmokit-bilm"}')


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (flip_a_byte, "state.safetensors"),
    (cut_in_half, "state.safetensors"),
    (Path.unlink, "state.safetensors"),
    (flip_a_digit, "state.json"),
    (cut_in_half, "state.json"),
    (Path.unlink, "state.json"),
    (put_another_format, "state.json"),
]


@pytest.mark.parametrize(("damage", "file"), DAMAGE)
def test_damaged_newest_is_passed_over_with_a_warning_that_names_both(
    tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    saved(tmp_path, (1, 2))
    damage(tmp_path / "step-000000002" / file)

    with pytest.warns(ElmoWarning) as warned:
        read = Checkpoints(tmp_path).newest()

    assert read is not None
    assert read.step == 1
    assert len(warned) == 1
    message = str(warned[0].message)
    assert message.startswith(str(tmp_path / "step-000000002" / file))
    assert message.endswith("; step-000000001 is used instead")
    assert "\n" not in message


@pytest.mark.parametrize(("damage", "file"), DAMAGE)
def test_damaged_best_is_an_error_where_it_was_the_only_one(
    tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    saved(tmp_path, (1, 2), best=1)
    damage(tmp_path / "step-000000001" / file)

    with pytest.raises(FormatError, match="step-000000001") as error:
        Checkpoints(tmp_path).best()

    assert one_line(error)


def test_nothing_but_damaged_checkpoints_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2))
    for name in names(tmp_path):
        flip_a_byte(tmp_path / name / "state.safetensors")

    with pytest.raises(FormatError, match=r"step-000000002.*is damaged.*start a new run") as error:
        Checkpoints(tmp_path).newest()

    assert one_line(error)


def test_checkpoint_in_the_folder_of_another_step_is_damage(tmp_path: Path) -> None:
    saved(tmp_path, (1,))
    (tmp_path / "step-000000001").rename(tmp_path / "step-000000009")

    with pytest.raises(FormatError, match="is of step 1"):
        Checkpoints(tmp_path).newest()


def test_checkpoint_of_a_later_elmokit_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, (1,))
    with monkeypatch.context() as later:
        later.setattr(module, "VERSION", 2)
        saved(tmp_path, (2,))

    with pytest.raises(FormatError, match="upgrade it: pip install"):
        Checkpoints(tmp_path).newest()


def test_run_that_went_back_behind_a_damaged_checkpoint_replaces_it(tmp_path: Path) -> None:
    saved(tmp_path, (100, 200, 300))
    flip_a_byte(tmp_path / "step-000000300" / "state.safetensors")

    saved(tmp_path, (250,), keep=1)

    assert Checkpoints(tmp_path).steps() == [250]
    assert newest_step(tmp_path) == 250


def test_reader_goes_on_when_the_checkpoint_it_reads_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, (1,), keep=1)

    def replaced_meanwhile(path: Path) -> dict[str, Any]:
        monkeypatch.setattr(module, "read_object", read_object)
        saved(tmp_path, (2,), keep=1)
        return read_object(path)

    monkeypatch.setattr(module, "read_object", replaced_meanwhile)

    assert newest_step(tmp_path) == 2


# A disk that refuses


@pytest.mark.parametrize("written", ["state.safetensors", "state.json"])
def test_full_disk_leaves_earlier_checkpoints_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    saved(tmp_path, (1, 2, 3), best=1)

    def full(contents: Mapping[str, Any], path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = {"state.safetensors": "_write_tensors", "state.json": "write_object"}[written]
    monkeypatch.setattr(module, writer, full)
    with pytest.raises(DiskError, match=r"step-000000004: cannot .*; free some space") as error:
        Checkpoints(tmp_path).save(checkpoint(4), best=True)

    assert one_line(error)
    assert names(tmp_path) == ["step-000000001", "step-000000002", "step-000000003"]
    assert newest_step(tmp_path) == 3


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork, kill and limits")


@pytest.fixture
def _files_of_at_most_100_kilobytes() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@posix
@pytest.mark.usefixtures("_files_of_at_most_100_kilobytes")
def test_file_that_the_system_refuses_midway_leaves_no_trace(tmp_path: Path) -> None:
    saved(tmp_path, (1,))

    with pytest.raises(DiskError, match="step-000000002: cannot be written") as error:
        Checkpoints(tmp_path).save(checkpoint(2, 100_000))

    assert one_line(error)
    assert names(tmp_path) == ["step-000000001"]
    assert newest_step(tmp_path) == 1


# A process that is killed


def run(program: str, *arguments: str) -> list[dict[str, Any]]:
    """What a program prints, a JSON object per line."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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


# Settings

SETTINGS: dict[str, Any] = {
    "model": {"cell_size": 32},
    "training": {"rows": 64, "steps": 100, "betas": (0, 0.9)},
}


def changed(name: str, value: object) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps(SETTINGS))
    table, key = name.split(".")
    settings[table][key] = value
    return settings


def test_fingerprint_depends_on_the_settings_and_not_on_their_order() -> None:
    reordered = {"training": dict(reversed(SETTINGS["training"].items())), **SETTINGS}

    assert fingerprint(SETTINGS) == fingerprint(reordered)
    assert fingerprint(SETTINGS) == fingerprint(json.loads(json.dumps(SETTINGS)))
    assert fingerprint(SETTINGS) != fingerprint(changed("training.rows", 128))
    assert len(fingerprint(SETTINGS)) == 64


@pytest.fixture
def of_a_run(tmp_path: Path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint(3, {}, {"settings": SETTINGS, "corpus": "a", "progress": 7}))
    return checkpoints


def test_checkpoint_of_the_same_run_is_read(of_a_run: Checkpoints) -> None:
    identity = {"settings": changed("training.steps", 200), "corpus": "a"}
    for may_differ in (["training.steps"], ["training"]):
        assert newest_of_run(of_a_run, identity, may_differ).step == 3


def test_setting_that_differs_is_named_with_both_values(
    of_a_run: Checkpoints,
) -> None:
    identity = {"settings": changed("training.rows", 128), "corpus": "b"}
    with pytest.raises(ConfigError) as error:
        newest_of_run(of_a_run, identity, ["training.row", "rows"])
    assert one_line(error).startswith(
        f"{of_a_run.folder}: is of another run (settings.training.rows was 64, is 128); "
    )


def test_checkpoint_of_another_text_is_refused(of_a_run: Checkpoints) -> None:
    with pytest.raises(InputError, match=r"\(corpus was a, is b\)"):
        newest_of_run(of_a_run, {"settings": SETTINGS, "corpus": "b"}, [])
