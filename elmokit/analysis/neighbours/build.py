"""A corpus to an index of its occurrences, in constant memory, losing nothing when it is cut short.

The tables grow in `INDEX.parts`, part by part; behind each part a record says what is in them.
Killed at any moment, the same run forgets what came after the last record and continues. In the end
the tables are indexed, and their folder gets its name.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmokit import __version__
from elmokit.analysis.neighbours.store import (
    ROWS_WITHOUT_VECTOR_INDEX,
    Halves,
    IndexDescription,
    Note,
    Occurrences,
    OccurrenceStore,
    as_stored,
    form_of,
    import_lancedb,
    is_address,
    is_index,
    layer_names,
    read_description,
    storable,
    write_description,
)
from elmokit.bulk.compute import Computer, Report, Tally
from elmokit.bulk.inputs import Input, RecordPlace
from elmokit.bulk.pipeline import (
    End,
    Finished,
    Part,
    check_not_input,
    check_unchanged,
    cut,
    tokens_per_part,
)
from elmokit.errors import FormatError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import LayerChoice, Vectors
from elmokit.io.files import disk_errors, read_object, write_atomically, write_object
from elmokit.jobs.parts import FirstComputed, Seen
from elmokit.jobs.run_folder import RunFolder, is_taken
from elmokit.static.vectors import unit
from elmokit.system import counted, prefetch


@dataclass(frozen=True)
class IndexSettings:
    """What is kept of a corpus.

    Attributes:
        layers: Whose vectors: "all", or some of "top", "average", 0, 1, … with commas between.
        words: Only these words, in capitals or not; None for all.
        skip_punctuation: Leave out words without a letter or a digit.
        index_above: Vectors are indexed where there are more; else all of them are compared.
    """

    layers: str = "top"
    words: frozenset[str] | None = None
    skip_punctuation: bool = False
    index_above: int = ROWS_WITHOUT_VECTOR_INDEX

    def __post_init__(self) -> None:
        if self.words is not None:
            object.__setattr__(self, "words", frozenset(map(form_of, self.words)))
            if not self.words:
                raise InputError("there is no word to index; name some, or leave the list out")

    def keeps(self, word: str) -> bool:
        """Whether occurrences of a word are kept."""
        if self.words is not None:
            return form_of(word) in self.words
        return not self.skip_punctuation or any(character.isalnum() for character in word)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; a list of words by its checksum."""
        words = None if self.words is None else digest_of_words(self.words)
        return asdict(self) | {"words": words}


