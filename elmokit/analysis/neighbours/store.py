"""Occurrences on disk: LanceDB tables of words with their vectors, of sentences and of forms.

A table is read where it is used, so that it may be larger than memory. What is added to one is
there as a whole or not at all, whenever the process is killed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.config import ModelConfig
from elmokit.errors import DiskError, FormatError, InputError
from elmokit.io.files import read_object, write_atomically, write_object
from elmokit.system import counted, import_extra
from elmokit.text.tokenizer import LONE_SURROGATE

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]


Location = str | Path
"""A folder, or an address of object storage such as s3://bucket/news.index."""

DISK_FULL = ("No space left", "os error 28", "Disk quota", "os error 122", "File too large")
TEXT = "text"
"""The only column of a table that holds a text."""


def is_address(location: Location) -> bool:
    """Whether a location is one of object storage, not a folder.

    >>> is_address("s3://bucket/news.index"), is_address("news.index")
    (True, False)
    """
    return "://" in str(location)


def import_lancedb() -> Any:
    """LanceDB, where it is installed; of its own accord it tells of nothing but errors."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    return import_extra("lancedb", "analysis")


def connect(location: Location) -> Any:
    """The database of a folder, or of an address; what gives access to that is in the environment.

    https://docs.lancedb.com/storage/configuration says which variables these are.
    """
    return import_lancedb().connect(location)


def write_text(location: Location, table: str, text: str) -> None:
    """Keep a text as a table of one row, in the place of an earlier one."""
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

    with table_errors(location):
        database = connect(location)
        database.drop_table(table, ignore_missing=True)
        database.create_table(table, pa.table({TEXT: [text]}))


def read_text(location: Location, table: str) -> str:
    """The text that `write_text` has kept."""
    with table_errors(location):
        return connect(location).open_table(table).to_arrow()[TEXT][0].as_py()


@contextmanager
def table_errors(location: Location) -> Iterator[None]:
    """Say in one line what the tables refuse."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        if any(sign in str(error) for sign in DISK_FULL):
            raise DiskError(
                f"{location}: cannot be written ({why}); free some space or choose another disk"
            ) from error
        advice = (
            "check the address, and what gives access to it"
            if is_address(location)
            else "build the index again (--force)"
        )
        raise FormatError(f"{location}: its tables cannot be used ({why}); {advice}") from error


Halves = NDArray[np.float16]

LAYER = "layer_"
"""Begins the name of a column of vectors."""


class Occurrences(NamedTuple):
    """Words at places of sentences, with their vectors."""

    words: Sequence[str]
    sentences: NDArray[np.int64]  # (occurrences,): the number of the sentence of each
    positions: NDArray[np.int32]  # (occurrences,)
    vectors: Mapping[str, Halves]  # (occurrences, size) for each layer by name


def occurrence_schema(sizes: Mapping[str, int]) -> pa.Schema:
    """The columns of the table of occurrences."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("word", pa.string()),
            pa.field("form", pa.string()),
            pa.field("sentence", pa.int64()),
            pa.field("position", pa.int32()),
            *(
                pa.field(LAYER + layer, pa.list_(pa.float16(), size))
                for layer, size in sizes.items()
            ),
        ]
    )


def sentence_schema() -> pa.Schema:
    """The columns of the table of sentences."""
    import pyarrow as pa

    return pa.schema([("sentence", pa.int64()), ("words", pa.list_(pa.string()))])


def sentence_rows(first: int, sentences: Sequence[Sequence[str]]) -> pa.Table:
    """Rows for the table of sentences."""
    import pyarrow as pa

    numbers = np.arange(first, first + len(sentences), dtype=np.int64)
    words = [list(sentence) for sentence in sentences]
    return pa.table({"sentence": numbers, "words": words}, schema=sentence_schema())


def occurrence_rows(occurrences: Occurrences, sizes: Mapping[str, int]) -> pa.Table:
    """Rows for the table of occurrences."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "word": list(occurrences.words),
        "form": [form_of(word) for word in occurrences.words],
        "sentence": occurrences.sentences,
        "position": occurrences.positions,
    }
    for layer, size in sizes.items():
        values = pa.array(np.ascontiguousarray(occurrences.vectors[layer]).ravel())
        columns[LAYER + layer] = pa.FixedSizeListArray.from_arrays(values, size)
    return pa.table(columns, schema=occurrence_schema(sizes))


