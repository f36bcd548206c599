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

from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.io import files
from elmokit.io.files import (
    DiskError,
    check_sha256,
    claim,
    one_at_a_time,
    sha256_of,
    write_atomically,
    write_folder_atomically,
)


class Stop(BaseException):
    """Stands for Ctrl-C: no Exception."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def one_line(error: pytest.ExceptionInfo[ElmoError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


# Files


def test_file_appears_with_what_was_written(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "vectors.h5") as temporary:
        temporary.write_bytes(b"whole")

    assert (tmp_path / "vectors.h5").read_bytes() == b"whole"
    assert names(tmp_path) == ["vectors.h5"]


def test_file_is_not_there_until_the_block_ends(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "vectors.h5") as temporary:
        temporary.write_bytes(b"half")
        assert not (tmp_path / "vectors.h5").exists()


def test_temporary_file_is_in_the_same_folder_and_keeps_the_suffix(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "vectors.npz") as temporary:
        temporary.touch()

    assert temporary.parent == tmp_path
    assert temporary.suffix == ".npz"


def test_missing_folders_on_the_way_to_a_file_are_made(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "runs" / "first" / "log.txt") as temporary:
        temporary.write_text("done")

    assert (tmp_path / "runs" / "first" / "log.txt").read_text() == "done"


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

    with pytest.raises(kind):
        write_half()

    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["vectors.h5"]


def test_file_and_folder_reach_the_disk_around_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    fsync, replace = os.fsync, os.replace

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

    assert one_line(error) == (
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
        pytest.raises(DiskError, match=r"Permission denied\); choose a place") as error,
        write_atomically(tmp_path / "vectors.h5") as temporary,
    ):
        temporary.touch()

    assert one_line(error)
    assert names(tmp_path) == []


def test_file_where_a_folder_should_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()

    with (
        pytest.raises(DiskError, match="cannot be written") as error,
        write_atomically(tmp_path / "runs" / "log.txt"),
    ):
        pass

    assert one_line(error)


def test_failure_to_read_another_file_is_not_called_a_failure_to_write(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), write_atomically(tmp_path / "vectors.h5"):
        (tmp_path / "corpus.txt").read_text()


# Folders


def test_folder_appears_with_all_its_files(tmp_path: Path) -> None:
    with write_folder_atomically(tmp_path / "runs" / "model") as temporary:
        (temporary / "deep").mkdir()
        (temporary / "deep" / "config.json").write_text("{}")
        assert not (tmp_path / "runs" / "model").exists()

    assert (tmp_path / "runs" / "model" / "deep" / "config.json").read_text() == "{}"
    assert names(tmp_path / "runs") == ["model"]


def test_empty_folder_is_filled_without_force(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()

    with write_folder_atomically(tmp_path / "model") as temporary:
        (temporary / "config.json").touch()

    assert names(tmp_path / "model") == ["config.json"]
    assert names(tmp_path) == ["model"]


def test_folder_that_holds_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "notes.txt").touch()

    with (
        pytest.raises(InputError, match="already holds files"),
        write_folder_atomically(tmp_path / "model"),
    ):
        pass

    assert names(tmp_path / "model") == ["notes.txt"]


def test_folder_that_gets_files_in_the_meantime_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()

    with (
        pytest.raises(InputError, match="already holds files"),
        write_folder_atomically(tmp_path / "model"),
    ):
        (tmp_path / "model" / "notes.txt").touch()

    assert names(tmp_path / "model") == ["notes.txt"]
    assert names(tmp_path) == ["model"]


def test_force_replaces_a_folder_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old.txt").touch()

    with write_folder_atomically(tmp_path / "model", force=True) as temporary:
        (temporary / "new.txt").touch()

    assert names(tmp_path / "model") == ["new.txt"]
    assert names(tmp_path) == ["model"]


def test_exception_leaves_the_old_folder_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old.txt").touch()

    def write_half() -> None:
        with write_folder_atomically(tmp_path / "model", force=True) as temporary:
            (temporary / "new.txt").touch()
            raise Stop

    with pytest.raises(Stop):
        write_half()

    assert names(tmp_path / "model") == ["old.txt"]
    assert names(tmp_path) == ["model"]


def test_old_folder_comes_back_when_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old.txt").touch()
    rename = os.rename

    def refuse_new(source: Path, target: Path) -> None:
        if (source / "new.txt").exists():
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_new)
    with (
        pytest.raises(DiskError, match="Input/output error"),
        write_folder_atomically(tmp_path / "model", force=True) as temporary,
    ):
        (temporary / "new.txt").touch()

    assert names(tmp_path / "model") == ["old.txt"]
    assert names(tmp_path) == ["model"]


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
    (tmp_path / "file").write_bytes(b"abc")

    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()


def test_wrong_sum_names_both(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    found, expected = hashlib.sha256(b"abc").hexdigest(), "0" * 64

    with pytest.raises(FormatError, match=f"{found} but {expected}") as error:
        check_sha256(tmp_path / "file", expected)

    assert one_line(error)


def test_sum_in_capitals_is_the_same_sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")

    check_sha256(tmp_path / "file", hashlib.sha256(b"abc").hexdigest().upper())


def test_sum_of_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot be read") as error:
        sha256_of(tmp_path / "nothing")

    assert one_line(error)


def test_threads_pass_a_lock_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        with one_at_a_time(tmp_path / "lock"):
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
        "from elmokit.io.files import one_at_a_time\n"
        "with one_at_a_time(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    root = Path(files.__file__).parents[2]
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()

    with one_at_a_time(tmp_path / "lock"):
        pass


def test_folder_that_cannot_be_locked_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(DiskError, match="cannot be locked") as error,
        one_at_a_time(tmp_path / "file" / "lock"),
    ):
        pass

    assert one_line(error)


def test_a_folder_that_is_claimed_is_refused_until_it_is_free(tmp_path: Path) -> None:
    lock = tmp_path / "run" / ".lock"
    with (
        claim(lock),
        pytest.raises(InputError, match="another process is at work") as error,
        claim(lock),
    ):
        pass
    assert one_line(error)
    with claim(lock):
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
