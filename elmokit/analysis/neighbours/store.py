"""Index of occurrences on disk: LanceDB tables of words with their vectors, sentences and forms.

A table is read where it is used, so that it may be larger than memory. What is added to one is
there completely or not at all, whenever the process is killed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.senses import Occurrence, evenly
from elmokit.errors import DiskError, ElmoError, FormatError, InputError, MissingFileError
from elmokit.io.files import disk_errors, read_object, write_json
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder, is_taken
from elmokit.system import counted, import_extra
from elmokit.text.tokenizer import LONE_SURROGATE

Location = str | Path  # a folder, or a URL of object storage such as s3://bucket/news.index
Halves = NDArray[np.float16]

DISK_FULL = ("No space left", "os error 28", "Disk quota", "os error 122", "File too large")


def is_url(location: Location) -> bool:
    """Whether a location is one of object storage, not a folder.

    >>> is_url("s3://bucket/news.index"), is_url("news.index")
    (True, False)
    """
    return "://" in str(location)


def import_lancedb() -> Any:
    """LanceDB, where it is installed; of its own accord it tells of nothing but errors."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    return import_extra("lancedb", "analysis")


def connect(location: Location) -> Any:
    """The database of a folder, or of a URL; what gives access to that is in the environment.

    https://docs.lancedb.com/storage/configuration says which variables these are.
    """
    return import_lancedb().connect(location)


@contextmanager
def table_errors(location: Location) -> Iterator[None]:
    """Turn an error of the tables into one line."""
    try:
        yield
    except ElmoError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        if any(sign in str(error) for sign in DISK_FULL):
            raise DiskError(
                f"{location}: cannot be written ({why}); free some space or choose another disk"
            ) from error
        advice = "build the index again (--force)"
        if is_url(location):
            advice = "check the URL, and what gives access to it"
        raise FormatError(f"{location}: its tables cannot be used ({why}); {advice}") from error


def storable(words: Sequence[str]) -> list[str]:
    """Words as UTF-8 can hold them."""
    return [LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", word) for word in words]


def form_of(word: str) -> str:
    """The form by which a word is found in any case.

    >>> form_of("Play")
    'play'
    """
    return word.lower()


DESCRIPTION = "index.json"
TABLE, TEXT = "description", "text"
"""The same as a table of one text, for those who read it from object storage."""
FORMAT, VERSION = "elmokit-neighbours", 1


@dataclass(frozen=True)
class IndexDescription:
    """What an index was made of, and how."""

    model: str  # what it was called
    fingerprint: str  # what its vectors depend on (`Embedder.fingerprint`)
    state: str  # in which sentences were read
    tokenizer: str  # what splits raw text, in the corpus and in questions
    layers: tuple[str, ...]  # whose vectors are stored, by name: "0", "1", …, "average"
    vector_size: int
    sentences: int = 0  # different ones
    occurrences: int = 0  # words in them
    forms: int = 0  # different words, capitals or not
    vector_index: bool = False  # whether vectors are found by an index; else all are compared
    versions: Mapping[str, str] = field(default_factory=dict)  # of the programs that made it
    run: Mapping[str, Any] = field(default_factory=dict)  # the same run makes the same index

    def column(self, layer: str | int | None) -> str:
        """The name of a layer that is stored; without one, the last of them."""
        if layer is None:
            return self.layers[-1]
        if str(layer) not in self.layers:
            raise InputError(
                f"layer {layer} is not in the index, which has {', '.join(self.layers)}; choose "
                "one of them, or build an index with it (--layers)"
            )
        return str(layer)


def write_description(folder: Path, description: IndexDescription) -> None:
    """Write what an index says of itself: the file comes last, when all the rest is there."""
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

    values = {"format": FORMAT, "version": VERSION, **asdict(description)}
    with table_errors(folder):
        database = connect(folder)
        database.drop_table(TABLE, ignore_missing=True)
        database.create_table(TABLE, pa.table({TEXT: [json.dumps(values)]}))
    write_json(folder / DESCRIPTION, values)


def read_description(location: Location) -> IndexDescription:
    """Read what an index says of itself; raise where there is none."""
    if is_url(location):
        with table_errors(location):
            values = json.loads(connect(location).open_table(TABLE).to_arrow()[TEXT][0].as_py())
    elif is_index(Path(location)):
        values = read_object(Path(location) / DESCRIPTION)
    else:
        kind, wrong = (
            (InputError, "is not an index of occurrences")
            if Path(location).exists()
            else (MissingFileError, "is not there")
        )
        raise kind(f"{location}: {wrong}; name a folder that `elmo neighbours build` has made")
    found = values.pop("format", None), values.pop("version", None)
    if found != (FORMAT, VERSION):
        raise FormatError(
            f"{location}: is {found[0]} of version {found[1]}, not {FORMAT} of version {VERSION}; "
            "build the index again"
        )
    try:
        return IndexDescription(**(values | {"layers": tuple(values["layers"])}))
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{location}: its description is damaged ({error}); build the index again"
        ) from error


