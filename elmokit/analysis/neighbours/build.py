"""Build of an index of occurrences, in constant memory, losing nothing when it is cut short.

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
    IndexDescription,
    Occurrences,
    OccurrenceStore,
    check_target,
    form_of,
    import_lancedb,
    is_index,
    read_description,
    storable,
)
from elmokit.bulk.compute import Computer, Tally
from elmokit.bulk.inputs import Input, RecordPlace, input_of
from elmokit.bulk.parts import End, Finished, Part, Seen, cut
from elmokit.bulk.pipeline import check_not_input, check_unchanged, tokens_per_part
from elmokit.errors import FormatError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import LayerChoice
from elmokit.io.files import disk_errors, read_object, write_json
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder, check_same
from elmokit.static.vectors import unit
from elmokit.system import counted, prefetch


@dataclass(frozen=True)
class IndexSettings:
    """What is stored of a corpus.

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
        if self.words is None:
            return asdict(self)
        text = "\n".join(sorted(self.words)).encode("utf-8", "surrogatepass")
        return asdict(self) | {"words": hashlib.sha256(text).hexdigest()}


@dataclass(frozen=True)
class BuildSummary:
    """What was read and stored."""

    output: str
    sentences: int  # different ones that are stored
    occurrences: int
    forms: int
    words_read: int = 0
    duplicates: int = 0  # sentences that were there before
    vector_index: bool = False
    seconds: float = 0.0
    words_per_second: float = 0.0
    already_finished: bool = False

    @classmethod
    def of(cls, output: str | Path, index: IndexDescription, **more: Any) -> BuildSummary:
        """What an index holds, and `more` of the run that made it."""
        names = ("sentences", "occurrences", "forms", "vector_index")
        return cls(str(output), **{name: getattr(index, name) for name in names}, **more)

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
    """One run in the folder `work`, from its first or next part to its last."""

    def __init__(
        self,
        embedder: Embedder,
        source: Input,
        work: Path,
        settings: IndexSettings,
        description: IndexDescription,
        observer: Observer,
    ) -> None:
        self.source = source
        self.observer = observer
        self.settings = settings
        self.work = work
        self.computer = Computer(embedder, layers="all")
        self.finished = finished_parts(work)
        self.tally = Tally(
            self.finished.totals,
            self.finished.position,
            observer,
            embedder.token_cache,
        )
        self.computer.progress = self.tally.end_batch
        self.totals = self.tally.totals
        self.store = self.open_store(description)

    def open_store(self, description: IndexDescription) -> OccurrenceStore:
        """The tables as they were after the last part that is finished."""
        tables = self.work / TABLES
        if not self.finished.parts:  # a kill may have come before they were complete
            shutil.rmtree(tables, ignore_errors=True)
        with disk_errors(tables, "written"):
            tables.mkdir(exist_ok=True)
        store = OccurrenceStore(tables, description, create=not self.finished.parts)
        store.keep_only(self.totals["kept"])
        if store.counts() != (self.totals["kept"], self.totals["occurrences"]):
            raise FormatError(
                f"{self.work}: has not what its record says, as after a power cut; begin again "
                "(--force)"
            )
        return store

    def read(self) -> None:
        """Store all parts that are missing."""
        parts = prefetch(cut(self.source, self.finished, tokens_per_part(self.computer)))
        with (
            self.observer.stage("indexing", "byte", self.source.size, self.finished.position),
            closing(parts),  # type: ignore[type-var]
            closing(Seen(self.work, self.finished.parts)) as seen,
        ):
            for part in parts:
                self.tally.part = part
                self.add(part, seen)
                counts = {"sentences": len(part.sentences), "words": part.words}
                self.tally.end_part(counts, part.bytes)
                self.record(part)

    def add(self, part: Part, seen: Seen) -> None:
        """Add the sentences of a part that were not there before."""
        sentences = [words for words in part.sentences if words]
        distinct = {" ".join(words): words for words in sentences}
        found = seen.find(list(distinct))
        new = {text: words for text, words in distinct.items() if text not in found}
        seen.add((text, part.number, number) for number, text in enumerate(new))
        kept = [words for words in new.values() if any(self.settings.keeps(word) for word in words)]
        self.totals["duplicates"] += len(sentences) - len(new)
        if kept:
            occurrences = self.occurrences_of(kept)
            self.store.add(self.totals["kept"], list(map(storable, kept)), occurrences)
            self.totals.update(kept=len(kept), occurrences=len(occurrences.words))

    def occurrences_of(self, sentences: Sequence[Sequence[str]]) -> Occurrences:
        """The words that are kept, their vectors at length 1, which float16 has room for."""
        places = [
            [position for position, word in enumerate(words) if self.settings.keeps(word)]
            for words in sentences
        ]
        arrays = zip(self.computer.compute(sentences), places, strict=True)
        layers = np.concatenate([array[:, chosen] for array, chosen in arrays], axis=1)
        numbers = self.totals["kept"] + np.arange(len(sentences))
        chosen_of = zip(sentences, places, strict=True)
        return Occurrences(
            storable([words[position] for words, chosen in chosen_of for position in chosen]),
            np.repeat(numbers, [len(chosen) for chosen in places]),
            np.concatenate(places).astype(np.int32),
            {
                name: unit(LayerChoice(name, len(layers)).of(layers)).astype(np.float16)
                for name in self.store.description.layers
            },
        )

    def record(self, part: Part) -> None:
        """Say that a part is in the tables: from now on it stays."""
        done = {
            "parts": part.number + 1,
            "end": part.end,
            "position": part.position,
            "totals": dict(self.totals),
        }
        write_json(self.work / DONE, done)

    def summary(self, output: str | Path) -> BuildSummary:
        """What was read and stored."""
        seconds = time.perf_counter() - self.tally.started
        return BuildSummary.of(
            output,
            self.store.description,
            words_read=self.totals["words"],
            duplicates=self.totals["duplicates"],
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


def build_index(
    embedder: Embedder,
    source: Input | str | Path | Sequence[str | Path],
    output: str | Path,
    settings: IndexSettings | None = None,
    *,
    model: str = "",
    resume: bool = False,
    force: bool = False,
    observer: Observer | None = None,
    **choices: Any,
) -> BuildSummary:
    """Store every occurrence of every word of an input in an index, with its vectors.

    Arguments are as of `embed_files`; `settings` say what is stored, `choices` are fields of theirs
    and of `TextSettings`, and `model` is what to call the model.
    """
    source = input_of(source, embedder.tokenizer, choices)
    settings = replace(settings or IndexSettings(), **choices)
    if embedder.state == "carry":
        raise InputError(
            "in state 'carry' the vectors of a sentence depend on those before it, which a "
            "question has not; use 'zero' or 'warm'"
        )
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
        observer = observer or Observer()
        build = Build(embedder, source, folder.folder, settings, description, observer)
        build.read()
        check_unchanged(source, description.run["input"], folder)
        build.store.finish(settings.index_above, observer)
        folder.check_free()
        folder.publish(build.work / TABLES)
    return build.summary(output)


def finished_before(
    folder: RunFolder, output: str | Path, description: IndexDescription, *, streamed: bool
) -> BuildSummary | None:
    """What to tell of an index that this run finished before; one of another run is an error."""
    assert folder.output is not None
    if not is_index(folder.output) or (folder.folder / TABLES).exists():
        return None
    advice = "choose another name, or force it (--force)"
    if streamed:
        raise InputError(
            f"{output}: is complete already, and nothing can tell whether from the same text; "
            f"{advice}"
        )
    found = read_description(folder.output)
    check_same(found.run, description.run, Path(output), advice)
    if folder.holds_work():  # a kill came after the index got its name
        folder.remove()
    return BuildSummary.of(output, found, already_finished=True)


def description_of(
    embedder: Embedder, settings: IndexSettings, source: Input, model: str
) -> IndexDescription:
    """What the index is to say of itself, before anything is counted."""
    layers = layer_names(settings.layers, embedder.config.layer_count)
    fingerprint = embedder.fingerprint()
    return IndexDescription(
        model=model,
        fingerprint=fingerprint,
        state=embedder.state,
        tokenizer=embedder.tokenizer.name,
        layers=layers,
        vector_size=embedder.vector_size,
        versions={"elmokit": __version__, "lancedb": import_lancedb().__version__},
        run={
            "engine": "neighbours",
            "input": source.identity(),
            "model": fingerprint,
            "state": [embedder.state, embedder.warm_runs],
            "precision": embedder.precision,
            "settings": settings.to_dict() | {"layers": layers},
        },
    )


def layer_names(layers: str, count: int) -> tuple[str, ...]:
    """The layers that a flag names, in their order: "all", or "top", "average", 0, 1 by commas."""
    known = [*map(str, range(count)), "average"]
    asked = known[:-1] if layers == "all" else [name.strip() for name in layers.split(",")]
    names = {known[-2] if name == "top" else name for name in asked}
    if not names.issubset(known):
        raise InputError(
            f"layers is {layers!r}; use all, or some of top, {', '.join(known)} with commas between"
        )
    return tuple(name for name in known if name in names)
