from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers import error_of, files_in, write

from elmokit.errors import FormatError, InputError, MissingFileError
from elmokit.io import files
from elmokit.io.files import (
    DiskError,
    claim,
    read_object,
    sha256_of,
    write_atomically,
    write_folder_atomically,
)


class Stop(BaseException):
    """Stands for Ctrl-C: no Exception."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files


def test_file_appears_complete_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "first" / "vectors.npz"
    with write_atomically(target) as temporary:
        temporary.write_bytes(b"whole")
        assert not target.exists()
        assert (temporary.parent, temporary.suffix) == (target.parent, ".npz")

    assert files_in(tmp_path) == {"runs/first/vectors.npz": b"whole"}


@pytest.mark.parametrize("kind", [ValueError, Stop])
def test_exception_leaves_the_old_file_and_no_other(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    target = tmp_path / "vectors.h5"
    target.write_bytes(b"old")

    def write_half() -> None:
        with write_atomically(target) as temporary:
            temporary.write_bytes(b"half")
            raise kind

    error_of(write_half, kind=kind)

    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["vectors.h5"]


def test_file_and_folder_reach_the_disk_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, replace = os.fsync.__wrapped__, os.replace  # the disk itself, as no other test

    def noted_fsync(descriptor: int) -> None:
        steps.append("sync folder" if os.path.isdir(f"/dev/fd/{descriptor}") else "sync file")
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with write_atomically(tmp_path / "vectors.h5") as temporary:
        temporary.touch()

    assert steps == ["sync file", "rename", "sync folder"]


def test_file_system_that_cannot_sync_folders_still_gets_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_folders(descriptor: int) -> None:
        if os.path.isdir(f"/dev/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse_folders)
    with write_atomically(tmp_path / "vectors.h5") as temporary:
        temporary.touch()

    assert names(tmp_path) == ["vectors.h5"]


def test_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "big-disk").mkdir()
    link = tmp_path / "vectors.h5"
    link.symlink_to(tmp_path / "big-disk" / "vectors.h5")

    with write_atomically(link) as temporary:
        temporary.write_bytes(b"new")

    assert link.is_symlink()
    assert (tmp_path / "big-disk" / "vectors.h5").read_bytes() == b"new"


@pytest.mark.parametrize("place", [os.devnull, "."])
def test_device_or_folder_is_never_replaced_by_a_file(place: str) -> None:
    with pytest.raises(InputError, match="give the name of a file"), write_atomically(place):
        pass


def test_full_disk_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    target = tmp_path / "vectors.h5"

    with pytest.raises(DiskError) as error, write_atomically(target):
        raise OSError(errno.ENOSPC, "No space left\n on device")

    assert str(error.value) == (
        f"{target}: cannot be written ([Errno {errno.ENOSPC}] No space left on device); "
        "free some space or choose another disk"
    )
    assert names(tmp_path) == []


def test_place_without_permission_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(source))

    monkeypatch.setattr(os, "replace", refuse)
    with (
        pytest.raises(DiskError, match=r"Permission denied\); choose a place"),
        write_atomically(tmp_path / "vectors.h5") as temporary,
    ):
        temporary.touch()
    assert names(tmp_path) == []


def test_failure_to_read_another_file_is_not_called_a_failure_to_write(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), write_atomically(tmp_path / "vectors.h5"):
        (tmp_path / "corpus.txt").read_text()


# Folders


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that holds a file."""
    write(tmp_path / "model" / "old.txt")
    return tmp_path / "model"


@pytest.mark.parametrize("empty", [False, True], ids=["not there", "empty"])
def test_folder_appears_with_all_its_files(tmp_path: Path, empty: bool) -> None:
    folder = tmp_path / "runs" / "model"
    if empty:
        folder.mkdir(parents=True)
    with write_folder_atomically(folder) as temporary:
        write(temporary / "deep" / "config.json", "{}")
        assert files_in(folder) == {}

    assert files_in(tmp_path) == {"runs/model/deep/config.json": b"{}"}