def is_index(folder: Path) -> bool:
    """Whether a folder is an index."""
    return (folder / DESCRIPTION).is_file()


LAYER = "layer_"  # begins the name of a column of vectors
OCCURRENCES, SENTENCES, FORMS = "occurrences", "sentences", "forms"
DISTANCE, ROW = "_distance", "_rowid"
ROWS_WITHOUT_VECTOR_INDEX = 100_000
"""Up to these all vectors are compared, which takes no longer than the rest of a query."""
VECTORS_PER_PARTITION = 2048
PARTITIONS_ASKED = 32
REFINED = 10  # so many times the wanted vectors are compared again as they are, not as their codes
TRAINING_ROUNDS = 20
TRAINING_VECTORS = 64  # per partition. Compared in float16, which most CPUs cannot, they take long.
SIGNS_PER_BYTE = 8
JUST_NOW = timedelta(milliseconds=1)


def check_target(output: str | Path, *, resume: bool, force: bool) -> None:
    """Raise where an output cannot become an index, before anything is computed for it."""
    if is_url(output):
        raise InputError(
            f"{output}: is a URL of object storage; build the index in a folder, then copy it there"
        )
    folder = RunFolder.beside(output)
    assert folder.output is not None
    with disk_errors(Path(output), "written"):
        if is_taken(folder.output) and not is_index(folder.output):
            raise InputError(f"{output}: is there, and is not an index; choose another name")
    folder.check_output(resume=resume, force=force)


class Occurrences(NamedTuple):
    """Words at places of sentences, with their vectors."""

    words: Sequence[str]
    sentences: NDArray[np.int64]  # (occurrences,): the number of the sentence of each
    positions: NDArray[np.int32]  # (occurrences,)
    vectors: Mapping[str, Halves]  # (occurrences, size) for each layer by name


class Hit(NamedTuple):
    """A place that was found, and how near it is."""

    sentence: int
    position: int
    cosine: float


