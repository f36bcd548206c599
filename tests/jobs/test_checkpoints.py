from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import limited_files

from elmokit.errors import ConfigError, DiskError, ElmoWarning, FormatError, InputError
from elmokit.io.files import read_object
from elmokit.jobs import checkpoints as module
from elmokit.jobs.checkpoints import Checkpoint, Checkpoints, fingerprint, newest_of_run

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


def newest(folder: Path) -> Checkpoint:
    found = Checkpoints(folder).newest()
    assert found is not None
    return found


def best(folder: Path) -> Checkpoint:
    found = Checkpoints(folder).best()
    assert found is not None
    return found


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
    read = newest(tmp_path)

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
    Checkpoints(tmp_path).save(Checkpoint(1, {"b": tensor, "shared": tensor[...]}, {}))
    read = newest(tmp_path)

    assert torch.equal(read.tensors["shared"], tensor)
    assert read.tensors["b"].shape == tensor.shape
    assert torch.equal(read.tensors["b"], tensor)
    assert not read.tensors["b"].requires_grad


def test_tensors_of_a_read_checkpoint_outlive_its_file(tmp_path: Path) -> None:
    saved(tmp_path, (5,))
    read = newest(tmp_path)

    (tmp_path / "step-000000005" / "state.safetensors").write_bytes(bytes(1000))

    assert read.tensors["model.bias"].tolist() == [5.0, 5.0, 5.0]


def test_values_are_read_back_numbers_of_keys_as_texts(tmp_path: Path) -> None:
    values: dict[str, Any] = {"position": [3, 17], "random": 2**127 - 1, "best": float("inf")}
    Checkpoints(tmp_path).save(checkpoint(1, **values, shards={2: "b", 10: "a"}))

    assert newest(tmp_path).values == {**values, "shards": {"2": "b", "10": "a"}}


# Which are kept


def test_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert Checkpoints(folder).newest() is None
        assert Checkpoints(folder).best() is None
        assert Checkpoints(folder).steps() == []


def test_the_last_and_the_best_are_stored(tmp_path: Path) -> None:
    saved(tmp_path, (100, 200, 300, 400, 500), best=200)

    assert Checkpoints(tmp_path).steps() == [200, 400, 500]
    assert newest(tmp_path).step == 500
    assert best(tmp_path).step == 200
    assert best(tmp_path).tensors["model.bias"].tolist() == [200.0, 200.0, 200.0]

    Checkpoints(tmp_path).save(checkpoint(600), best=True)
    assert Checkpoints(tmp_path).steps() == [500, 600]
    assert best(tmp_path).step == 600


def test_one_is_stored_at_least_and_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "step-by-step").mkdir()

    saved(tmp_path, (1, 2, 3), keep=1)

    assert Checkpoints(tmp_path).steps() == [3]
    assert Checkpoints(tmp_path).best() is None
    assert names(tmp_path) == ["notes.txt", "step-000000003", "step-by-step"]


def test_steps_of_ten_digits_come_after_those_of_nine(tmp_path: Path) -> None:
    saved(tmp_path, (999_999_999, 1_000_000_000))

    assert Checkpoints(tmp_path).steps() == [999_999_999, 1_000_000_000]
    assert newest(tmp_path).step == 1_000_000_000


def test_saving_a_step_again_replaces_it_and_keeps_its_mark(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2), best=2)

    Checkpoints(tmp_path).save(checkpoint(2, finished=True))

    assert names(tmp_path) == ["step-000000001", "step-000000002-2"]
    assert best(tmp_path).values == {"finished": True}


def test_second_save_of_a_step_is_newer_than_the_first(tmp_path: Path) -> None:
    saved(tmp_path / "other", (2,))
    for number in range(11):
        Checkpoints(tmp_path).save(checkpoint(2, number=number))
    shutil.copytree(tmp_path / "other/step-000000002", tmp_path / "step-000000002")

    assert newest(tmp_path).values == {"number": 10}


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

    for read in (newest(tmp_path), best(tmp_path)):
        assert (read.step, read.values) == (7, {"position": 3})
        assert read.tensors["model.bias"].tolist() == [1.0, 2.0]


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
        read = newest(tmp_path)

    assert read.step == 1
    assert len(warned) == 1
    message = str(warned[0].message)
    assert message.startswith(str(tmp_path / "step-000000002" / file))
    assert message.endswith("; step-000000001 is used instead")


def test_nothing_but_damaged_checkpoints_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, (1, 2), best=1)
    for name in names(tmp_path):
        flip_a_byte(tmp_path / name / "state.safetensors")

    with pytest.raises(FormatError, match=r"step-000000002.*is damaged.*start a new run"):
        Checkpoints(tmp_path).newest()
    with pytest.raises(FormatError, match="step-000000001"):
        Checkpoints(tmp_path).best()


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

    with pytest.raises(FormatError, match="install a newer elmokit"):
        Checkpoints(tmp_path).newest()


def test_run_that_went_back_behind_a_damaged_checkpoint_replaces_it(tmp_path: Path) -> None:
    saved(tmp_path, (100, 200, 300))
    flip_a_byte(tmp_path / "step-000000300" / "state.safetensors")

    saved(tmp_path, (250,), keep=1)

    assert Checkpoints(tmp_path).steps() == [250]
    assert newest(tmp_path).step == 250


def test_reader_goes_on_when_the_checkpoint_it_reads_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, (1,), keep=1)

    def replaced_meanwhile(path: Path) -> dict[str, Any]:
        monkeypatch.setattr(module, "read_object", read_object)
        saved(tmp_path, (2,), keep=1)
        return read_object(path)

    monkeypatch.setattr(module, "read_object", replaced_meanwhile)

    assert newest(tmp_path).step == 2


# A disk that refuses


@pytest.mark.parametrize("written", ["state.safetensors", "state.json"])
def test_full_disk_leaves_earlier_checkpoints_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    saved(tmp_path, (1, 2, 3), best=1)

    def full(contents: Mapping[str, Any], path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = {"state.safetensors": "write_tensors", "state.json": "write_object"}[written]
    monkeypatch.setattr(module, writer, full)
    with pytest.raises(DiskError, match=r"step-000000004: cannot .*; free some space"):
        Checkpoints(tmp_path).save(checkpoint(4), best=True)
    assert names(tmp_path) == ["step-000000001", "step-000000002", "step-000000003"]
    assert newest(tmp_path).step == 3


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork, kill and limits")


@posix
def test_file_that_the_system_refuses_midway_leaves_no_trace(tmp_path: Path) -> None:
    saved(tmp_path, (1,))

    with (
        limited_files(100_000),
        pytest.raises(DiskError, match="step-000000002: cannot be written"),
    ):
        Checkpoints(tmp_path).save(checkpoint(2, 100_000))
    assert names(tmp_path) == ["step-000000001"]
    assert newest(tmp_path).step == 1


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


def test_setting_that_differs_is_named_with_both_values(of_a_run: Checkpoints) -> None:
    identity = {"settings": changed("training.rows", 128), "corpus": "b"}
    with pytest.raises(ConfigError) as error:
        newest_of_run(of_a_run, identity, ["training.row", "rows"])
    assert str(error.value).startswith(
        f"{of_a_run.folder}: is of another run (settings.training.rows was 64, is 128); "
    )


def test_checkpoint_of_another_text_is_refused(of_a_run: Checkpoints) -> None:
    with pytest.raises(InputError, match=r"\(corpus was a, is b\)"):
        newest_of_run(of_a_run, {"settings": SETTINGS, "corpus": "b"}, [])