@pytest.mark.parametrize("meanwhile", [False, True])
def test_folder_that_holds_files_is_not_replaced(tmp_path: Path, meanwhile: bool) -> None:
    notes = tmp_path / "model" / "notes.txt"
    if not meanwhile:
        write(notes)

    with (
        pytest.raises(InputError, match="already holds files"),
        write_folder_atomically(tmp_path / "model"),
    ):
        write(notes)

    assert files_in(tmp_path) == {"model/notes.txt": b""}


def test_force_replaces_a_folder_as_a_whole(tmp_path: Path, model: Path) -> None:
    with write_folder_atomically(model, force=True) as temporary:
        (temporary / "new.txt").touch()

    assert files_in(tmp_path) == {"model/new.txt": b""}


def test_exception_leaves_the_old_folder_and_no_other(tmp_path: Path, model: Path) -> None:
    def write_half() -> None:
        with write_folder_atomically(model, force=True) as temporary:
            (temporary / "new.txt").touch()
            raise Stop

    error_of(write_half, kind=Stop)

    assert files_in(tmp_path) == {"model/old.txt": b""}


def test_old_folder_comes_back_when_the_new_one_cannot_take_its_name(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refuse_new(source: Path, target: Path) -> None:
        if (source / "new.txt").exists():
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_new)
    with (
        pytest.raises(DiskError, match="Input/output error"),
        write_folder_atomically(model, force=True) as temporary,
    ):
        (temporary / "new.txt").touch()

    assert files_in(tmp_path) == {"model/old.txt": b""}


@pytest.mark.parametrize("inside", [".", "work/here"])
def test_not_even_force_replaces_the_folder_the_user_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    (tmp_path / "thesis.tex").touch()
    monkeypatch.chdir(tmp_path / inside)

    with (
        pytest.raises(InputError, match="choose another one"),
        write_folder_atomically(tmp_path, force=True),
    ):
        pass

    assert (tmp_path / "thesis.tex").exists()


def test_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").touch()

    with (
        pytest.raises(InputError, match="give the name of a folder"),
        write_folder_atomically(tmp_path / "model", force=True),
    ):
        pass


def test_full_disk_while_filling_a_folder_names_the_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskError, match=r"model: cannot be written .*No space left"),
        write_folder_atomically(tmp_path / "model") as temporary,
    ):
        raise OSError(errno.ENOSPC, "No space left", str(temporary / "weights"))

    assert names(tmp_path) == []


# Sums and locks


def test_sum_is_the_sha256_of_the_contents(tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"abc")
    assert sha256_of(path) == hashlib.sha256(b"abc").hexdigest()
    assert "cannot be read" in error_of(sha256_of, tmp_path / "nothing", kind=DiskError)


def test_threads_pass_a_lock_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        with claim(tmp_path / "lock", wait=True):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from elmokit.io.files import claim\n"
        "with claim(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    root = Path(files.__file__).parents[2]
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()

    with claim(tmp_path / "lock", wait=True):
        pass


def test_a_claim_of_a_dead_machine_ends_as_its_refusal_says(tmp_path: Path) -> None:
    lock = tmp_path / "run" / ".lock"
    with claim(lock):  # which the system of another machine would not free
        with pytest.raises(InputError, match=f"is dead, .* remove {lock}"), claim(lock):
            pass
        lock.unlink()
        with claim(lock):
            pass


def test_a_folder_that_cannot_be_written_to_is_not_said_to_be_locked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(DiskError, match=r"file/folder: cannot be written to \("),
        claim(tmp_path / "file" / "folder" / "lock"),
    ):
        pass


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b" \n", "is empty"),
        (b'{"a":\n {', "line 2: is not valid JSON"),
        (b"[1]", "holds a JSON list; it must hold an object"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b'{"version": ' + b"1" * 5000 + b"}", "is not valid JSON"),
    ],
)
def test_a_file_without_a_json_object_is_named(
    tmp_path: Path, contents: bytes, message: str
) -> None:
    (tmp_path / "a.json").write_bytes(contents)
    with pytest.raises(FormatError, match=rf"a\.json(: |, ){message}"):
        read_object(tmp_path / "a.json")


def test_a_json_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"b\.json: cannot be read"):
        read_object(tmp_path / "b.json")