class OccurrenceStore:
    """The tables in a folder, or on object storage.

    A new store needs the layers of its description and their size; `finish` writes all else.
    """

    def __init__(
        self, location: Location, description: IndexDescription, *, create: bool = False
    ) -> None:
        self.location = location
        self.description = description
        with table_errors(self.location):
            self._database = connect(location)
            if create:
                self._create()
            self._occurrences = self._database.open_table(OCCURRENCES)
            self._sentences = self._database.open_table(SENTENCES)

    def _create(self) -> None:
        import pyarrow as pa

        vector = pa.list_(pa.float16(), self.description.vector_size)
        columns = [("word", pa.string()), ("form", pa.string())]
        columns += [("sentence", pa.int64()), ("position", pa.int32())]
        columns += [(LAYER + layer, vector) for layer in self.description.layers]
        words = [("sentence", pa.int64()), ("words", pa.list_(pa.string()))]
        self._database.create_table(OCCURRENCES, schema=pa.schema(columns))
        self._database.create_table(SENTENCES, schema=pa.schema(words))

    def add(self, first: int, sentences: Sequence[Sequence[str]], occurrences: Occurrences) -> None:
        """Add sentences, numbered from `first` on, and the occurrences of their words."""
        import pyarrow as pa

        numbers = np.arange(first, first + len(sentences), dtype=np.int64)
        texts = {"sentence": numbers, "words": [list(words) for words in sentences]}
        columns: dict[str, Any] = {
            "word": list(occurrences.words),
            "form": [form_of(word) for word in occurrences.words],
            "sentence": occurrences.sentences,
            "position": occurrences.positions,
        }
        for layer in self.description.layers:
            values = pa.array(np.ascontiguousarray(occurrences.vectors[layer]).ravel())
            columns[LAYER + layer] = pa.FixedSizeListArray.from_arrays(
                values, self.description.vector_size
            )
        with table_errors(self.location):
            self._sentences.add(pa.table(texts, schema=self._sentences.schema))
            self._occurrences.add(pa.table(columns, schema=self._occurrences.schema))

    def keep_only(self, sentences: int) -> None:
        """Forget what belongs to sentences that are numbered from `sentences` on."""
        with table_errors(self.location):
            for table in (self._occurrences, self._sentences):
                table.delete(f"sentence >= {sentences}")

    def counts(self) -> tuple[int, int]:
        """How many sentences and occurrences there are."""
        with table_errors(self.location):
            return self._sentences.count_rows(), self._occurrences.count_rows()

    def finish(self, index_above: int, observer: Observer) -> IndexDescription:
        """Bring the tables in order, index them, and write what they are.

        Done again after it was cut short, it comes to the same. The vectors of a layer are indexed
        where there are more than `index_above`.
        """
        note = observer.note
        note("the tables are brought in order")
        self._tidy()
        forms = self._count_forms()
        self._index_words()
        sentences, count = self.counts()
        if count > index_above:
            for layer in self.description.layers:
                note(f"the vectors of layer {layer} of {counted(count, 'occurrence')} are indexed")
                self._index_vectors(layer, count)
        self._tidy()  # of what a run that was cut short here before has left
        self.description = replace(
            self.description,
            sentences=sentences,
            occurrences=count,
            forms=forms,
            vector_index=count > index_above,
        )
        write_description(Path(self.location), self.description)
        return self.description

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

        All vectors are compared where `exact`, and those of a `form` if one is given. Else so many
        partitions of the vector index are looked into, and `refined` times `limit` vectors are
        compared as they are, not as their codes.
        """
        with table_errors(self.location):
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

    def places(
        self, form: str, layer: str, most: int
    ) -> tuple[list[Occurrence], NDArray[np.float32], int]:
        """At most `most` occurrences of a form, taken evenly, their vectors; how many there are."""
        with table_errors(self.location):
            found = (
                self._occurrences.search()
                .where(f"form = {quoted(form)}")
                .select(["sentence"])
                .with_row_id(True)
                .to_arrow()
            )
            rows = np.sort(found[ROW].to_numpy()).tolist()
            columns = ["sentence", "position", LAYER + layer]
            query = self._occurrences.take_row_ids(evenly(rows, most)).select(columns)
            taken = query.to_arrow().sort_by([(name, "ascending") for name in columns[:2]])
        vectors = taken[LAYER + layer].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        numbers = taken["sentence"].to_pylist()
        texts = self.sentences(numbers)
        occurrences = [
            Occurrence(texts[number], position)
            for number, position in zip(numbers, taken["position"].to_pylist(), strict=True)
        ]
        vectors = vectors.reshape(-1, self.description.vector_size).astype(np.float32)
        return occurrences, vectors, len(rows)

    def sentences(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The words of some sentences, by their numbers."""
        wanted = ", ".join(map(str, {-1, *numbers}))  # a list must not be empty
        with table_errors(self.location):
            rows = self._sentences.search().where(f"sentence IN ({wanted})").to_arrow()
        words = map(tuple, rows["words"].to_pylist())
        return dict(zip(rows["sentence"].to_pylist(), words, strict=True))

    def count_of(self, form: str) -> int:
        """How often a form occurs."""
        with table_errors(self.location):
            return self._occurrences.count_rows(f"form = {quoted(form)}")

    def forms(self) -> list[str]:
        """All forms, frequent ones first."""
        with table_errors(self.location):
            return self._database.open_table(FORMS).to_arrow()["form"].to_pylist()

    def _tidy(self) -> None:
        """Join small pieces of tables, and remove what nothing refers to any more."""
        with table_errors(self.location):
            for table in (self._occurrences, self._sentences):
                table.optimize(cleanup_older_than=JUST_NOW, delete_unverified=True)

    def _count_forms(self) -> int:
        """Keep all forms, frequent ones first; memory is for the forms, not for the occurrences."""
        import pyarrow as pa

        counts = Counter[str]()
        with table_errors(self.location):
            for batch in self._occurrences.search().select(["form"]).to_batches():
                counts.update(batch["form"].to_pylist())
            ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            rows = [{"form": form, "count": count} for form, count in ordered]
            schema = pa.schema([("form", pa.string()), ("count", pa.int64())])
            self._database.drop_table(FORMS, ignore_missing=True)
            self._database.create_table(FORMS, pa.Table.from_pylist(rows, schema))
        return len(ordered)

    def _index_words(self) -> None:
        """So that the occurrences of a form, and sentences, are found at once."""
        from lancedb.index import BTree

        with table_errors(self.location):
            self._occurrences.create_index("form", config=BTree(), replace=True)
            self._sentences.create_index("sentence", config=BTree(), replace=True)

    def _index_vectors(self, layer: str, count: int) -> None:
        """Part the vectors of a layer by their directions, a bit for each of their values."""
        from lancedb.index import IvfFlat, IvfRq

        kind = IvfFlat if self.description.vector_size % SIGNS_PER_BYTE else IvfRq
        config = kind(
            distance_type="cosine",
            num_partitions=max(1, count // VECTORS_PER_PARTITION),
            max_iterations=TRAINING_ROUNDS,
            sample_rate=TRAINING_VECTORS,
        )
        with table_errors(self.location):
            self._occurrences.create_index(LAYER + layer, config=config, replace=True)


def quoted(text: str) -> str:
    """A text as a filter has it.

    >>> print(quoted("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"
