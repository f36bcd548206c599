"""An output that is whole remembers the run that made it, so that the same run is not refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmokit.bulk.inputs import Input
from elmokit.bulk.outputs import target_of
from elmokit.bulk.spool import parts_of, remove_doomed
from elmokit.bulk.summary import Summary
from elmokit.errors import ElmoError, InputError
from elmokit.formats.vector_settings import VectorSettings
from elmokit.formats.vectors import open_vectors

MADE_BY = "run"
"""Where the description of an output has what tells its run from others."""
FACTS = ("input", "model", "state", "precision", "layers", "pool", "dtype")
"""What makes a run the same, beside how it is written; not where it is computed."""


def run_of(facts: Mapping[str, Any], settings: VectorSettings) -> str:
    """What tells a run from others."""
    same = {name: facts[name] for name in FACTS}
    written = {"compression": settings.compression, "sentences": settings.keep_sentences}
    return hashlib.sha256(json.dumps({**same, **written}, sort_keys=True).encode()).hexdigest()


def is_made_by(run: str, target: Path) -> bool:
    """Whether an output is the whole one of a run."""
    try:
        with open_vectors(target) as vectors:
            return vectors.description.get(MADE_BY) == run
    except ElmoError:
        return False


def whole_before(output: str | Path, source: Input, run: str) -> Summary | None:
    """What is to be told of an output that this run has made before; None if it is not there.

    One of another run is refused.
    """
    target = target_of(output)
    if not target.exists() or parts_of(target).exists():
        return None
    if source.streamed or not is_made_by(run, target):
        why = "nothing can tell whether from the same text" if source.streamed else "of another run"
        raise InputError(
            f"{output}: is there already, and {why}; choose another name, or force it (--force)"
        )
    remove_doomed(parts_of(target))  # all that a kill can have left to do
    with open_vectors(target) as vectors:
        return Summary(str(output), sentences=len(vectors), already_finished=True)
