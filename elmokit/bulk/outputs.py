"""What may become an output, asked before anything is computed for it."""

from __future__ import annotations

from pathlib import Path

from elmokit.bulk.inputs import Input
from elmokit.bulk.spool import parts_of, remove_doomed
from elmokit.errors import InputError
from elmokit.formats.vectors import check_suffix


def check_output(output: str | Path, *, resume: bool = False, force: bool = False) -> None:
    """Refuse an output that cannot be written, before anything is computed for it."""
    check_suffix(output)
    parts = parts_of(output)
    if Path(output).exists() and not force and not (resume and parts.exists()):
        if resume:
            remove_doomed(parts)  # all that a kill can have left to do
        done = "is whole already" if resume else "is there already"
        raise InputError(f"{output}: {done}; choose another name, or force it (--force)")


def check_not_input(output: str | Path, source: Input) -> None:
    """Refuse to replace what is being read."""
    if Path(output).exists() and any(Path(output).samefile(file) for file in source.files):
        raise InputError(f"{output}: is the input too; choose another name for the output")
