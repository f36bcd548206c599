"""Text of any size to a file of vectors, in constant memory, losing nothing when it is cut short.

Reading the text, computing and writing overlap: a chunk of sentences is read ahead in one thread
and written behind in another.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.bulk.compute import Array, Computer
from elmokit.bulk.duplicates import Occurrence, Seen
from elmokit.bulk.inputs import Input, Record
from elmokit.bulk.spool import Chunk, End, Finished, Spool, part, parts_of, starts_of
from elmokit.bulk.summary import Progress, Summary, peak_memory
from elmokit.config import WordEncoderConfig
from elmokit.embedder import Embedder
from elmokit.errors import InputError, StoppedError
from elmokit.formats.files import sha256_of
from elmokit.formats.mixes import read_mix
from elmokit.formats.vector_items import Description, DType, Item
from elmokit.formats.vectors import check_compression, check_suffix, write_vectors
from elmokit.prefetch import prefetch
from elmokit.reductions import Pool
from elmokit.word_cache import KnownWords

Report = Callable[[Progress], None]

TOKENS_PER_CHUNK = 32768
"""Enough sentences of each length for full batches; the most work that a crash can cost."""
BYTES_PER_CHUNK = 64 << 20
"""Bounds the memory of a chunk where vectors are large."""
OPEN_CHUNKS = 16
ITEMS_BETWEEN_REPORTS = 1000
NOTHING_KNOWN = KnownWords([], np.empty((0, 0), dtype=np.float32), afresh=True)


@dataclass(frozen=True)
class VectorSettings:
    """What is made of each sentence, and how it is written."""

    layers: str = "average"
    mix: str | None = None
    """The file of a trained mix, where layers is "mix"."""
    pool: Pool = "none"
    dtype: DType = "float32"
    compression: str | None = None
    keep_sentences: bool = True


def embed_files(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
) -> Summary:
    """Embed every sentence of an input into a file of vectors, its format by its suffix.

    Args:
        embedder: The model.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The file. It appears when it is whole; until then, what is done is beside it.
        settings: What to make of each sentence.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        report: Told how far the work is, after every chunk.
    """
    settings = settings or VectorSettings()
    check_output(output, resume=resume, force=force)
    check_compression(output, settings.compression)
    check_not_input(output, source)
    layers = read_mix(settings.mix, embedder.config) if settings.mix else settings.layers
    computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)
    facts = facts_of(embedder, source, settings)
    spool = Spool(output, facts, pooled=settings.pool != "none")
    started = time.perf_counter()
    try:
        with spool.claimed():
            finished = spool.begin(resume=resume, force=force)
            run = Run(embedder, computer, spool, source, finished, report)
            write_vectors(
                output,
                run.assembled(run.compute()),
                dtype=settings.dtype,
                compression=settings.compression,
                keep_sentences=settings.keep_sentences,
                description=description_of(embedder, settings, facts["model"]),
            )
            run.close()
            spool.remove()
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped; what is done is in {spool.folder}; to go on, run the same command with "
            "--resume"
        ) from None
    seconds = time.perf_counter() - started
    return Summary.of(output, run.totals, run.words_here, seconds, peak_memory())


def check_output(output: str | Path, *, resume: bool = False, force: bool = False) -> None:
    """Refuse an output that cannot be written, before anything is computed for it."""
    check_suffix(output)
    unfinished = resume and parts_of(output).exists()
    if Path(output).exists() and not force and not unfinished:
        done = "is whole already" if resume else "is there already"
        raise InputError(f"{output}: {done}; choose another name, or force it (--force)")


def check_not_input(output: str | Path, source: Input) -> None:
    """Refuse to replace what is being read."""
    if Path(output).exists() and any(Path(output).samefile(file) for file in source.files):
        raise InputError(f"{output}: is the input too; choose another name for the output")


class Run:
    """One run from its first or next chunk to its last.

    Args:
        embedder: The model.
        computer: Makes the arrays.
        spool: Where chunks are kept.
        source: The sentences.
        finished: What was done before.
        report: Told how far the work is.
    """

    def __init__(
        self,
        embedder: Embedder,
        computer: Computer,
        spool: Spool,
        source: Input,
        finished: Finished,
        report: Report | None,
    ) -> None:
        self.embedder = embedder
        self.computer = computer
        self.spool = spool
        self.source = source
        self.finished = finished
        self.report = report
        self.totals = Counter(finished.totals)
        self.words_here = 0
        self._started = time.perf_counter()
        self._position = finished.position
        self._carries = embedder.state == "carry"
        # Chunks that repeated sentences are in stay open for a while.
        self._values = lru_cache(OPEN_CHUNKS)(spool.values)
        self._pending: Future[None] | None = None
        self._id_kind: type | None = None

    def compute(self) -> int:
        """Compute and keep all chunks that are missing; give how many there are in all."""
        count = self.finished.chunks
        self.restore(count)
        chunks = prefetch(cut(self.source, self.finished, tokens_per_chunk(self.computer)))
        with (
            closing(chunks),  # type: ignore[type-var]
            closing(Seen(self.spool.folder, count)) as seen,
            ThreadPoolExecutor(1, "write") as writer,
        ):
            for chunk in chunks:
                before = self.embedder.words_known()
                arrays = self.arrays_of(chunk, seen)
                self.count(chunk)
                self.keep(chunk, arrays, self.embedder.words_learnt(before), writer)
                self.tell(chunk.position)
                count += 1
            self.wait()
        return count

    def assembled(self, chunks: int) -> Iterator[Item]:
        """Every sentence with its array; reports how many of them are in the output."""
        for number, item in enumerate(self.spool.items(chunks), start=1):
            yield item
            if number % ITEMS_BETWEEN_REPORTS == 0:
                self.tell(self._position, written=number)

    def close(self) -> None:
        """Let go of the chunks that are still open."""
        self._values.cache_clear()

    def restore(self, chunks: int) -> None:
        """Know what was known after some chunks, so that the next is the same to the bit."""
        self.embedder.learn_words(NOTHING_KNOWN)
        for learnt in self.spool.learnt(chunks):
            self.embedder.learn_words(learnt)
        if self._carries:
            self.computer.restore(self.spool.state(chunks - 1) if chunks else None)

    def arrays_of(self, chunk: Chunk, seen: Seen) -> list[Array]:
        """The array of each sentence: found where it was computed before, or computed."""
        if self._carries:
            return self.computer.compute([record.words for record in chunk.records])
        texts = [" ".join(record.words) for record in chunk.records]
        found = seen.find(texts)
        if found:
            self.wait()  # until the chunk before can be read
        known = [n for n, text in enumerate(texts) if text in found]
        self.totals["duplicates"] += len(known)
        self.embedder.note_words([chunk.records[number].words for number in known])
        new = [n for n, text in enumerate(texts) if text not in found]
        computed = self.computer.compute([chunk.records[number].words for number in new])
        arrays = dict(zip(new, computed, strict=True))
        starts = starts_of([record.words for record in chunk.records], self.spool.pooled)
        # Before the chunk is written: a chunk that is there has its sentences in the index.
        seen.add((texts[number], Occurrence(chunk.number, starts[number])) for number in new)
        return [
            arrays[number] if number in arrays else self.read(found[text], chunk.records[number])
            for number, text in enumerate(texts)
        ]

    def read(self, place: Occurrence, record: Record) -> Array:
        """The array of a sentence that was computed in an earlier chunk."""
        return part(self._values(place.chunk), place.start, len(record.words), self.spool.pooled)

    def count(self, chunk: Chunk) -> None:
        """Add a chunk to the totals."""
        self.check_ids(chunk)
        words = sum(len(record.words) for record in chunk.records)
        self.words_here += words
        self.totals.update(
            sentences=len(chunk.records),
            words=words,
            blank=sum(not record.words for record in chunk.records),
        )
        self.totals.update(self.computer.take_counts())

    def check_ids(self, chunk: Chunk) -> None:
        """Refuse ids of several kinds, which Parquet could not hold, before more is computed."""
        if self._id_kind is None:
            known = self.spool.record(0)["ids"] if self.finished.chunks else [chunk.records[0].id]
            self._id_kind = type(known[0])
        for record in chunk.records:
            if type(record.id) is not self._id_kind:
                kinds = {str: "a text", int: "a whole number", type(None): "missing"}
                raise InputError(
                    f"file {record.place.file + 1}, line {record.place.line}: its id is "
                    f"{kinds[type(record.id)]}, the first one is {kinds[self._id_kind]}; let the "
                    "column hold one kind"
                )

    def keep(
        self,
        chunk: Chunk,
        arrays: Sequence[Array],
        learnt: KnownWords,
        writer: ThreadPoolExecutor,
    ) -> None:
        """Write a chunk while the next is computed; no more than one waits to be written."""
        self.wait()
        state = self.computer.state() if self._carries else None
        totals = dict(self.totals)
        self._pending = writer.submit(self.spool.write, chunk, arrays, totals, learnt, state)

    def wait(self) -> None:
        """Wait until the chunk before is written; fail as it did."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def tell(self, position: int, written: int = 0) -> None:
        """Report how far the work is."""
        self._position = position
        if self.report is None:
            return
        _, size = self.source.position()
        self.report(
            Progress(
                sentences=self.totals["sentences"],
                words=self.totals["words"],
                words_here=self.words_here,
                seconds=time.perf_counter() - self._started,
                first_position=self.finished.position,
                position=position,
                size=size,
                known_words=self.embedder.cache_hit_rate,
                written=written,
            )
        )


