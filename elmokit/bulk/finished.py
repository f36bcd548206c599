"""An output that is whole remembers the run that made it, so that the same run is not refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmokit.bulk.inputs import Input
from elmokit.bulk.outputs import target_of
from elmokit.bulk.spool import parts_of
from elmokit.bulk.summary import Summary
from elmokit.errors import ElmoError, InputError
from elmokit.formats.vectors import open_vectors

RUN = "run"
FACTS = ("input", "model", "state", "precision", "layers", "pool", "dtype")
"""What makes a run the same; not where it is computed, nor how it is written."""


def finished_before(output: str | Path, source: Input, facts: Mapping[str, Any]) -> Summary | None:
    """What is to be told of an output that this run has finished before.

    None where there is something left to do; an output of another run is refused.
    """
    target = target_of(output)
    if not target.exists() or parts_of(target).exists():
        return None
    try:
        with open_vectors(target) as vectors:
            sentences, run = len(vectors), vectors.description.get(RUN)
    except ElmoError:
        run = None
    if source.streamed or run != run_of(facts):
        why = "nothing can tell whether from the same text" if source.streamed else "of another run"
        raise InputError(
            f"{output}: is whole already, and {why}; choose another name, or force it (--force)"
        )
    return Summary(str(output), sentences=sentences, already_finished=True)


def run_of(facts: Mapping[str, Any]) -> str:
    """What tells a run from others."""
    same = json.dumps({name: facts[name] for name in FACTS}, sort_keys=True)
    return hashlib.sha256(same.encode()).hexdigest()
