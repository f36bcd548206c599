"""What every run that trains says and checks when it is cut short and goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from elmokit.errors import InputError, StoppedError
from elmokit.formats.checkpoints import Checkpoint, Checkpoints, check_same_settings


def newest_of_run(
    checkpoints: Checkpoints,
    facts: Mapping[str, Any],
    names: Mapping[str, str],
    may_differ: Collection[str],
) -> Checkpoint:
    """The newest checkpoint of a folder that has some, if it is of the same run.

    Args:
        checkpoints: Those of the folder.
        facts: What the run must have in common with its checkpoint; "settings" are among them.
        names: Which facts must be equal, and what each is called in an error.
        may_differ: Settings that need not be equal, see `check_same_settings`.
    """
    checkpoint = checkpoints.newest()
    assert checkpoint is not None  # there was one when the folder was looked at
    check_same_settings(checkpoint.values["settings"], facts["settings"], may_differ)
    for name, what in names.items():
        if checkpoint.values[name] != facts[name]:
            raise InputError(
                f"{checkpoints.folder}: the checkpoint is of {what}; "
                "resume with the same, or choose another --output"
            )
    return checkpoint


def interrupted(checkpoints: Checkpoints) -> StoppedError:
    """Say what is saved of a run that was stopped at once, and how to go on."""
    steps = checkpoints.steps()
    if not steps:
        return StoppedError("interrupted before anything was saved; run the same command again")
    return StoppedError(
        f"interrupted; the last checkpoint: step {steps[-1]:,} is saved in {checkpoints.folder}; "
        "run the same command with --resume"
    )
