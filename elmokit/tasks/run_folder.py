"""The folder of a run: what may become one, what is in it, and who has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmokit.errors import FormatError, InputError
from elmokit.formats.checkpoints import LEFTOVERS, Checkpoints
from elmokit.formats.files import claim, disk_errors
from elmokit.formats.json_files import read_object
from elmokit.formats.metrics_log import METRICS, read_metrics
from elmokit.tasks.checkpoints import CHECKPOINTS
from elmokit.tasks.results import CONFUSION, CURVES, MIX, REPORT, RESULTS
from elmokit.tasks.task_folder import BILM, CONFIG, FORMAT, LABELS, STATIC, WEIGHTS

LOCK = ".lock"
WRITTEN = (CONFIG, LABELS, WEIGHTS, STATIC, RESULTS, REPORT, METRICS, CURVES, MIX, CONFUSION)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Have a folder to oneself for the time of a block; nothing is left of one that stays empty."""
    made_here = not folder.exists()
    with claim(folder / LOCK):
        try:
            yield
        finally:
            # What the system still holds, or what holds files, stays.
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
                if made_here:
                    folder.rmdir()


def check_folder(folder: Path, resume: bool, force: bool) -> None:
    """Refuse to mix a new run with an old one, and to resume what is not there."""
    if resume and force:
        raise InputError("resume goes on with a run, and force replaces it; give one of them")
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give the name of a folder to write into")
    saved = bool(Checkpoints(folder / CHECKPOINTS).steps())
    if resume and not saved:
        raise InputError(f"{folder}: holds no checkpoint to resume from; start without --resume")
    there = (folder / CONFIG).exists()
    if (there and not is_task(folder)) or (saved and not there and not is_unfinished_task(folder)):
        raise InputError(f"{folder}: holds something else, not a task; choose another --output")
    if not saved and not there:
        check_has_nothing_of_others(folder)
    if (saved or there) and not resume and not force:
        raise InputError(
            f"{folder}: already holds a run; go on with --resume, replace it with --force, or "
            "choose another --output"
        )


def check_has_nothing_of_others(folder: Path) -> None:
    """Refuse a folder without a run in which files stand where those of a run would.

    What a run leaves that was killed before its first checkpoint was whole is not in the way.
    """
    names = [name for name in (*WRITTEN, BILM) if name != METRICS and (folder / name).exists()]
    if not are_of_a_task(folder / METRICS):
        names.append(METRICS)
    if not is_cut_short(folder / CHECKPOINTS):
        names.append(CHECKPOINTS)
    if names:
        raise InputError(
            f"{folder}: has {names[0]}, which no task's run wrote, and which would be replaced; "
            "choose another --output"
        )


def are_of_a_task(metrics: Path) -> bool:
    """Whether all lines of a file are a task's metrics; there may be none, or no file."""
    if not metrics.exists():
        return True
    try:
        return all(line.get("kind") in ("train", "dev") for line in read_metrics(metrics))
    except FormatError:
        return False


def is_cut_short(checkpoints: Path) -> bool:
    """Whether a folder has nothing but beginnings of checkpoints; there may be no folder."""
    if not checkpoints.exists():
        return True
    return checkpoints.is_dir() and all(path.match(LEFTOVERS) for path in checkpoints.iterdir())


def is_task(folder: Path) -> bool:
    """Whether config.json is that of a trained task."""
    return read_object(folder / CONFIG).get("format") == FORMAT


def is_unfinished_task(folder: Path) -> bool:
    """Whether the newest checkpoint is a task's: other runs keep theirs under the same name."""
    checkpoint = Checkpoints(folder / CHECKPOINTS).newest()
    return checkpoint is not None and "kind" in checkpoint.values.get("settings", {})


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    if not (folder / CONFIG).exists() and not Checkpoints(folder / CHECKPOINTS).steps():
        return  # files of the same names are somebody else's
    with disk_errors(folder, "removed"):
        for name in WRITTEN:
            if name != CONFIG:
                (folder / name).unlink(missing_ok=True)
        for name in (BILM, CHECKPOINTS):
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        # Last: cut short before, this is a run yet, and can be removed once more.
        (folder / CONFIG).unlink(missing_ok=True)
