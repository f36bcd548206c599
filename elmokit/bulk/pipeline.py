"""Text of any size to a file of vectors, in constant memory, losing nothing when it is cut short.

Reading the text, computing and writing overlap: a part, some sentences, is read ahead in one thread
and written behind in another.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.bulk.compute import Array, BulkProgress, Computer, Report, Summary
from elmokit.bulk.inputs import Input, Record
from elmokit.bulk.spool import (
    End,
    Finished,
    FirstComputed,
    Part,
    Seen,
    Spool,
    array_at,
    empty_trash,
    parts_of,
    starts_of,
    threads_before,
    trash_path,
)
from elmokit.errors import DiskError, ElmoError, InputError, StoppedError
from elmokit.formats.mixes import read_mix
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import KnownWords
from elmokit.io.files import check_replaceable, disk_errors, sha256_of
from elmokit.system import computing_with, give_back_free_memory, peak_memory, prefetch
from elmokit.vectors.files import check_compression, check_suffix, open_vectors, write_vectors
from elmokit.vectors.items import Item, VectorSettings


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
        trash_path(parts_of(target)).exists()  # the longest name that will be needed
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


def resume_hint(parts: Path, done: str = "what is done is") -> str:
    """What to tell where a run was cut short."""
    if os.path.exists(parts):
        return f"{done} in {parts}; to go on, run the same command with --resume"
    return "nothing was done yet; to begin anew, run the same command"


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
    empty_trash(parts_of(target))  # all that a kill can have left to do
    with open_vectors(target) as vectors:
        return Summary(str(output), sentences=len(vectors), already_finished=True)


class EmbeddingJob:
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

    def resume_hint(self, done: str = "what is done is") -> str:
        """What to tell where the run was cut short."""
        if self.published:
            return f"{self.output} is whole"
        return resume_hint(self.spool.folder, done)


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


TOKENS_PER_PART = 32768
"""Enough sentences of each length for full batches. A crash costs two parts at most: the one
that waits to be written, and the one that is computed."""
BYTES_PER_PART = 64 << 20
"""Bounds the memory of a part where vectors are large."""
OPEN_PARTS = 16
ITEMS_BETWEEN_REPORTS = 1000
NOTHING_KNOWN = KnownWords([], np.empty((0, 0), dtype=np.float32), afresh=True)


def embed_files(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    threads: int | None = None,
) -> Summary:
    """Embed every sentence of an input into a file of vectors, its format by its suffix.

    Args:
        embedder: The model.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The file. It appears when it is whole; until then, what is done is beside it.
        settings: What to make of each sentence.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        report: Told how far the work is, after every batch.
        threads: To compute with, for the time of the run. None for what torch has; on resuming,
            for what the run has had.
    """
    settings = settings or VectorSettings()
    if threads is None and resume and not force:
        threads = threads_before(target_of(output))
    with computing_with(threads):
        return run_job(embedder, source, output, settings, report, resume=resume, force=force)


def run_job(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: VectorSettings,
    report: Report | None,
    *,
    resume: bool,
    force: bool,
) -> Summary:
    """Do what is left to do of a run; say how to go on where it is cut short."""
    job = EmbeddingJob(embedder, source, output, settings, resume=resume, force=force)
    if whole := job.whole_before():
        return whole
    started = time.perf_counter()
    try:
        with job.spool.claimed():
            run = Run(job, job.begin(), report)
            parts = run.compute()
            job.check_publishable()
            write_vectors(output, run.assembled(parts), job.settings)
            run.close()
            job.publish_done()
    except KeyboardInterrupt:
        raise StoppedError(f"stopped; {job.resume_hint()}") from None
    except DiskError as error:
        refused = isinstance(error.__cause__, OSError | sqlite3.Error)
        if refused and os.path.exists(job.spool.folder):
            raise DiskError(f"{error}; {job.resume_hint()}") from error
        raise
    seconds = time.perf_counter() - started
    return Summary.of(
        output,
        run.totals,
        run.words_here,
        seconds,
        peak_memory(),
        longest_whole=job.computer.longest,
    )


class Run:
    """One run from its first or next part to its last.

    Args:
        job: What is made of what.
        finished: What was done before.
        report: Told how far the work is.
    """

    def __init__(self, job: EmbeddingJob, finished: Finished, report: Report | None) -> None:
        self.job = job
        self.embedder = job.embedder
        self.computer = job.computer
        self.spool = job.spool
        self.source = job.source
        self.finished = finished
        self.report = report
        self.totals = Counter(finished.totals)
        self.words_here = 0
        self._in_part = Counter[str]()  # what is computed of the part under way
        self._part_end = self._part_words = 0
        self.computer.progress = self.tell_batch
        self._started = time.perf_counter()
        self._position = finished.position
        self._carries = self.embedder.state == "carry"
        # Parts that repeated sentences are in stay open for a while.
        self._values = lru_cache(OPEN_PARTS)(self.spool.values)
        self._pending: Future[None] | None = None
        self._id_kind: type | None = None

    def compute(self) -> int:
        """Compute and keep all parts that are missing; give how many there are in all."""
        count = self.finished.parts
        self.restore(count)
        parts = prefetch(cut(self.source, self.finished, tokens_per_part(self.computer)))
        with (
            closing(parts),  # type: ignore[type-var]
            closing(Seen(self.spool.folder, count)) as seen,
            ThreadPoolExecutor(1, "write") as writer,
        ):
            for part in parts:
                self.compute_part(part, seen, writer)
                count += 1
            self.wait()
        return count

    def compute_part(self, part: Part, seen: Seen, writer: ThreadPoolExecutor) -> None:
        """Compute one part, and have it written; its arrays are let go when they are."""
        before = self.embedder.words_known()
        self._part_end = part.position
        self._part_words = sum(len(record.words) for record in part.records)
        self.check_ids(part)
        arrays = self.arrays_of(part, seen)
        self.count(part)
        self.keep(part, arrays, self.embedder.words_learnt(before), writer)
        self.tell(part.position)
        give_back_free_memory()

    def assembled(self, parts: int) -> Iterator[Item]:
        """Every sentence with its array; reports how many of them are in the output."""
        for number, item in enumerate(self.spool.items(parts), start=1):
            yield item
            if number % ITEMS_BETWEEN_REPORTS == 0:
                self.tell(self._position, written=number)
        self.job.check_publishable()  # again, since writing takes its time

    def close(self) -> None:
        """Let go of the parts that are still open."""
        self._values.cache_clear()

    def restore(self, parts: int) -> None:
        """Know what was known after some parts, so that the next is the same to the bit."""
        self.embedder.learn_words(NOTHING_KNOWN)
        for learnt in self.spool.learnt(parts):
            self.embedder.learn_words(learnt)
        if self._carries:
            self.computer.restore(self.spool.state(parts - 1) if parts else None)

    def arrays_of(self, part: Part, seen: Seen) -> list[Array]:
        """The array of each sentence: found where it was computed before, or computed."""
        if self._carries:
            return self.computer.compute([record.words for record in part.records])
        texts = [" ".join(record.words) for record in part.records]
        found = seen.find(texts)
        if found:
            self.wait()  # until the part before can be read
        known = [n for n, text in enumerate(texts) if text in found]
        self.computer.skip([part.records[number].words for number in known])
        new = [n for n, text in enumerate(texts) if text not in found]
        computed = self.computer.compute([part.records[number].words for number in new])
        arrays = dict(zip(new, computed, strict=True))
        starts = starts_of([record.words for record in part.records], self.spool.pooled)
        # Before the part is written: a part that is there has its sentences in the index.
        seen.add((texts[number], FirstComputed(part.number, starts[number])) for number in new)
        return [
            arrays[number] if number in arrays else self.read(found[text], part.records[number])
            for number, text in enumerate(texts)
        ]

    def read(self, place: FirstComputed, record: Record) -> Array:
        """The array of a sentence that was computed in an earlier part."""
        return array_at(self._values(place.part), place.start, len(record.words), self.spool.pooled)

    def count(self, part: Part) -> None:
        """Add a part to the totals."""
        self._in_part.clear()
        self.words_here += self._part_words
        self.totals.update(
            sentences=len(part.records),
            words=self._part_words,
            blank=sum(not record.words for record in part.records),
        )
        self.totals.update(self.computer.take_counts())

    def check_ids(self, part: Part) -> None:
        """Refuse ids of another kind than the first one, which Parquet could not hold."""
        if self._id_kind is None:
            known = self.spool.record(0)["ids"] if self.finished.parts else [part.records[0].id]
            self._id_kind = type(known[0])
        for record in part.records:
            if record.id is not None and type(record.id) is not self._id_kind:
                kinds = {str: "a text", int: "a whole number", type(None): "missing"}
                raise InputError(
                    f"{self.source.name_of(record.place)}, line {record.place.line}: its id is "
                    f"{kinds[type(record.id)]}, the first one is {kinds[self._id_kind]}; let the "
                    "column hold one kind"
                )

    def keep(
        self,
        part: Part,
        arrays: Sequence[Array],
        learnt: KnownWords,
        writer: ThreadPoolExecutor,
    ) -> None:
        """Write a part while the next is computed; no more than one waits to be written."""
        self.wait()
        state = self.computer.state() if self._carries else None
        totals = dict(self.totals)
        self._pending = writer.submit(self.spool.write, part, arrays, totals, learnt, state)

    def wait(self) -> None:
        """Wait until the part before is written; fail as it did."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def tell_batch(self, sentences: int, words: int) -> None:
        """Report, in the middle of a part, that some more of its sentences are computed."""
        self._in_part.update(sentences=sentences, words=words)
        size = self._part_end - self._position
        share = min(1, self._in_part["words"] / max(1, self._part_words))
        self.report_at(self._position + int(size * share))

    def tell(self, position: int, written: int = 0) -> None:
        """Report how far the work is, after a part."""
        self._position = position
        self.report_at(position, written)

    def report_at(self, position: int, written: int = 0) -> None:
        """Report how far the work is."""
        if self.report is None:
            return
        _, size = self.source.position()
        self.report(
            BulkProgress(
                sentences=self.totals["sentences"] + self._in_part["sentences"],
                words=self.totals["words"] + self._in_part["words"],
                words_here=self.words_here + self._in_part["words"],
                seconds=time.perf_counter() - self._started,
                first_position=self.finished.position,
                position=position,
                size=size,
                known_words=self.embedder.cache_hit_rate,
                written=written,
            )
        )


def tokens_per_part(computer: Computer) -> int:
    """How many tokens a part may have: fewer where a word's vectors are large."""
    return max(1, min(TOKENS_PER_PART, BYTES_PER_PART // computer.bytes_per_word))


def cut(source: Input, finished: Finished, tokens: int) -> Iterator[Part]:
    """Cut an input, behind what is finished, into parts of about so many tokens.

    Where it is cut depends on the text alone.
    """
    number, room = finished.parts, tokens
    records: list[Record] = []
    for record, end in behind(source, finished.end):
        records.append(record)
        room -= len(record.words) + 2  # a blank line takes its markers
        if room <= 0:
            yield Part(number, records, end, source.position()[0])
            number, room, records = number + 1, tokens, []
    if records:
        yield Part(number, records, end, source.position()[0])


def behind(source: Input, end: End | None) -> Iterator[tuple[Record, End]]:
    """The records of an input behind an end, each with the end it makes."""
    records = source.records(end.place if end else None)
    done = end.taken if end else 0
    place, taken = (end.place if end else None), 0
    for record in records:
        taken = taken + 1 if record.place == place else 1
        place = record.place
        if end is not None and place == end.place and taken <= done:
            continue
        yield record, End(place, taken)
