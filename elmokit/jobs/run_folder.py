"""Run folder of a long job: lock, identity, leftovers of kills, how to resume, publishing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from elmokit.bundled import version_of
from elmokit.errors import DiskError, ElmoError, FormatError, InputError, StoppedError
from elmokit.io.files import (
    LEFTOVER,
    PARTS,
    check_replaceable,
    claim,
    disk_errors,
    hidden_name,
    publish_folder,
    read_object,
    remove_folder,
    remove_leftovers,
    write_json,
)

RUN, LOCK = "run.json", ".lock"
SEEN = "sentences.sqlite"
"""The index of sentences that were computed, which without them is worth nothing."""
NO_WORK = (RUN, LOCK, SEEN, LEFTOVER)
FORMAT, VERSION = "elmokit-run", 1
VALUE_SHOWN = 60
CHECKSUM = re.compile("[0-9a-f]{64}")
MISSING = object()


def already_holds(folder: Path) -> InputError:
    """The error of a folder whose run is neither resumed nor replaced."""
    return InputError(
        f"{folder}: already holds a run; continue with --resume, replace it with --force, or "
        "choose another --output"
    )


class RunFolder:
    """The folder of a long job, which one process has at a time.

    It is what is made, or it is beside that, the `output`, as `news.h5.parts` is: then it goes once
    the output is complete, and so `is_published`. `to_resume` is what the user is told to do after
    an interruption.
    """

    def __init__(
        self,
        folder: str | Path,
        output: Path | None = None,
        to_resume: str = "run the same command with --resume",
    ) -> None:
        self.folder = Path(folder)
        self.output = output
        self.to_resume = to_resume
        self.is_published = False
        self._is_removed = False

    @classmethod
    def beside(cls, output: str | Path) -> Self:
        """The folder of an output; that of a link is beside what it points to."""
        target = Path(os.path.realpath(output)) if os.path.islink(output) else Path(output)
        return cls(f"{target}{PARTS}", target)

    @contextmanager
    def claimed(self, *, wait: bool = False) -> Iterator[None]:
        """Have the folder to oneself for the time of a block; nothing stays if nothing came of it.

        What killed processes were writing or removing is removed, of the output too. Where the
        block is interrupted, or the disk is full, the error says how to resume.

        Another process that has it is an error, unless this one is to `wait`. The lock is beside
        the output then, where it stays: those who wait for it need it when the folder goes.
        """
        is_new = not os.path.exists(self.folder)
        try:
            with claim(Path(f"{self.output}{LOCK}") if wait else self.folder / LOCK, wait=wait):
                self._is_removed = False
                try:
                    remove_leftovers(self.folder)
                    for path in filter(None, (self.output, self.folder)):
                        remove_leftovers(path.parent, path.name)
                    yield
                finally:
                    self._tidy(is_new)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; {self.resume_hint()}") from None
        except DiskError as error:
            if isinstance(error.__cause__, OSError | sqlite3.Error) and self.holds_work():
                raise DiskError(f"{error}; {self.resume_hint()}") from error
            raise

    def begin(self, identity: Mapping[str, Any], *, resume: bool, force: bool) -> bool:
        """Prepare a folder that is claimed; give whether it holds work to resume.

        Only a run of the same `identity`, what the result depends on, is resumed. With `force` it
        begins again, and the output replaces whatever has its name then.
        """
        with disk_errors(self.folder, "made"):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.check_output(resume=resume, force=force)
        if self.holds_work() and not force:
            self.check_same_run(identity)
            return True
        # The record first, so that what is left is not a run.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name != RUN):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        record = {"format": FORMAT, "version": VERSION, "identity": identity, "replaces": force}
        write_json(self.folder / RUN, record)
        return False

    def record(self) -> dict[str, Any]:
        """What the folder says of its run; nothing where there is none."""
        return read_object(self.folder / RUN) if (self.folder / RUN).exists() else {}

    def holds_work(self) -> bool:
        """Whether anything of a run is done."""
        if not self.folder.is_dir() or (self.output and not (self.folder / RUN).exists()):
            return False
        return any(not path.name.startswith(NO_WORK) for path in self.folder.iterdir())

    def check_same_run(self, identity: Mapping[str, Any]) -> None:
        """Raise where the folder holds work of another run."""
        found = self.record()
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise FormatError(f"{self.folder}: is of another version; begin again (--force)")
        advice = "resume with the same command, or begin again (--force)"
        check_same(found.get("identity", {}), identity, self.folder, advice)

    def check_output(self, *, resume: bool, force: bool) -> None:
        """Raise where the output or unfinished work is there and may not be, or is out of reach."""
        assert self.output is not None
        with disk_errors(self.output, "written"):
            is_there = is_taken(self.output)
            hidden_name(self.folder).exists()  # the longest name that will be needed
        if is_there and self.output.is_dir() and force:
            check_replaceable(Path(os.path.realpath(self.output)), self.output, force)
        if is_there and not force and not resume:
            raise InputError(
                f"{self.output}: is there already; choose another name, or force it (--force)"
            )
        if not resume and not force and self.holds_work():
            raise InputError(
                f"{self.folder}: holds an unfinished run; resume it (--resume), or begin again "
                "(--force)"
            )

    def check_free(self) -> None:
        """Raise where something has the output's name that was not there when the run began."""
        assert self.output is not None
        if is_taken(self.output) and not self.record().get("replaces"):
            raise InputError(
                f"{self.output}: has appeared since the run began; what is done is in "
                f"{self.folder}: move the other output away, and {self.to_resume}"
            )

    def resume_hint(self) -> str:
        """What to tell where a run was cut short."""
        if self.is_published:
            return f"{self.output} is complete"
        if self.holds_work():
            return f"what is done is in {self.folder}; to resume, {self.to_resume}"
        return "nothing was done yet; to begin again, run the same command"

    def publish(self, folder: Path | None = None) -> None:
        """Give a folder the output's name, if one is given; then what was stored for it goes."""
        if folder is not None:
            assert self.output is not None
            with disk_errors(self.output, "written"):
                publish_folder(folder, self.output)
        self.is_published = True
        self.remove()

    def remove(self) -> None:
        """Remove everything; once it is removed, what has its name may be another process's."""
        self._is_removed = True
        with disk_errors(self.folder, "removed"):
            remove_folder(self.folder)

    def _tidy(self, is_new: bool) -> None:
        """Remove what holds no work when the folder is given up."""
        if self._is_removed:
            return
        if self.output is not None:
            if self.folder.exists() and not self.holds_work():
                self.remove()
            return
        with suppress(OSError):  # what the system still holds, or what holds files, stays
            (self.folder / LOCK).unlink(missing_ok=True)
            if is_new:
                self.folder.rmdir()


