"""One run over a corpus: part by part into the tables, with a record behind each."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from elmokit.analysis.neighbours.description import Description, write_description
from elmokit.analysis.neighbours.rows import Halves, Occurrences, storable
from elmokit.analysis.neighbours.settings import IndexSettings
from elmokit.analysis.neighbours.store import Note, OccurrenceStore
from elmokit.analysis.neighbours.summary import BuildSummary
from elmokit.bulk.compute import Computer
from elmokit.bulk.duplicates import Occurrence, Seen
from elmokit.bulk.inputs import Input, Place
from elmokit.bulk.pipeline import cut, tokens_per_part
from elmokit.bulk.spool import End, Finished, Part, Spool
from elmokit.bulk.summary import Progress, Report
from elmokit.embedder import Embedder
from elmokit.errors import FormatError
from elmokit.formats.files import disk_errors, write_atomically
from elmokit.formats.json_files import read_object, write_object
from elmokit.prefetch import prefetch
from elmokit.reductions import Vectors
from elmokit.static.angles import unit

TABLES, DONE = "index", "done.json"


class Build:
    """One run from its first or next part to its last.

    Args:
        embedder: The model.
        source: The sentences.
        spool: The folder of the work.
        settings: What is kept.
        description: What the index is to say of itself.
        report: Told how far the work is.
    """

    def __init__(
        self,
        embedder: Embedder,
        source: Input,
        spool: Spool,
        settings: IndexSettings,
        description: Description,
        report: Report | None,
    ) -> None:
        self.embedder = embedder
        self.source = source
        self.settings = settings
        self.description = description
        self.report = report
        self.work = spool.folder
        self.computer = Computer(embedder, layers="all")
        self.computer.progress = self.tell_batch
        self.finished = finished_parts(self.work)
        self.totals = Counter(self.finished.totals)
        self.store = self.open_store()
        self.words_here = 0
        self._in_part = Counter[str]()
        self._position = self.finished.position
        self._started = time.perf_counter()

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
                f"{self.work}: has not what its record says, as after a power cut; begin anew "
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
                self.add(part, seen)
                self.count(part)
                self.record(part)
                self.tell(part.position)

    def add(self, part: Part, seen: Seen) -> None:
        """Add the sentences of a part that were not there before."""
        sentences = [record.words for record in part.records if record.words]
        distinct = {" ".join(words): words for words in sentences}
        found = seen.find(list(distinct))
        new = {text: words for text, words in distinct.items() if text not in found}
        seen.add((text, Occurrence(part.number, number)) for number, text in enumerate(new))
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

    def count(self, part: Part) -> None:
        """Add what was read of a part to the totals."""
        self._in_part.clear()
        words = sum(len(record.words) for record in part.records)
        self.words_here += words
        self.totals.update(sentences=len(part.records), words=words)

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

    def finish(self, note: Note | None) -> Description:
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

    def summary(self, output: str | Path, description: Description) -> BuildSummary:
        """What was read and kept."""
        seconds = time.perf_counter() - self._started
        return BuildSummary(
            str(output),
            description.sentences,
            description.occurrences,
            description.forms,
            words_read=self.totals["words"],
            duplicates=self.totals["duplicates"],
            vector_index=description.vector_index,
            seconds=seconds,
            words_per_second=self.words_here / seconds if seconds else 0.0,
        )

    def tell_batch(self, sentences: int, words: int) -> None:
        """Report, in the middle of a part, that some more of its sentences are computed."""
        self._in_part.update(sentences=sentences, words=words)
        self.tell(self._position)

    def tell(self, position: int) -> None:
        """Report how far the work is."""
        self._position = position
        if self.report is None:
            return
        self.report(
            Progress(
                sentences=self.totals["sentences"] + self._in_part["sentences"],
                words=self.totals["words"] + self._in_part["words"],
                words_here=self.words_here + self._in_part["words"],
                seconds=time.perf_counter() - self._started,
                first_position=self.finished.position,
                position=position,
                size=self.source.position()[1],
                known_words=self.embedder.cache_hit_rate,
            )
        )


def finished_parts(work: Path) -> Finished:
    """What the parts that are in the tables come to."""
    if not (work / DONE).exists():
        return Finished()
    done = read_object(work / DONE)
    place, taken = done["end"]
    return Finished(done["parts"], End(Place(*place), taken), done["position"], done["totals"])


def direction(layers: Vectors, name: str) -> Halves:
    """The vectors of a layer, or the average, of (words, layers, size): of length 1, in float16.

    Only directions are compared; at length 1 none is beyond float16's range.
    """
    vectors = layers.mean(1) if name == "average" else layers[:, int(name)]
    return unit(vectors).astype(np.float16)
