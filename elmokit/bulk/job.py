"""What is to be made of what, checked before anything is computed and before it is published."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmokit.bulk.compute import Computer
from elmokit.bulk.inputs import Input
from elmokit.bulk.outputs import (
    appeared,
    check_not_input,
    check_output,
    check_unchanged,
    how_to_go_on,
    target_of,
)
from elmokit.bulk.spool import Finished, Spool
from elmokit.bulk.summary import Summary
from elmokit.bulk.whole import MADE_BY, is_made_by, run_of, whole_before
from elmokit.embedder import Embedder
from elmokit.formats.files import sha256_of
from elmokit.formats.mixes import read_mix
from elmokit.formats.vector_settings import VectorSettings
from elmokit.formats.vectors import check_compression


class Job:
    """An output and all that it depends on.

    Args:
        embedder: The model.
        source: The sentences.
        output: The name of what is made.
        settings: What to make of each sentence.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        elsewhere: What the vectors depend on where other processes compute them, in the place of
            what they depend on here. The output is a folder then.

    Attributes:
        settings: Those given, with what the output will remember.
        computer: Makes the arrays.
        facts: What the vectors depend on; a run is resumed only with the same.
        target: Where the output will be.
        spool: Where parts are kept until then.
        published: Whether the output is whole.
    """

    def __init__(
        self,
        embedder: Embedder,
        source: Input,
        output: str | Path,
        settings: VectorSettings,
        *,
        resume: bool,
        force: bool,
        elsewhere: Mapping[str, Any] | None = None,
    ) -> None:
        self.embedder = embedder
        self.source = source
        self.output = output
        self.resume = resume
        self.force = force
        self.published = False
        self._is_folder = elsewhere is not None
        check_output(output, resume=resume, force=force, folder=self._is_folder)
        check_compression(output, settings.compression)
        check_not_input(output, source)
        layers = read_mix(settings.mix, embedder.config) if settings.mix else settings.layers
        self.computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)
        self.facts = facts_of(embedder, source, settings, elsewhere)
        self.settings = described(settings, embedder, self.facts)
        self.target = target_of(output)
        if elsewhere is not None:  # where the working folder may be another
            self.target = Path(os.path.abspath(self.target))
        self.spool = Spool(self.target, self.facts, pooled=settings.pooled)

    @property
    def run(self) -> str:
        """What tells this run from others."""
        return run_of(self.facts, self.settings)

    def whole_before(self) -> Summary | None:
        """What is to be told where a run that is to go on has nothing left to do."""
        if not self.resume or self.force:
            return None
        return whole_before(self.output, self.source, self.run)

    def begin(self) -> Finished:
        """Find what is finished, or begin anew; to be called when the spool is claimed."""
        # Again, since another process may have finished it before the folder was free.
        resume = self.resume and self.spool.holds_work()
        check_output(self.output, resume=resume, force=self.force, folder=self._is_folder)
        finished = self.spool.begin(resume=self.resume, force=self.force)
        self.check_free()
        return finished

    def check_publishable(self) -> None:
        """Refuse an output of an input that has changed, or in the place of somebody else's."""
        check_unchanged(self.source, self.facts["input"], self.spool.folder)
        self.check_free()

    def check_free(self) -> None:
        """Refuse to replace an output that was not there when the run began."""
        if self.target.exists() and not (
            self.spool.replaces() or is_made_by(self.run, self.target)
        ):
            raise appeared(self.output, self.spool.folder)

    def publish_done(self) -> None:
        """The output is whole: what was kept for it goes."""
        self.published = True
        self.spool.remove()

    def how_to_go_on(self, done: str = "what is done is") -> str:
        """What to tell where the run was cut short."""
        if self.published:
            return f"{self.output} is whole"
        return how_to_go_on(self.spool.folder, done)


def facts_of(
    embedder: Embedder,
    source: Input,
    settings: VectorSettings,
    elsewhere: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the vectors depend on; `elsewhere` stands in the place of what they depend on here."""
    here = {"engine": "local", "threads": torch.get_num_threads()}
    return {
        **(here if elsewhere is None else elsewhere),
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
        MADE_BY: run_of(facts, settings),
    }
    return replace(settings, description=description)