def is_taken(path: Path) -> bool:
    """Whether something has a name; an empty folder is nothing."""
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def check_outside(folder: str | Path, *models: str | None) -> None:
    """Raise where a model that a run starts from is in the folder whose run it would replace."""
    for model in models:
        # What is not there is a name or a URL.
        if model is None or not os.path.exists(model):
            continue
        if Path(os.path.realpath(model)).is_relative_to(os.path.realpath(folder)):
            raise InputError(
                f"{model}: is in {folder}, whose run --force replaces; choose another --output"
            )


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as they will be read back: tuples as lists, keys as texts."""
    return json.loads(json.dumps(values))


def check_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    place: Path,
    advice: str,
    may_differ: Collection[str] = (),
    error: type[ElmoError] = InputError,
) -> None:
    """Raise where a run is not the one that is to be resumed, and name one difference.

    `before` has what the run depended on, and maybe more, `now` what it depends on here. Of dotted
    names that `may_differ`, "settings.logging" stands for all that is in it.
    """
    now = as_json(now)
    found = difference({name: before[name] for name in now if name in before}, now, may_differ)
    if found:
        raise error(f"{place}: is of another run ({found}); {advice}")


def difference(before: Any, now: Any, may_differ: Collection[str] = ()) -> str:
    """The first thing in which two values differ, of plain ones as JSON has them; or nothing.

    >>> difference(2, 1)
    'was 2, is 1'
    >>> difference({"settings": {"split": False}}, {"settings": {"split": True}})
    'settings.split was false, is true'
    """
    was, here = dict(_flat(before)), dict(_flat(now))
    for name in was | here:
        values = was.get(name, MISSING), here.get(name, MISSING)
        ignored = any(f"{name}.".startswith(f"{other}.") for other in may_differ)
        if values[0] != values[1] and not ignored:
            versions = [version_of(str(value)) for value in values]
            if all(versions):
                return f"{name} was {versions[0]}, is {versions[1]}".lstrip()
            if all(CHECKSUM.fullmatch(str(value)) for value in values):
                return f"{name} is another".lstrip()
            return f"{name} was {_shown(values[0])}, is {_shown(values[1])}".lstrip()
    return ""


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their dotted names; those of a list of objects are numbered from 1."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value, start=1)}
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for name, item in value.items():
        yield from _flat(item, f"{prefix}.{name}" if prefix else name)


def _shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    if isinstance(value, list):
        value = ", ".join(_shown(item) for item in value if item is not None)
    text = value if isinstance(value, str) else json.dumps(value)
    # Paths tell themselves apart by their ends.
    return text if len(text) <= VALUE_SHOWN else f"…{text[1 - VALUE_SHOWN :]}"
