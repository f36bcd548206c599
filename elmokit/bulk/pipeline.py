"""Text of any size to a file of vectors, in constant memory, losing nothing when it is cut short.

Reading the text, computing and writing overlap: a part, some sentences, is read ahead in one thread
and written behind in another. Where a part ends depends on the input alone, so the vectors of a run
that was resumed are those of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from elmokit.bulk.compute import Array, Computer, Report, Summary, Tally
from elmokit.bulk.inputs import Input, Record, RecordPlace
from elmokit.errors import ElmoError, InputError
from elmokit.formats.mixes import read_mix
from elmokit.inference.embedder import Embedder
from elmokit.inference.token_vectors import KnownWords
from elmokit.io.files import disk_errors, sha256_of
from elmokit.jobs.parts import RECORD, FirstComputed, PartStore, Pieces, Seen
from elmokit.jobs.run_folder import RunFolder
from elmokit.system import computing_with, give_back_free_memory, peak_memory, prefetch
from elmokit.vectors.files import check_compression, check_suffix, open_vectors, write_vectors
from elmokit.vectors.items import Item, VectorSettings

MADE_BY = "run"
"""Where the description of an output has what tells its run from others."""
SAME = ("input", "model", "state", "precision", "layers", "pool", "dtype")
"""What makes a run the same, beside how it is written; not where it is computed."""
TOKENS_PER_PART = 32768
"""Enough sentences of each length for full batches. A crash costs two parts at most: the one
that waits to be written, and the one that is computed."""
BYTES_PER_PART = 64 << 20
"""Bounds the memory of a part where vectors are large."""
OPEN_PARTS = 16
ITEMS_BETWEEN_REPORTS = 1000
NOTHING_KNOWN = KnownWords([], np.empty((0, 0), dtype=np.float32), afresh=True)
SENTENCES, LEARNT = "sentences.json", "learnt.json"
VALUES, TOKEN_VECTORS, STATE = "values", "token_vectors", "state-"
ID_KINDS = {"str": "a text", "int": "a whole number", "NoneType": "missing"}


class End(NamedTuple):
    """Where reading resumes: a line, and how many of its sentences are done."""

    place: RecordPlace
    taken: int


class Part(NamedTuple):
    """Sentences that are computed and stored together; plain values for JSON."""

    shard: int  # of the input, which on one machine is not divided
    number: int  # of the parts of the shard, from 0
    sentences: list[list[str]]
    ids: list[str | int | None]
    end: End
    position: int  # bytes of the shard that were read by then
    bytes: int  # without the parts before

    @property
    def name(self) -> str:
        """Names are in the order of the input."""
        return name_of_part(self.shard, self.number)

    @property
    def words(self) -> int:
        """How many it has."""
        return sum(map(len, self.sentences))


def name_of_part(shard: int, number: int) -> str:
    """What the folder of a part is called.

    >>> name_of_part(2, 31)
    'part-00002-00000031'
    """
    return f"part-{shard:05d}-{number:08d}"


class Finished(NamedTuple):
    """What the finished parts of a shard come to, from the first on."""

    parts: int = 0
    end: End | None = None
    position: int = 0
    totals: Mapping[str, int] = MappingProxyType({})
    ids: str | None = None  # their kind


def tokens_per_part(computer: Computer) -> int:
    """How many tokens a part may have: fewer where a word's vectors are large."""
    return max(1, min(TOKENS_PER_PART, BYTES_PER_PART // computer.bytes_per_word))


def cut(source: Input, finished: Finished, tokens: int, shard: int = 0) -> Iterator[Part]:
    """Cut an input, behind what is finished, into parts of about so many tokens.

    Where it is cut depends on the text alone. Ids of another kind than the first, which Parquet
    could not hold, are an error.
    """
    number, position, room, kind = finished.parts, finished.position, tokens, finished.ids
    records: list[Record] = []
    end = finished.end

    def part() -> Part:
        assert end is not None
        sentences, ids = [record.words for record in records], [record.id for record in records]
        read = source.position()[0]
        return Part(shard, number, sentences, ids, end, read, read - position)

    for record, after in behind(source, finished.end):
        if kind is None and (record.id is not None or shard == 0):
            kind = type(record.id).__name__
        check_id(source, record, kind)
        records.append(record)
        end = after
        room -= len(record.words) + 2  # a blank line takes its markers
        if room <= 0:
            yield (made := part())
            number, position, room, records = number + 1, made.position, tokens, []
    if records:
        yield part()


def behind(source: Input, end: End | None) -> Iterator[tuple[Record, End]]:
    """The records of an input behind an end, each with the end it makes."""
    done = end.taken if end else 0
    place, taken = (end.place if end else None), 0
    for record in source.records(place):
        taken = taken + 1 if record.place == place else 1
        place = record.place
        if end is not None and place == end.place and taken <= done:
            continue
        yield record, End(place, taken)


def check_id(source: Input, record: Record, kind: str | None) -> None:
    """Raise for an id that is there and of another kind."""
    found = type(record.id).__name__
    if kind is not None and found not in (kind, "NoneType"):
        raise InputError(
            f"{source.name_of(record.place)}, line {record.place.line}: its id is "
            f"{ID_KINDS[found]}, the first one is {ID_KINDS[kind]}; let the column hold one kind"
        )


class SentenceParts(PartStore):
    """Parts of sentences and their arrays, joined along their words, or stacked.

    Args:
        folder: Where they are.
        pooled: Whether the arrays have no axis of words.
    """

    def __init__(self, folder: Path, *, pooled: bool) -> None:
        super().__init__(folder)
        self.pooled = pooled

    def add(
        self,
        part: Part,
        arrays: Sequence[Array],
        totals: Mapping[str, int],
        learnt: KnownWords | None = None,
        state: Mapping[str, Array] | None = None,
        **about: Any,
    ) -> dict[str, Any]:
        """Store a part; give its record.

        Args:
            part: The sentences.
            arrays: The array of each.
            totals: What was counted of them.
            learnt: The words that were first met in this part.
            state: What state `carry` remembers after it.
            about: More for the record.
        """
        record = {
            "shard": part.shard,
            "number": part.number,
            "end": part.end,
            "position": part.position,
            "bytes": part.bytes,
            "ids": next((type(id_).__name__ for id_ in part.ids if id_ is not None), "NoneType"),
            "totals": dict(totals),
            **about,
        }
        objects = {RECORD: record, SENTENCES: {"words": part.sentences, "ids": part.ids}}
        stored: dict[str, Array | Pieces] = {VALUES: self._joined(arrays)}
        if learnt is not None:
            objects[LEARNT] = {"words": learnt.words, "afresh": learnt.afresh}
            stored[TOKEN_VECTORS] = learnt.vectors
        stored |= {f"{STATE}{name}": array for name, array in (state or {}).items()}
        self.write(part.name, objects, stored)
        return record

    def finished(self, shard: int = 0) -> Finished:
        """The parts of a shard from the first on; one that is missing ends them."""
        totals: Counter[str] = Counter()
        ids = record = None
        count = 0
        while self.has(name := name_of_part(shard, count)):
            record = self.object(name)
            totals.update(record["totals"])
            ids = ids or record["ids"]
            count += 1
        if record is None:
            return Finished()
        place, taken = record["end"]
        end = End(RecordPlace(*place), taken)
        return Finished(count, end, record["position"], dict(totals), ids)

    def items(self) -> Iterator[Item]:
        """Every sentence with its array, in the order of the input."""
        for name in self.names():
            stored, values = self.object(name, SENTENCES), self.array(name, VALUES)
            for words, id_, start in zip(
                stored["words"], stored["ids"], self.starts(stored["words"]), strict=True
            ):
                yield Item(words, self.at(values, start, len(words)), id_)

    def state(self, name: str) -> dict[str, Array] | None:
        """What state `carry` remembered after a part."""
        files = (self.folder / name).glob(f"{STATE}*")
        found = {path.stem: np.array(self.array(name, path.stem)) for path in files}
        return {file.removeprefix(STATE): array for file, array in found.items()} or None

    def learnt(self, parts: int) -> Iterator[KnownWords]:
        """The words that are known after some parts, in the order in which they were learnt."""
        known: list[tuple[str, dict[str, Any]]] = []
        while len(known) < parts and not (known and known[-1][1]["afresh"]):
            name = name_of_part(0, parts - 1 - len(known))
            known.append((name, self.object(name, LEARNT)))
        for name, stored in reversed(known):
            vectors = np.array(self.array(name, TOKEN_VECTORS))
            yield KnownWords(stored["words"], vectors, stored["afresh"])

    def starts(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Where the array of each sentence begins in those of its part."""
        lengths = [1 if self.pooled else len(words) for words in sentences]
        return list(accumulate(lengths, initial=0))[:-1]

    def at(self, values: Array, start: int, words: int) -> Array:
        """The array of one sentence, among those of its part."""
        return np.asarray(values[start] if self.pooled else values[..., start : start + words, :])

    def _joined(self, arrays: Sequence[Array]) -> Pieces:
        first = arrays[0]
        if self.pooled:
            return Pieces((len(arrays), *first.shape), arrays)
        *leading, _, size = first.shape
        words = sum(array.shape[-2] for array in arrays)
        pieces = (array[layer] for layer in np.ndindex(*leading) for array in arrays)
        return Pieces((*leading, words, size), pieces)


def check_output(output: str | Path, *, resume: bool = False, force: bool = False) -> None:
    """Raise for an output that cannot be written, before anything is computed for it.

    Args:
        output: Its name.
        resume: It may be there; whether it is of the same run is for `EmbeddingJob` to say.
        force: It may be there.
    """
    check_suffix(output)
    with disk_errors(Path(output), "written"):
        if Path(output).is_dir():
            raise InputError(f"{output}: is a folder; give the name of a file")
    RunFolder.beside(output).check_output(resume=resume, force=force)


def check_not_input(output: str | Path, source: Input) -> None:
    """Raise where an output would replace what is being read, or a folder that it is in."""
    target = Path(os.path.realpath(output))
    for file in source.files:
        place = Path(os.path.realpath(file))
        with disk_errors(file, "read"):
            same = target.exists() and target.samefile(file)
        if same:
            raise InputError(f"{output}: is the input too; choose another name for the output")
        if place.is_relative_to(target) or place.is_relative_to(RunFolder.beside(target).folder):
            raise InputError(
                f"{output}: would replace the input {file}; choose another name for the output"
            )


def check_unchanged(source: Input, before: object, run: RunFolder) -> None:
    """Raise where an input is not what it was when the run began."""
    if source.identity() != before:
        raise InputError(
            f"{', '.join(map(str, source.files[:3]))}{', …' if len(source.files) > 3 else ''}: "
            f"changed while it was read; what is done is in {run.folder}; begin again (--force)"
        )


class EmbeddingJob:
    """An output and all that it depends on.

    Args:
        embedder: The model.
        source: The sentences.
        output: The name of what is made.
        settings: What to make of each sentence.
        resume: Resume a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        engine: What computes, and what of it the vectors depend on.

    Attributes:
        settings: Those given, with what the output will remember.
        computer: Makes the arrays.
        identity: What the vectors depend on; a run is resumed only with the same.
        folder: Where the work is until the output is complete.
        parts: What is done of it.
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
        engine: Mapping[str, Any],
    ) -> None:
        self.embedder = embedder
        self.source = source
        self.output = output
        self.resume = resume
        self.force = force
        check_output(output, resume=resume, force=force)
        check_compression(output, settings.compression)
        check_not_input(output, source)
        layers = read_mix(settings.mix, embedder.config) if settings.mix else settings.layers
        self.computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)
        self.identity = identity_of(embedder, source, settings, engine)
        self.settings = described(settings, embedder, self.identity)
        self.folder = RunFolder.beside(output)
        self.parts = SentenceParts(self.folder.folder.absolute(), pooled=settings.pooled)

    def finished_before(self) -> Summary | None:
        """What to tell where a run that is to be resumed has nothing left to do.

        None where it has; an output of another run is an error.
        """
        target = self.folder.output
        assert target is not None
        if not self.resume or self.force or not target.exists() or self.folder.folder.exists():
            return None
        if self.source.streamed or not self.is_made(target):
            why = "of another run"
            if self.source.streamed:
                why = "nothing can tell whether from the same text"
            raise InputError(
                f"{self.output}: is there already, and {why}; choose another name, or force it "
                "(--force)"
            )
        self.folder.remove_leftovers()  # all that a kill can have left to do
        with open_vectors(target) as vectors:
            return Summary(str(self.output), sentences=len(vectors), already_finished=True)

    def begin(self) -> None:
        """Find what is finished, or begin again; to be called when the folder is claimed."""
        # Again, since another process may have finished it before the folder was free.
        resume = self.resume and self.folder.holds_work()
        check_output(self.output, resume=resume, force=self.force)
        self.folder.begin(self.identity, resume=self.resume, force=self.force)
        self.check_free()

    def publish(self, tally: Tally) -> None:
        """Make the output of the parts, and remove them."""
        self.check_publishable()
        write_vectors(self.output, self._items(tally), self.settings)
        self.folder.publish()

    def check_publishable(self) -> None:
        """Raise for an input that has changed, or where somebody else's output is."""
        check_unchanged(self.source, self.identity["input"], self.folder)
        self.check_free()

    def check_free(self) -> None:
        """Raise where an output would be replaced that was not there when the run began."""
        assert self.folder.output is not None
        if not self.is_made(self.folder.output):
            self.folder.check_free()

    def is_made(self, target: Path) -> bool:
        """Whether the complete output of this run is there."""
        try:
            with open_vectors(target) as vectors:
                return vectors.description.get(MADE_BY) == run_of(self.identity, self.settings)
        except ElmoError:
            return False

    def _items(self, tally: Tally) -> Iterator[Item]:
        """Every sentence with its array; reports how many of them are in the output."""
        for number, item in enumerate(self.parts.items(), start=1):
            yield item
            if number % ITEMS_BETWEEN_REPORTS == 0:
                tally.tell(written=number)
        self.check_publishable()  # again, since writing takes its time


def identity_of(
    embedder: Embedder, source: Input, settings: VectorSettings, engine: Mapping[str, Any]
) -> dict[str, Any]:
    """What the vectors depend on."""
    return {
        **engine,
        "device": embedder.device.type,
        "input": source.identity(),
        "model": embedder.fingerprint(),
        "state": [embedder.state, embedder.warm_runs],
        "precision": embedder.precision,
        "layers": [settings.layers, sha256_of(settings.mix) if settings.mix else None],
        "pool": settings.pool,
        "dtype": settings.dtype,
    }


def run_of(identity: Mapping[str, Any], settings: VectorSettings) -> str:
    """What tells a run from others."""
    same = {name: identity[name] for name in SAME}
    written = {"compression": settings.compression, "sentences": settings.keep_sentences}
    return hashlib.sha256(json.dumps({**same, **written}, sort_keys=True).encode()).hexdigest()


def described(
    settings: VectorSettings, embedder: Embedder, identity: Mapping[str, Any]
) -> VectorSettings:
    """The settings, with what an output remembers of how it was made."""
    description = {
        "layers": settings.layers,
        "pool": settings.pool,
        "state": embedder.state,
        "model": identity["model"],
        MADE_BY: run_of(identity, settings),
    }
    return replace(settings, description=description)


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
        output: The file. It appears when it is complete; until then, what is done is beside it.
        settings: What to make of each sentence.
        resume: Resume a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        report: Told how far the work is, after every batch.
        threads: To compute with, for the time of the run. None for what torch has; on resuming,
            for what the run has had.
    """
    if threads is None and resume and not force:
        threads = RunFolder.beside(output).record().get("identity", {}).get("threads")
    with computing_with(threads):
        engine = {"engine": "local", "threads": torch.get_num_threads()}
        settings = settings or VectorSettings()
        job = EmbeddingJob(
            embedder, source, output, settings, resume=resume, force=force, engine=engine
        )
        if before := job.finished_before():
            return before
        with job.folder.claimed():
            job.begin()
            run = Run(job, report)
            run.compute()
            job.publish(run.tally)
    return Summary.of(output, run.tally, peak_memory(), longest_whole=job.computer.longest)


class Run:
    """One run from its first or next part to its last.

    Args:
        job: What is made of what.
        report: Told how far the work is.
    """

    def __init__(self, job: EmbeddingJob, report: Report | None) -> None:
        self.embedder = job.embedder
        self.computer = job.computer
        self.parts = job.parts
        self.source = job.source
        self.finished = job.parts.finished()
        self.tally = Tally(
            job.source.position()[1],
            self.finished.totals,
            self.finished.position,
            report,
            lambda: job.embedder.cache_hit_rate,
        )
        self.computer.progress = self.tally.end_batch
        self._carries = self.embedder.state == "carry"
        # Parts that repeated sentences are in stay open for a while.
        self._values = lru_cache(OPEN_PARTS)(
            lambda number: self.parts.array(name_of_part(0, number), VALUES)
        )
        self._pending: Future[Any] | None = None

    def compute(self) -> None:
        """Compute and store all parts that are missing."""
        self.restore(self.finished.parts)
        parts = prefetch(cut(self.source, self.finished, tokens_per_part(self.computer)))
        with (
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
        before = self.embedder.words_known()
        self.tally.begin_part(part.words, part.bytes)
        arrays = self.arrays_of(part, seen)
        totals = totals_of(part, self.computer)
        state = self.computer.state() if self._carries else None
        learnt = self.embedder.words_learnt(before)
        self.wait()
        self._pending = writer.submit(self.parts.add, part, arrays, totals, learnt, state)
        self.tally.end_part(totals, part.bytes)
        self.tally.tell()
        give_back_free_memory()

    def restore(self, parts: int) -> None:
        """Know what was known after some parts, so that the next is the same to the bit."""
        self.embedder.learn_words(NOTHING_KNOWN)
        for learnt in self.parts.learnt(parts):
            self.embedder.learn_words(learnt)
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
        self.computer.skip([sentences[n] for n, text in enumerate(texts) if text in found])
        new = [n for n, text in enumerate(texts) if text not in found]
        computed = self.computer.compute([sentences[n] for n in new])
        arrays = dict(zip(new, computed, strict=True))
        starts = self.parts.starts(sentences)
        # Before the part is written: a part that is there has its sentences in the index.
        seen.add((texts[n], FirstComputed(part.number, starts[n])) for n in new)
        return [
            arrays[n] if n in arrays else self.read(found[text], len(sentences[n]))
            for n, text in enumerate(texts)
        ]

    def read(self, place: FirstComputed, words: int) -> Array:
        """The array of a sentence that was computed in an earlier part."""
        return self.parts.at(self._values(place.part), place.start, words)

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
