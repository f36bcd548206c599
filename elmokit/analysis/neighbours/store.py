"""Occurrences on disk: LanceDB tables of words with their vectors, of sentences and of forms.

A table is read where it is used, so that it may be larger than memory. What is added to one is
there as a whole or not at all, whenever the process is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.neighbours.lance import Location, connect, table_errors
from elmokit.analysis.neighbours.rows import (
    LAYER,
    Occurrences,
    matrix_of,
    occurrence_rows,
    occurrence_schema,
    sentence_rows,
    sentence_schema,
)
from elmokit.plurals import counted

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

Note = Callable[[str], None]

OCCURRENCES, SENTENCES, FORMS = "occurrences", "sentences", "forms"
DISTANCE, ROW = "_distance", "_rowid"
ROWS_WITHOUT_VECTOR_INDEX = 100_000
"""Up to these all vectors are compared, which takes no longer than the rest of a query."""
VECTORS_PER_PARTITION = 2048
PARTITIONS_ASKED = 32
REFINED = 10
"""So many times the wanted vectors are compared again as they are, not as their codes."""
TRAINING_ROUNDS = 20
TRAINING_VECTORS = 64
"""Per partition. Compared in float16, which most processors cannot, they take long."""
SIGNS_PER_BYTE = 8
ASKED_AT_ONCE = 1000
JUST_NOW = timedelta(milliseconds=1)


class Hit(NamedTuple):
    """A place that was found, and how near it is."""

    sentence: int
    position: int
    cosine: float


class Places(NamedTuple):
    """Occurrences of a form, (occurrences,) each, and how many there are in all."""

    sentences: NDArray[np.int64]
    positions: NDArray[np.int64]
    vectors: NDArray[np.float32]  # (occurrences, size)
    total: int


class OccurrenceStore:
    """The tables in a folder, or on object storage.

    Args:
        location: Where they are, or are to be.
        sizes: The size of the vectors of each layer, by name.
        create: Make them; else they are there.
    """

    def __init__(
        self, location: Location, sizes: Mapping[str, int], *, create: bool = False
    ) -> None:
        self.location = location
        self.sizes = dict(sizes)
        with self._errors():
            self._database = connect(location)
            if create:
                self._database.create_table(OCCURRENCES, schema=occurrence_schema(sizes))
                self._database.create_table(SENTENCES, schema=sentence_schema())
            self._occurrences = self._database.open_table(OCCURRENCES)
            self._sentences = self._database.open_table(SENTENCES)

    def add(self, first: int, sentences: Sequence[Sequence[str]], occurrences: Occurrences) -> None:
        """Add sentences, numbered from `first` on, and the occurrences of their words."""
        if not sentences:
            return
        with self._errors():
            self._sentences.add(sentence_rows(first, sentences))
            self._occurrences.add(occurrence_rows(occurrences, self.sizes))

    def keep_only(self, sentences: int) -> None:
        """Forget what belongs to sentences that are numbered from `sentences` on."""
        with self._errors():
            for table in (self._occurrences, self._sentences):
                table.delete(f"sentence >= {sentences}")

    def counts(self) -> tuple[int, int]:
        """How many sentences and occurrences there are."""
        with self._errors():
            return self._sentences.count_rows(), self._occurrences.count_rows()

    def finish(self, index_above: int = ROWS_WITHOUT_VECTOR_INDEX, note: Note | None = None) -> int:
        """Bring the tables in order, and index them; give how many forms there are.

        Done again after it was cut short, it comes to the same. The vectors of a layer are indexed
        where there are more than `index_above`.
        """
        say = note or (lambda text: None)
        say("the tables are brought in order")
        self._tidy()
        forms = self._count_forms()
        self._index_words()
        count = self.counts()[1]
        if count > index_above:
            for layer, size in self.sizes.items():
                say(f"the vectors of layer {layer} of {counted(count, 'occurrence')} are indexed")
                self._index_vectors(layer, size, count)
        self._tidy()  # of what a run that was cut short here before has left
        return forms

    def nearest(
        self,
        layer: str,
        vector: NDArray[np.float32],
        limit: int,
        *,
        form: str | None = None,
        exact: bool = False,
        partitions: int = PARTITIONS_ASKED,
        refined: int = REFINED,
    ) -> list[Hit]:
        """The occurrences nearest to a vector (size,), the nearest first.

        Args:
            layer: Whose vectors are compared.
            vector: What they are compared with.
            limit: The most that are wanted.
            form: Only occurrences of this form; all of them are compared.
            exact: Compare all vectors, without the vector index.
            partitions: How many parts of the vector index are looked into.
            refined: How many times `limit` are compared as they are, not as their codes.
        """
        with self._errors():
            query = (
                self._occurrences.search(vector, vector_column_name=LAYER + layer)
                .distance_type("cosine")
                .select(["sentence", "position", DISTANCE])
                .limit(limit)
            )
            if form is not None:
                query = query.where(f"form = {quoted(form)}", prefilter=True)
            if exact or form is not None:  # a filter would lose results of a vector index
                query = query.bypass_vector_index()
            else:
                query = query.nprobes(partitions).refine_factor(refined)
            rows = query.to_arrow()
        columns = (rows[name].to_pylist() for name in ("sentence", "position", DISTANCE))
        return [
            Hit(sentence, position, 1.0 - distance)
            for sentence, position, distance in zip(*columns, strict=True)
        ]

    def places(self, form: str, layer: str, most: int) -> Places:
        """The occurrences of a form with their vectors; `most` of them, evenly taken, if more."""
        with self._errors():
            found = (
                self._occurrences.search()
                .where(f"form = {quoted(form)}")
                .select(["sentence"])
                .with_row_id(True)
                .to_arrow()
            )
            rows = np.sort(found[ROW].to_numpy())
            chosen = rows[evenly(len(rows), most)]
            taken = self._rows_of(chosen, layer)
        order = np.lexsort((taken["position"].to_numpy(), taken["sentence"].to_numpy()))
        vectors = matrix_of(taken[LAYER + layer], self.sizes[layer])
        return Places(
            taken["sentence"].to_numpy()[order],
            taken["position"].to_numpy().astype(np.int64)[order],
            vectors[order],
            len(rows),
        )

    def sentences(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The words of some sentences, by their numbers."""
        wanted = sorted({int(number) for number in numbers})
        found: dict[int, tuple[str, ...]] = {}
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            some = ", ".join(map(str, wanted[start : start + ASKED_AT_ONCE]))
            with self._errors():
                rows = self._sentences.search().where(f"sentence IN ({some})").to_arrow()
            words = map(tuple, rows["words"].to_pylist())
            found |= zip(rows["sentence"].to_pylist(), words, strict=True)
        return found

    def count_of(self, form: str) -> int:
        """How often a form occurs."""
        with self._errors():
            return self._occurrences.count_rows(f"form = {quoted(form)}")

    def forms(self) -> list[str]:
        """All forms, frequent ones first."""
        with self._errors():
            return self._database.open_table(FORMS).to_arrow()["form"].to_pylist()

    def _rows_of(self, rows: NDArray[np.integer], layer: str) -> pa.Table:
        columns = ["sentence", "position", LAYER + layer]
        return self._occurrences.take_row_ids(rows.tolist()).select(columns).to_arrow()

    def _tidy(self) -> None:
        """Join small pieces of tables, and remove what nothing refers to any more."""
        with self._errors():
            for table in (self._occurrences, self._sentences):
                table.optimize(cleanup_older_than=JUST_NOW, delete_unverified=True)

    def _count_forms(self) -> int:
        """Keep all forms, frequent ones first; memory is for the forms, not for the occurrences."""
        import pyarrow as pa

        counts = Counter[str]()
        with self._errors():
            for batch in self._occurrences.search().select(["form"]).to_batches():
                counts.update(batch["form"].to_pylist())
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            rows = pa.table(
                {
                    "form": pa.array([form for form, _ in ordered], pa.string()),
                    "count": pa.array([count for _, count in ordered], pa.int64()),
                }
            )
            self._database.drop_table(FORMS, ignore_missing=True)
            self._database.create_table(FORMS, rows)
        return len(ordered)

    def _index_words(self) -> None:
        """So that the occurrences of a form, and sentences, are found at once."""
        from lancedb.index import BTree

        with self._errors():
            self._occurrences.create_index("form", config=BTree(), replace=True)
            self._sentences.create_index("sentence", config=BTree(), replace=True)

    def _index_vectors(self, layer: str, size: int, count: int) -> None:
        """Part the vectors of a layer by their directions, a bit for each of their values."""
        from lancedb.index import IvfFlat, IvfRq

        kind = IvfRq if size % SIGNS_PER_BYTE == 0 else IvfFlat
        config = kind(
            distance_type="cosine",
            num_partitions=max(1, count // VECTORS_PER_PARTITION),
            max_iterations=TRAINING_ROUNDS,
            sample_rate=TRAINING_VECTORS,
        )
        with self._errors():
            self._occurrences.create_index(LAYER + layer, config=config, replace=True)

    def _errors(self) -> AbstractContextManager[None]:
        return table_errors(self.location)


def quoted(text: str) -> str:
    """A text as a filter has it.

    >>> print(quoted("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"


def evenly(count: int, most: int) -> NDArray[np.intp]:
    """Places of at most so many of `count` things, evenly taken.

    >>> evenly(5, 9).tolist(), evenly(10, 4).tolist()
    ([0, 1, 2, 3, 4], [0, 2, 5, 7])
    """
    if count <= most:
        return np.arange(count)
    return np.arange(most) * count // most