def tokens_per_chunk(computer: Computer) -> int:
    """How many tokens a chunk may have: fewer where a word's vectors are large."""
    return max(1, min(TOKENS_PER_CHUNK, BYTES_PER_CHUNK // computer.bytes_per_word))


def cut(source: Input, finished: Finished, tokens: int) -> Iterator[Chunk]:
    """Cut an input, behind what is finished, into chunks of about so many tokens.

    Where it is cut depends on the text alone.
    """
    number, room = finished.chunks, tokens
    records: list[Record] = []
    for record, end in behind(source, finished.end):
        records.append(record)
        room -= len(record.words) + 2  # a blank line takes its markers
        if room <= 0:
            yield Chunk(number, records, end, source.position()[0])
            number, room, records = number + 1, tokens, []
    if records:
        yield Chunk(number, records, end, source.position()[0])


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


def description_of(embedder: Embedder, settings: VectorSettings, model: str) -> Description:
    """What an output remembers of how it was made."""
    return {
        "layers": settings.layers,
        "pool": settings.pool,
        "state": embedder.state,
        "model": model,
    }


def facts_of(embedder: Embedder, source: Input, settings: VectorSettings) -> dict[str, Any]:
    """What the vectors depend on; a run is resumed only with the same."""
    return {
        "engine": "local",
        "threads": torch.get_num_threads(),
        "device": embedder.device.type,
        "input": source.identity(),
        "model": fingerprint(embedder),
        "state": [embedder.state, embedder.warm_runs],
        "precision": embedder.precision,
        "layers": [settings.layers, sha256_of(settings.mix) if settings.mix else None],
        "pool": settings.pool,
        "dtype": settings.dtype,
    }


def fingerprint(embedder: Embedder) -> str:
    """SHA-256 of everything in a model that its vectors depend on."""
    sha256 = hashlib.sha256(json.dumps(embedder.config.to_dict(), sort_keys=True).encode())
    if isinstance(embedder.config.encoder, WordEncoderConfig) and embedder.vocabulary is not None:
        sha256.update("\n".join(embedder.vocabulary.words).encode("utf-8", "surrogatepass"))
    for name, value in sorted(embedder.bilm.state_dict().items()):
        if "softmax" not in name:
            sha256.update(name.encode())
            sha256.update(value.detach().cpu().contiguous().numpy().data)
    return sha256.hexdigest()