def matrix_of(column: Any, size: int) -> NDArray[np.float32]:
    """A column of vectors as (rows, size)."""
    chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    values = np.concatenate(chunks) if chunks else np.empty(0, np.float16)
    return values.reshape(-1, size).astype(np.float32)


def storable(words: Sequence[str]) -> list[str]:
    """Words as UTF-8 can hold them."""
    return [LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", word) for word in words]


def form_of(word: str) -> str:
    """The form by which a word is found in any case.

    >>> form_of("Play")
    'play'
    """
    return word.lower()


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
"""Per partition. Compared in float16, which most CPUs cannot, they take long."""
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


DESCRIPTION = "index.json"
TABLE = "description"
"""The same as a table, for those who read it from object storage."""
FORMAT, VERSION = "elmokit-neighbours", 1
DIGITS_SHOWN = 12
UNNAMED = "a model without a name"


@dataclass(frozen=True)
class IndexDescription:
    """What an index was made of, and how.

    Attributes:
        model: What the model was called.
        fingerprint: What its vectors depend on (`Embedder.fingerprint`).
        state: In which state sentences were read.
        tokenizer: What splits raw text, in the corpus and in questions.
        layers: The layers whose vectors are kept, by name: "0", "1", …, "average".
        vector_size: Size of a vector.
        sentences: How many different sentences there are.
        occurrences: How many words in them.
        forms: How many different words, capitals or not.
        vector_index: Whether vectors are found by an index; else all are compared.
        versions: Of the programs that made it.
        run: What the run depended on: the same run makes the same index.
    """

    model: str
    fingerprint: str
    state: str
    tokenizer: str
    layers: tuple[str, ...]
    vector_size: int
    sentences: int = 0
    occurrences: int = 0
    forms: int = 0
    vector_index: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def column(self, layer: str | int | None) -> str:
        """The name of a layer that is kept; without one, the last of them."""
        if layer is None:
            return self.layers[-1]
        if str(layer) not in self.layers:
            raise InputError(
                f"layer {layer} is not in the index, which keeps {', '.join(self.layers)}; choose "
                "one of them, or build an index with it (--layers)"
            )
        return str(layer)


def write_description(folder: Path, description: IndexDescription) -> None:
    """Write what an index says of itself: the file comes last, when all the rest is there."""
    values = {"format": FORMAT, "version": VERSION, **asdict(description)}
    write_text(folder, TABLE, json.dumps(values))
    with write_atomically(folder / DESCRIPTION) as path:
        write_object(values, path)


def read_description(location: Location) -> IndexDescription:
    """Read what an index says of itself; refuse a location that has none."""
    values = (
        json.loads(read_text(location, TABLE))
        if is_address(location)
        else read_file(Path(location))
    )
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


def read_file(folder: Path) -> dict[str, Any]:
    """The description in a folder."""
    if not is_index(folder):
        there = "is no index of occurrences" if folder.exists() else "is not there"
        raise InputError(f"{folder}: {there}; name a folder that `elmo neighbours build` has made")
    return read_object(folder / DESCRIPTION)


def is_index(folder: Path) -> bool:
    """Whether a folder is an index."""
    return (folder / DESCRIPTION).is_file()


def as_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values as they are read back from JSON: tuples as lists."""
    return json.loads(json.dumps(values))


def named_model(name: str, fingerprint: str) -> str:
    """A model's name with the beginning of its fingerprint.

    >>> named_model("english-small", "0123456789abcdef")
    'english-small (0123456789ab)'
    """
    return f"{name or UNNAMED} ({fingerprint[:DIGITS_SHOWN]})"


def layer_names(layers: str, config: ModelConfig) -> tuple[str, ...]:
    """The layers that a flag names, in their order: "all", or "top", "average", 0, 1 by commas."""
    numbers = [str(number) for number in range(config.layer_count)]
    if layers == "all":
        return tuple(numbers)
    asked = [name.strip() for name in layers.split(",")]
    names = {str(config.lstm_layers) if name == "top" else name for name in asked}
    known = [*numbers, "average"]
    unknown = sorted(names.difference(known))
    if unknown:
        raise InputError(
            f"layers is {layers!r}; use all, or some of top, {', '.join(known)} with commas between"
        )
    return tuple(name for name in known if name in names)
