"""Text of any size to a file of vectors, in constant memory, losing nothing when it is cut short.

Reading the text, computing and writing overlap: a part, some sentences, is read ahead in one thread
and written behind in another.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np

from elmokit.bulk.compute import Array, Computer
from elmokit.bulk.duplicates import Occurrence, Seen
from elmokit.bulk.inputs import Input, Record
from elmokit.bulk.job import Job
from elmokit.bulk.outputs import target_of
from elmokit.bulk.spool import End, Finished, Part, array_at, starts_of, threads_before
from elmokit.bulk.summary import Progress, Report, Summary
from elmokit.embedder import Embedder
from elmokit.errors import DiskError, InputError, StoppedError
from elmokit.formats.vector_items import Item
from elmokit.formats.vector_settings import VectorSettings as VectorSettings
from elmokit.formats.vectors import write_vectors
from elmokit.prefetch import prefetch
from elmokit.process_memory import give_back_free_memory, peak_memory
from elmokit.threads import computing_with
from elmokit.word_cache import KnownWords

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
    job = Job(embedder, source, output, settings, resume=resume, force=force)
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
        raise StoppedError(f"stopped; {job.how_to_go_on()}") from None
    except DiskError as error:
        refused = isinstance(error.__cause__, OSError | sqlite3.Error)
        if refused and os.path.exists(job.spool.folder):
            raise DiskError(f"{error}; {job.how_to_go_on()}") from error
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

    def __init__(self, job: Job, finished: Finished, report: Report | None) -> None:
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
        seen.add((texts[number], Occurrence(part.number, starts[number])) for number in new)
        return [
            arrays[number] if number in arrays else self.read(found[text], part.records[number])
            for number, text in enumerate(texts)
        ]

    def read(self, place: Occurrence, record: Record) -> Array:
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
            Progress(
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
