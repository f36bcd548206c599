"""Files and folders that appear complete or not at all; locks, checksums, JSON objects."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from elmokit.errors import (
    DiskError,
    ElmoError,
    FormatError,
    InputError,
    MissingFileError,
    unreadable,
)

PARTS = ".parts"  # ends the name of the folder beside an output that holds what is done of it
LEFTOVER = ".tmp-"  # begins the names of what is being written, or removed; see `remove_leftovers`

ADVICE = {
    errno.ENOSPC: "; free some space or choose another disk",
    errno.EDQUOT: "; free some space or choose another disk",
    errno.EFBIG: "; free some space, raise the limit on the size of files, or choose another disk",
    errno.ENAMETOOLONG: "; choose a shorter name",
    errno.EACCES: "; choose a place you have access to",
    errno.EPERM: "; choose a place you have access to",
    errno.EROFS: "; choose a place that can be written to",
    errno.ENOLCK: "; choose a folder on a local disk",
    errno.ENOSYS: "; choose a folder on a local disk",
    errno.EOPNOTSUPP: "; choose a folder on a local disk",
}
LONGEST_TEXT = 1 << 28
"""Bytes of a text that is read at once: a list of words may be long, a device never ends."""
GIT_LFS = b"version https://git-lfs"
"""Begins the small file that a repository holds in place of a large one."""
SECONDS_TO_CLAIM = 0.2
"""Time for a second try where the holder of a lock removes its file as it ends."""


@contextmanager
def disk_errors(path: Path, attempt: str, within: Path | None = None) -> Iterator[None]:
    """Turn an error of the system into one line: `path`: cannot be `attempt` (why); what to do.

    An error that names a file which is not `within` a place, where one is given, stays as it is.
    """
    try:
        yield
    except ElmoError:
        raise
    except OSError as error:
        named = error.filename
        if within is not None and named is not None and not Path(str(named)).is_relative_to(within):
            raise
        if error.errno is not None:
            # The system's words: libraries above it, h5py for one, put pages into theirs.
            why = f"[Errno {error.errno}] {os.strerror(error.errno)}"
        else:
            why = " ".join(str(error).split()) or type(error).__name__
        advice = ADVICE.get(error.errno or 0, "")
        kind = MissingFileError if isinstance(error, FileNotFoundError) else DiskError
        raise kind(f"{path}: cannot be {attempt} ({why}){advice}") from error


def is_any_of(path: str | Path, files: Iterable[str | Path]) -> bool:
    """Whether a name is that of one of some files, however it is written."""
    target = Path(path)
    return target.exists() and any(Path(file).exists() and target.samefile(file) for file in files)


def check_new_file(output: str | Path, force: bool, read: Iterable[str | Path] = ()) -> None:
    """Raise for an output that is a folder, or what is read, or there and not to be replaced."""
    if Path(output).is_dir():
        raise InputError(f"{output}: is a folder; give the name of a file")
    if is_any_of(output, read):
        raise InputError(f"{output}: is what is read; choose another name for the output")
    if Path(output).exists() and not force:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file's contents, as 64 hexadecimal digits."""
    with disk_errors(Path(path), "read"), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_not_pointer(path: Path) -> None:
    """Raise for a file that only points to what it should hold."""
    with disk_errors(path, "read"), open(path, "rb") as file:
        check_contents(file.read(len(GIT_LFS)), path)


