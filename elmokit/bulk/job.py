"""What is to be made of what, checked before anything is computed and before it is published."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmokit.bulk.compute import Computer
from elmokit.bulk.finished import RUN, finished_before, run_of
from elmokit.bulk.inputs import Input
from elmokit.bulk.outputs import (
    check_not_appeared,
    check_not_input,
    check_output,
    check_unchanged,
    target_of,
)
from elmokit.bulk.spool import Finished, Spool
from elmokit.bulk.summary import Summary
from elmokit.embedder import Embedder
from elmokit.formats.files import sha256_of
from elmokit.formats.mixes import read_mix
from elmokit.formats.vector_settings import VectorSettings
from elmokit.formats.vectors import check_compression


@dataclass
class Job:
    """An output and all that it depends on.

    Args:
        embedder: The model.
        source: The sentences.
        output: The name of what is made.
        settings: What to make of each sentence.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        folder: Whether the output is a folder, not a file.
        engine: What the vectors depend on beside this process: see `facts`.

    Attributes:
        computer: Makes the arrays.
        facts: What the vectors depend on; a run is resumed only with the same.
        target: Where the output will be.
        spool: Where parts are kept until then.
    """

    embedder: Embedder
    source: Input
    output: str | Path
    settings: VectorSettings
    resume: bool = False
    force: bool = False
    folder: bool = False
    engine: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_output(self.output, resume=self.resume, force=self.force, folder=self.folder)
        check_compression(self.output, self.settings.compression)
        check_not_input(self.output, self.source)
        settings = self.settings
        layers = read_mix(settings.mix, self.embedder.config) if settings.mix else settings.layers
        self.computer = Computer(
            self.embedder, layers=layers, pool=settings.pool, dtype=settings.dtype
        )
        self.facts = facts_of(self.embedder, self.source, settings, self.engine)
        self.settings = described(settings, self.embedder, self.facts)
        self.target = target_of(self.output)
        if self.engine is not None:  # workers elsewhere may have another working folder
            self.target = Path(os.path.abspath(self.target))
        self.spool = Spool(self.target, self.facts, pooled=settings.pooled)

    def finished_before(self) -> Summary | None:
        """What is to be told where a run that is to go on has nothing left to do."""
        if not self.resume or self.force:
            return None
        return finished_before(self.output, self.source, self.facts)

    def begin(self) -> Finished:
        """Find what is finished, or begin anew; to be called when the spool is claimed."""
        # Again, since another process may have finished it before the folder was free.
        resume = self.resume and self.spool.holds_work()
        check_output(self.output, resume=resume, force=self.force, folder=self.folder)
        self._replaces = self.force or self.target.exists()
        return self.spool.begin(resume=self.resume, force=self.force)

    def check_publishable(self) -> None:
        """Refuse an output of an input that has changed, or in the place of somebody else's."""
        check_unchanged(self.source, self.facts["input"], self.spool.folder)
        if not self._replaces:
            check_not_appeared(self.output, self.spool.folder)


def facts_of(
    embedder: Embedder,
    source: Input,
    settings: VectorSettings,
    engine: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the vectors depend on; `engine` takes the place of what only this process knows."""
    here = {"engine": "local", "threads": torch.get_num_threads()}
    return {
        **(here if engine is None else engine),
        "device": embedder.device.type,
        "input": source.identity(),
        "model": embedder.fingerprint(),
        "state": [embedder.state, embedder.warm_runs],
        "precision": embedder.precision,
        "layers": [settings.layers, sha256_of(settings.mix) if settings.mix else None],
        "pool": settings.pool,
        "dtype": settings.dtype,
    }


def described(
    settings: VectorSettings, embedder: Embedder, facts: Mapping[str, Any]
) -> VectorSettings:
    """The settings, with what an output remembers of how it was made."""
    description = {
        "layers": settings.layers,
        "pool": settings.pool,
        "state": embedder.state,
        "model": facts["model"],
        RUN: run_of(facts),
    }
    return replace(settings, description=description)