def digest_of_words(words: frozenset[str]) -> str:
    """What tells a set of words from others."""
    return hashlib.sha256("\n".join(sorted(words)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class BuildSummary:
    """What was read and kept."""

    output: str
    sentences: int  # different ones that are kept
    occurrences: int
    forms: int
    words_read: int = 0
    duplicates: int = 0  # sentences that were there before
    vector_index: bool = False
    seconds: float = 0.0
    words_per_second: float = 0.0
    already_finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """One line."""
        kept = (
            f"{counted(self.occurrences, 'occurrence')} of {counted(self.forms, 'word')} in "
            f"{counted(self.sentences, 'sentence')}"
        )
        if self.already_finished:
            return f"{self.output}: already finished, with {kept}; nothing is left to do"
        repeated = f", {self.duplicates:,} repeated and kept once" if self.duplicates else ""
        rate = f"{self.seconds:.1f} s, {self.words_per_second:,.0f} words/s"
        return f"{self.output}: {kept}{repeated}, {rate}"


TABLES, DONE = "index", "done.json"


class Build:
    """One run from its first or next part to its last.

    Args:
        embedder: The model.
        source: The sentences.
        folder: That of the work.
        settings: What is kept.
        description: What the index is to say of itself.
        report: Told how far the work is.
    """

    def __init__(
        self,
        embedder: Embedder,
        source: Input,
        folder: RunFolder,
        settings: IndexSettings,
        description: IndexDescription,
        report: Report | None,
    ) -> None:
        self.embedder = embedder
        self.source = source
        self.settings = settings
        self.description = description
        self.work = folder.folder
        self.computer = Computer(embedder, layers="all")
        self.finished = finished_parts(self.work)
        self.tally = Tally(
            source.position()[1],
            self.finished.totals,
            self.finished.position,
            report,
            lambda: embedder.cache_hit_rate,
        )
        self.computer.progress = self.tally.end_batch
        self.totals = self.tally.totals
        self.store = self.open_store()

    def open_store(self) -> OccurrenceStore:
        """The tables as they were after the last part that is finished."""
        tables = self.work / TABLES
        if not self.finished.parts:  # a kill may have come before they were whole
            shutil.rmtree(tables, ignore_errors=True)
        with disk_errors(tables, "written"):
            tables.mkdir(exist_ok=True)
        sizes = dict.fromkeys(self.description.layers, self.description.vector_size)
        store = OccurrenceStore(tables, sizes, create=not self.finished.parts)
        store.keep_only(self.totals["kept"])
        if store.counts() != (self.totals["kept"], self.totals["occurrences"]):
            raise FormatError(
                f"{self.work}: has not what its record says, as after a power cut; begin again "
                "(--force)"
            )
        return store

    def read(self) -> None:
        """Keep all parts that are missing."""
        parts = prefetch(cut(self.source, self.finished, tokens_per_part(self.computer)))
        with (
            closing(parts),  # type: ignore[type-var]
            closing(Seen(self.work, self.finished.parts)) as seen,
        ):
            for part in parts:
                self.tally.begin_part(part.words, part.bytes)
                self.add(part, seen)
                counts = {"sentences": len(part.sentences), "words": part.words}
                self.tally.end_part(counts, part.bytes)
                self.record(part)
                self.tally.tell()

    def add(self, part: Part, seen: Seen) -> None:
        """Add the sentences of a part that were not there before."""
        sentences = [words for words in part.sentences if words]
        distinct = {" ".join(words): words for words in sentences}
        found = seen.find(list(distinct))
        new = {text: words for text, words in distinct.items() if text not in found}
        seen.add((text, FirstComputed(part.number, number)) for number, text in enumerate(new))
        kept = [words for words in new.values() if any(self.settings.keeps(word) for word in words)]
        arrays = self.computer.compute(kept)
        occurrences = self.occurrences_of(kept, arrays)
        self.store.add(self.totals["kept"], list(map(storable, kept)), occurrences)
        self.totals.update(
            kept=len(kept),
            occurrences=len(occurrences.words),
            duplicates=len(sentences) - len(new),
        )

    def occurrences_of(
        self, sentences: Sequence[Sequence[str]], arrays: Sequence[Vectors]
    ) -> Occurrences:
        """The words that are kept, with vectors from (layers, words, size) of each sentence."""
        first = self.totals["kept"]
        places = [
            (number, position)
            for number, words in enumerate(sentences)
            for position, word in enumerate(words)
            if self.settings.keeps(word)
        ]
        layers, size = self.embedder.config.layer_count, self.description.vector_size
        chosen = [arrays[number][:, position] for number, position in places]
        stacked = np.array(chosen, np.float32).reshape(len(places), layers, size)
        return Occurrences(
            storable([sentences[number][position] for number, position in places]),
            np.array([first + number for number, _ in places], np.int64),
            np.array([position for _, position in places], np.int32),
            {name: direction(stacked, name) for name in self.description.layers},
        )

    def record(self, part: Part) -> None:
        """Say that a part is in the tables: from now on it stays."""
        done = {
            "parts": part.number + 1,
            "end": part.end,
            "position": part.position,
            "totals": dict(self.totals),
        }
        with write_atomically(self.work / DONE) as path:
            write_object(done, path)

    def finish(self, note: Note | None) -> IndexDescription:
        """Index the tables, and say what they are."""
        forms = self.store.finish(self.settings.index_above, note)
        sentences, occurrences = self.store.counts()
        description = replace(
            self.description,
            sentences=sentences,
            occurrences=occurrences,
            forms=forms,
            vector_index=occurrences > self.settings.index_above,
        )
        write_description(self.work / TABLES, description)
        return description

    def summary(self, output: str | Path, description: IndexDescription) -> BuildSummary:
        """What was read and kept."""
        seconds = time.perf_counter() - self.tally.started
        return BuildSummary(
            str(output),
            description.sentences,
            description.occurrences,
            description.forms,
            words_read=self.totals["words"],
            duplicates=self.totals["duplicates"],
            vector_index=description.vector_index,
            seconds=seconds,
            words_per_second=self.tally.words_here / seconds,
        )


def finished_parts(work: Path) -> Finished:
    """What the parts that are in the tables come to."""
    if not (work / DONE).exists():
        return Finished()
    done = read_object(work / DONE)
    place, taken = done["end"]
    return Finished(
        done["parts"], End(RecordPlace(*place), taken), done["position"], done["totals"]
    )


def direction(layers: Vectors, name: str) -> Halves:
    """The vectors of a layer, or the average, of (words, layers, size): of length 1, in float16.

    Only directions are compared; at length 1 none is beyond float16's range.
    """
    vectors = LayerChoice(name, layers.shape[1]).of(layers.swapaxes(0, 1))
    return unit(vectors).astype(np.float16)


def build_index(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: IndexSettings | None = None,
    *,
    model: str = "",
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    note: Note | None = None,
) -> BuildSummary:
    """Keep every occurrence of every word of an input in an index, with its vectors.

    Args:
        embedder: The model.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The folder. It appears when it is whole; until then, what is done is beside it.
        settings: What is kept.
        model: What to call the model.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace an index, or what is left of another run.
        report: Told how far the work is.
        note: Told what is done after the last sentence is read.
    """
    settings = settings or IndexSettings()
    check_embedder(embedder)
    check_target(output, resume=resume, force=force)
    check_not_input(output, source)
    import_lancedb()
    description = description_of(embedder, settings, source, model)
    folder = RunFolder.beside(output)
    with folder.claimed():
        if resume and not force:
            before = finished_before(folder, output, description, streamed=source.streamed)
            if before is not None:
                return before
        folder.begin(description.run, resume=resume, force=force)
        build = Build(embedder, source, folder, settings, description, report)
        build.read()
        check_unchanged(source, description.run["input"], folder)
        finished = build.finish(note)
        folder.check_free()
        folder.publish(build.work / TABLES)
    return build.summary(output, finished)


def check_embedder(embedder: Embedder) -> None:
    """Refuse a state in which a sentence's vectors are not its own."""
    if embedder.state == "carry":
        raise InputError(
            "in state 'carry' the vectors of a sentence depend on those before it, which a "
            "question has not; use 'zero' or 'warm'"
        )


def check_target(output: str | Path, *, resume: bool, force: bool) -> None:
    """Refuse a place that cannot become an index, before anything is computed for it."""
    if is_address(output):
        raise InputError(
            f"{output}: is an address of object storage; build the index in a folder, then copy "
            "it there"
        )
    folder = RunFolder.beside(output)
    assert folder.output is not None
    with disk_errors(Path(output), "written"):
        if is_taken(folder.output) and not is_index(folder.output):
            raise InputError(f"{output}: is there, and is not an index; choose another name")
    folder.check_output(resume=resume, force=force)
    folder.check_unfinished(resume=resume, force=force)


def finished_before(
    folder: RunFolder, output: str | Path, description: IndexDescription, *, streamed: bool
) -> BuildSummary | None:
    """What is to be told of an index that this run has finished before.

    None where there is something left to do; an index of another run is refused.
    """
    assert folder.output is not None
    if not is_index(folder.output) or (folder.folder / TABLES).exists():
        return None
    found = read_description(folder.output)
    if streamed or as_stored(found.run) != as_stored(description.run):
        why = "nothing can tell whether from the same text" if streamed else "of another run"
        raise InputError(
            f"{output}: is whole already, and {why}; choose another name, or force it (--force)"
        )
    if folder.holds_work():  # a kill came after the index got its name
        folder.remove()
    return BuildSummary(
        str(output),
        found.sentences,
        found.occurrences,
        found.forms,
        vector_index=found.vector_index,
        already_finished=True,
    )


def description_of(
    embedder: Embedder, settings: IndexSettings, source: Input, model: str
) -> IndexDescription:
    """What the index is to say of itself, before anything is counted."""
    lancedb = import_lancedb()
    layers = layer_names(settings.layers, embedder.config)
    fingerprint = embedder.fingerprint()
    run = {
        "engine": "neighbours",
        "input": source.identity(),
        "model": fingerprint,
        "state": [embedder.state, embedder.warm_runs],
        "precision": embedder.precision,
        "settings": settings.to_dict() | {"layers": layers},
    }
    return IndexDescription(
        model=model,
        fingerprint=fingerprint,
        state=embedder.state,
        tokenizer=embedder.tokenizer.name,
        layers=layers,
        vector_size=embedder.vector_size,
        versions={"elmokit": __version__, "lancedb": lancedb.__version__},
        run=as_stored(run),
    )
