"""What may become an output, asked before anything is computed for it, and again before it is."""

from __future__ import annotations

import os
from pathlib import Path

from elmokit.bulk.inputs import Input
from elmokit.bulk.spool import doomed_name, parts_of
from elmokit.errors import InputError
from elmokit.formats.files import check_replaceable, disk_errors
from elmokit.formats.vectors import check_suffix


def target_of(output: str | Path) -> Path:
    """What an output that is a link points to: its parts are kept there."""
    return Path(os.path.realpath(output)) if os.path.islink(output) else Path(output)


def check_output(
    output: str | Path, *, resume: bool = False, force: bool = False, folder: bool = False
) -> None:
    """Refuse an output that cannot be written, before anything is computed for it.

    Args:
        output: Its name.
        resume: It may be there; whether it is of the same run is for `Job` to say.
        force: It may be there.
        folder: It is to be a folder, not a file.
    """
    check_suffix(output)
    target = target_of(output)
    with disk_errors(Path(output), "written"):
        there = target.exists()
        doomed_name(parts_of(target)).exists()  # the longest name that will be needed
    if target.is_dir() and not folder:
        raise InputError(f"{output}: is a folder; give the name of a file")
    if target.is_dir() and force:
        check_replaceable(Path(os.path.realpath(target)), output, force)
    if there and not force and not resume:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")


def appeared(output: str | Path, parts: Path) -> InputError:
    """What to raise where an output was not there when the run began."""
    return InputError(
        f"{output}: has appeared since the run began; what is done is in {parts}: move the other "
        "output away, and run the same command with --resume"
    )


def check_not_input(output: str | Path, source: Input) -> None:
    """Refuse to replace what is being read, or a folder that it is in."""
    target = Path(os.path.realpath(output))
    for file in source.files:
        place = Path(os.path.realpath(file))
        with disk_errors(file, "read"):
            same = target.exists() and target.samefile(file)
        if same:
            raise InputError(f"{output}: is the input too; choose another name for the output")
        if place.is_relative_to(target) or place.is_relative_to(parts_of(target)):
            raise InputError(
                f"{output}: would replace the input {file}; choose another name for the output"
            )


def check_unchanged(source: Input, before: object, parts: Path) -> None:
    """Refuse to make an output of an input that is not what it was when the run began."""
    if source.identity() != before:
        raise InputError(
            f"{', '.join(map(str, source.files[:3]))}{', …' if len(source.files) > 3 else ''}: "
            f"changed while it was read; what is done is in {parts}; begin anew (--force)"
        )


def how_to_go_on(parts: Path, done: str = "what is done is") -> str:
    """What to tell where a run was cut short."""
    if os.path.exists(parts):
        return f"{done} in {parts}; to go on, run the same command with --resume"
    return "nothing was done yet; to begin anew, run the same command"
