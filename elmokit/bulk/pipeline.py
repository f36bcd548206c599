"""Text of any size to a file of vectors, in constant memory, losing nothing when it is cut short.

Reading the text, computing and writing overlap: a part, some sentences, is read ahead in one thread
and written behind in another. Where a part ends depends on the input alone, so the vectors of a run
that was resumed are those of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.bulk.compute import Computer, Summary, Tally
from elmokit.bulk.inputs import Input, input_of
from elmokit.bulk.parts import Array, Part, PartStore, Seen, cut, name_of_part
from elmokit.errors import ElmoError, InputError
from elmokit.formats.mixes import read_mix
from elmokit.inference.embedder import SENTENCES_PER_CARRIED_BATCH, Embedder
from elmokit.inference.token_vectors import KnownWords
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, is_any_of, sha256_of
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder
from elmokit.system import computing_with, give_back_free_memory, prefetch
from elmokit.vectors.files import check_writable, open_vectors, write_vectors
from elmokit.vectors.items import Item, VectorSettings

MADE_BY = "run"  # where the description of an output has what tells its run from others
SAME = ("input", "model", "state", "precision", "layers", "pool", "dtype")
"""What makes a run the same, beside how it is written; not where it is computed."""
TOKENS_PER_PART = 32768
"""Enough sentences of each length for full batches. A crash costs two parts at most: the one
that waits to be written, and the one that is computed."""
BYTES_PER_PART = 64 << 20  # bounds the memory of a part where vectors are large
OPEN_PARTS = 16
ITEMS_BETWEEN_REPORTS = 1000
NOTHING_KNOWN = KnownWords([], np.empty((0, 0), dtype=np.float32), afresh=True)


def tokens_per_part(computer: Computer) -> int:
    """How many tokens a part may have: fewer where a word's vectors are large."""
    values = computer.choice.values(computer.embedder.config)
    bytes_per_word = values * np.dtype(computer.dtype).itemsize
    if computer.choice.pool is not None:
        bytes_per_word //= 2  # a sentence has two markers, at least
    return max(1, min(TOKENS_PER_PART, BYTES_PER_PART // bytes_per_word))


def check_not_input(output: str | Path, source: Input) -> None:
    """Raise where an output or its parts would replace what is read, or a folder that it is in."""
    with disk_errors(Path(output), "written"):
        is_input = is_any_of(output, source.files)
    replaced = [os.path.realpath(path) for path in (output, RunFolder.beside(output).folder)]
    places = [Path(os.path.realpath(file)) for file in source.files]
    if is_input or any(place.is_relative_to(path) for place in places for path in replaced):
        raise InputError(f"{output}: is the input too; choose another name for the output")


def check_unchanged(source: Input, before: object, run: RunFolder) -> None:
    """Raise where an input is not what it was when the run began."""
    if source.identity() != before:
        raise InputError(
            f"{', '.join(map(str, source.files[:3]))}{', …' if len(source.files) > 3 else ''}: "
            f"changed while it was read; what is done is in {run.folder}; begin again (--force)"
        )


class EmbeddingJob:
    """An output and all that it depends on, whatever computes it.

    `engine` says what computes, and what of it the vectors depend on. A run is resumed only with
    the same `identity`. The settings have what the output will remember.
    """

    def __init__(
        self,
        embedder: Embedder,
        source: Input,
        output: str | Path,
        settings: VectorSettings,
        engine: Mapping[str, Any],
    ) -> None:
        check_writable(output, settings.compression, settings.output_format)
        check_not_input(output, source)
        self.embedder = embedder
        self.source = source
        self.output = output
        layers = read_mix(settings.mix, embedder.config) if settings.mix else settings.layers
        self.computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)
        self.identity = identity_of(embedder, source, settings, engine)
        same = {name: self.identity[name] for name in SAME}
        same |= {"compression": settings.compression, "sentences": settings.keep_sentences}
        self.run = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
        description = {
            "layers": settings.layers,
            "pool": settings.pool,
            "state": embedder.state,
            "model": self.identity["model"],
            MADE_BY: self.run,
        }
        self.settings = replace(settings, description=description)
        self.folder = RunFolder.beside(output)
        self.parts = PartStore(self.folder.folder.absolute(), pooled=settings.pool != "none")

    def begin(self, *, resume: bool, force: bool) -> Summary | None:
        """Find what is finished in a claimed folder, or begin again; tell where all is done."""
        if resume and not force and os.path.exists(self.output):
            if made := self._made_before():
                if self.folder.holds_work():  # of a forced run with other settings, maybe
                    self.folder.check_same_run(self.identity)
                self.folder.publish()  # all that a kill can have left to do
                return made
            if not self.folder.holds_work():
                why = "of another run"
                if self.source.streamed:
                    why = "nothing can tell whether from the same text"
                raise InputError(
                    f"{self.output}: is there already, and {why}; choose another name, or force it "
                    "(--force)"
                )
        self.folder.begin(self.identity, resume=resume, force=force)
        self.folder.check_free()
        return None

    def publish(self, sentences: int, observer: Observer) -> None:
        """Make the output of the parts, so many sentences, and remove them."""
        check_unchanged(self.source, self.identity["input"], self.folder)
        with observer.stage("writing", "sentence", sentences) as progress:
            write_vectors(self.output, self._items(progress), self.settings)
        self.folder.publish()

    def _made_before(self) -> Summary | None:
        """What to tell of the complete output of this run, if it is there."""
        with suppress(ElmoError), open_vectors(self.output) as vectors:
            if vectors.description.get(MADE_BY) == self.run and not self.source.streamed:
                return Summary(str(self.output), sentences=len(vectors), already_finished=True)
        return None

    def _items(self, progress: Progress) -> Iterator[Item]:
        """Every sentence with its array; tells how many of them are in the output."""
        for number, item in enumerate(self.parts.items(), start=1):
            yield item
            if number % ITEMS_BETWEEN_REPORTS == 0:
                progress(number, None)
        self.folder.check_free()


def identity_of(
    embedder: Embedder, source: Input, settings: VectorSettings, engine: Mapping[str, Any]
) -> dict[str, Any]:
    """What the vectors depend on."""
    state = [embedder.state, embedder.warm_runs]
    if embedder.state == "carry" and embedder.batch_size != SENTENCES_PER_CARRIED_BATCH:
        state.append(embedder.batch_size)
    return {
        **engine,
        "device": embedder.device.type,
        "input": source.identity(),
        "model": embedder.fingerprint(),
        "state": state,
        "precision": embedder.precision,
        "layers": [settings.layers, sha256_of(settings.mix) if settings.mix else None],
        "pool": settings.pool,
        "dtype": settings.dtype,
    }


def embed_files(
    embedder: Embedder,
    source: Input | str | Path | Sequence[str | Path],
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    observer: Observer | None = None,
    threads: int | None = None,
    **choices: Any,
) -> Summary:
    """Embed every sentence of an input into a file of vectors, its format by its suffix.

    Args:
        embedder: The model.
        source: Files, globs and folders; or what `open_input` makes of them.
        output: The file. It appears when it is complete; until then, what is done is beside it.
        settings: What to make of each sentence.
        resume: Resume a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        observer: Told how far the work is, after every batch.
        threads: To compute with, for the time of the run. None for what torch has; on resuming,
            for what the run has had.
        choices: Single settings by their names: how files are read (`split`, `text_column` and
            other fields of `TextSettings`), what is made of them (`layers`, `pool` and others of
            `VectorSettings`).
    """
    source = input_of(source, embedder.tokenizer, choices)
    settings = replace(settings or VectorSettings(), **choices)
    if threads is None and resume and not force:
        threads = RunFolder.beside(output).record().get("identity", {}).get("threads")
    observer = observer or Observer()
    with computing_with(threads):
        engine = {"engine": "local", "threads": torch.get_num_threads()}
        job = EmbeddingJob(embedder, source, output, settings, engine)
        with job.folder.claimed():
            if before := job.begin(resume=resume, force=force):
                return before
            run = LocalRun(job, observer)
            run.compute()
            job.publish(run.tally.totals["sentences"], observer)
    return Summary.of(output, run.tally, job.computer.longest)


class LocalRun:
    """One run on this machine, from its first or next part to its last."""

    def __init__(self, job: EmbeddingJob, observer: Observer) -> None:
        self.observer = observer
        self.computer = job.computer
        self.cache = job.embedder.token_cache
        self.parts = job.parts
        self.source = job.source
        self.finished = job.parts.finished()
        before = self.finished.totals, self.finished.position
        self.tally = Tally(*before, observer, self.cache)
        self.computer.progress = self.tally.end_batch
        self._carries = job.embedder.state == "carry"
        # Parts that repeated sentences are in stay open for a while.
        self._values = lru_cache(OPEN_PARTS)(
            lambda number: self.parts.array(name_of_part(0, number))
        )
        self._pending: Future[Any] | None = None

    def compute(self) -> None:
        """Compute and store all parts that are missing."""
        self.restore(self.finished.parts)
        parts = prefetch(cut(self.source, self.finished, tokens_per_part(self.computer)))
        with (
            self.observer.stage("embedding", "byte", self.source.size, self.finished.position),
            closing(parts),  # type: ignore[type-var]
            closing(Seen(self.parts.folder, self.finished.parts)) as seen,
            ThreadPoolExecutor(1, "write") as writer,
        ):
            for part in parts:
                self.compute_part(part, seen, writer)
            self.wait()
        self._values.cache_clear()

    def compute_part(self, part: Part, seen: Seen, writer: ThreadPoolExecutor) -> None:
        """Compute one part, to be written while the next is computed; no more than one waits."""
        before = self.cache.mark()
        self.tally.part = part
        arrays = self.arrays_of(part, seen)
        totals = totals_of(part, self.computer)
        state = self.computer.state() if self._carries else None
        learnt = self.cache.learnt_since(before)
        self.wait()
        self._pending = writer.submit(self.parts.add, part, arrays, totals, learnt, state)
        self.tally.end_part(totals, part.bytes)
        give_back_free_memory()

    def restore(self, parts: int) -> None:
        """Know what was known after some parts, so that the next is the same to the bit."""
        for learnt in (NOTHING_KNOWN, *self.parts.learnt(parts)):
            self.cache.learn(learnt, self.computer.embedder.device)
        if self._carries:
            self.computer.restore(self.parts.state(name_of_part(0, parts - 1)) if parts else None)

    def arrays_of(self, part: Part, seen: Seen) -> list[Array]:
        """The array of each sentence: found where it was computed before, or computed."""
        sentences = part.sentences
        if self._carries:
            return self.computer.compute(sentences)
        texts = list(map(" ".join, sentences))
        found = seen.find(texts)
        if found:
            self.wait()  # until the part before can be read
        known = {n for n, text in enumerate(texts) if text in found}
        computed = iter(self.computer.compute(sentences, known))
        places = zip(texts, self.parts.starts(sentences), strict=True)
        # Before the part is written: a part that is there has its sentences in the index.
        seen.add((text, part.number, start) for text, start in places if text not in found)
        arrays: list[Array] = []
        for text, words in zip(texts, sentences, strict=True):
            if text in found:
                number, start = found[text]
                arrays.append(self.parts.at(self._values(number), start, len(words)))
            else:
                arrays.append(next(computed))
        return arrays

    def wait(self) -> None:
        """Wait until the part before is written; fail as it did."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None


def totals_of(part: Part, computer: Computer) -> dict[str, int]:
    """What is counted of a part that was computed just now."""
    return {
        "sentences": len(part.sentences),
        "words": part.words,
        "blank": sum(not words for words in part.sentences),
        **computer.take_counts(),
    }