def check_contents(contents: bytes, path: str | Path) -> None:
    """The same of what is read already."""
    if contents.startswith(GIT_LFS):
        raise FormatError(f"{path}: is a Git LFS pointer, not the data; fetch them by git lfs pull")


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; when the block ends well, it becomes `path`.

    Folders on the way to `path` are made. After an exception `path` is as it was before.
    """
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is replaced
    # Replacing /dev/null by a regular file would break more than this program.
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(f"{path}: is a folder or a device; give the name of a file")
    temporary = _temporary_sibling(target)
    try:
        with disk_errors(target, "written", within=temporary):
            yield temporary
        with disk_errors(target, "written"):
            publish(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def write_folder_atomically(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; when the block ends well, it becomes `path`.

    A folder that holds files is replaced only by `force`, and then as a whole. It is moved aside
    for the instant in which the new one takes its name; after an exception it is there as before.
    """
    target = Path(os.path.realpath(path))
    check_replaceable(target, path, force)
    temporary = _temporary_sibling(target)
    try:
        with disk_errors(target, "written"):
            temporary.mkdir()
        with disk_errors(target, "written", within=temporary):
            yield temporary
        check_replaceable(target, path, force)
        with disk_errors(target, "written"):
            publish_folder(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish(temporary: Path, target: Path) -> None:
    """Give a finished file its name, durably: after a power cut it is complete or not there."""
    _sync(temporary)
    os.replace(temporary, target)
    _sync(target.parent)


def check_replaceable(target: Path, name: str | Path, force: bool) -> None:
    """Raise for a target that is a file, that holds files, or that is around the user."""
    if not os.path.exists(target):
        return
    if not os.path.isdir(target):
        raise InputError(f"{name}: is a file; give the name of a folder")
    with disk_errors(target, "read"):
        empty = not os.listdir(target)
    if not empty and not force:
        raise InputError(f"{name}: already holds files; choose another, or force it (--force)")
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if Path.cwd().is_relative_to(target) or home.is_relative_to(target):
        raise InputError(f"{name}: is around the current or the home folder; choose another one")


def publish_folder(temporary: Path, target: Path) -> None:
    """Give a finished folder its name, putting back what had it before if that fails."""
    for file in temporary.rglob("*"):
        _sync(file)
    _sync(temporary)
    old = hidden_name(target)
    if os.path.exists(target):
        os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        if os.path.exists(old):
            os.rename(old, target)
        raise
    _sync(target.parent)
    if old.is_dir():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink(missing_ok=True)


@contextmanager
def claim(lock: Path, *, wait: bool = False) -> Iterator[None]:
    """Be the only process and thread in a block, which the file `lock` guards.

    When a process ends, however it does, its system frees the lock. A network file system learns
    only after a while, or never, that a machine is dead. The empty file stays: removing it would
    let two processes that wait lock two files of the same name. Folders on the way to it are made.
    A lock that is not free is an error, unless this process is to `wait`.
    """
    with disk_errors(lock.parent, "written to"):
        lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with disk_errors(lock, "locked"):
            try:
                stack.enter_context(FileLock(lock, timeout=-1 if wait else SECONDS_TO_CLAIM))
            except Timeout:
                raise InputError(
                    f"{lock.parent}: another process is at work in this folder; wait. If it was on "
                    "a machine that is dead, and this does not pass in some minutes, remove "
                    f"{lock}"
                ) from None
        yield


def _temporary_sibling(target: Path) -> Path:
    """A free, hidden name beside `target`, ending alike: some writers go by the suffix."""
    with disk_errors(target, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
    return hidden_name(target)


def hidden_name(target: Path) -> Path:
    """A free name beside `target` for what is being written or removed."""
    return target.with_name(f"{LEFTOVER}{token_hex(4)}-{target.name}")


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes were writing or removing in a folder; all, or that of a name."""
    for path in folder.glob(f"{LEFTOVER}????????-{'*' if name is None else glob.escape(name)}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder, by a rename first: it is complete as long as it has its name."""
    os.rename(folder, hidden_name(folder))
    remove_leftovers(folder.parent, folder.name)


def _sync(path: Path) -> None:
    """Make a file durable, or the names in a folder, for which Windows has no call."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no such call for folders; the file itself is safe.
        if not is_folder or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def read_object(path: str | Path) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    text = read_text(path)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}, line {error.lineno}: is not valid JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:  # digits or brackets beyond Python's limits
        raise FormatError(f"{path}: is not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise FormatError(f"{path}: holds a JSON {type(values).__name__}; it must hold an object")
    return values


def read_text(path: str | Path, most: int = LONGEST_TEXT) -> str:
    """Read a UTF-8 file that must not be empty, nor of more than so many bytes."""
    try:
        with open(path, "rb") as file:
            contents = file.read(most + 1)
        text = contents.decode("utf-8-sig")
    except OSError as error:
        raise unreadable(FormatError, path, error) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text ({error.reason})") from error
    check_contents(text[: len(GIT_LFS)].encode(), path)
    if len(contents) > most:
        raise FormatError(f"{path}: is longer than {most:,} bytes, which none such file is")
    if not text.strip():
        raise FormatError(f"{path}: is empty")
    return text


def write_object(values: Mapping[str, Any], path: Path, *, indent: int | None = 2) -> None:
    """Write a JSON object that people can read; without indent, one that is long."""
    path.write_text(json.dumps(values, indent=indent) + "\n", encoding="utf-8")


def write_json(path: str | Path, values: Mapping[str, Any], indent: int | None = 2) -> None:
    """`write_object`, complete or not at all."""
    with write_atomically(path) as temporary:
        write_object(values, temporary, indent=indent)
