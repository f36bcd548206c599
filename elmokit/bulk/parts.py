"""Parts of a run: an input is cut into them, they are stored, and sentences are found in them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.bulk.inputs import Input, Record, RecordPlace
from elmokit.errors import DiskError, FormatError, InputError
from elmokit.inference.token_vectors import KnownWords
from elmokit.io.files import read_object, write_folder_atomically, write_object
from elmokit.jobs.run_folder import SEEN
from elmokit.vectors.items import Item

Array = NDArray[Any]

RECORD, SENTENCES, LEARNT, ARRAY = "record.json", "sentences.json", "learnt.json", ".npy"
VALUES, TOKEN_VECTORS, STATE = "values", "token_vectors", "state-"
NO_IDS = "NoneType"
ID_KINDS = {"str": "a text", "int": "a whole number", NO_IDS: "missing"}


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
    def words(self) -> int:
        """How many it has."""
        return sum(map(len, self.sentences))


def name_of_part(shard: int, number: int) -> str:
    """What the folder of a part is called; names are in the order of the input.

    >>> name_of_part(2, 31)
    'part-00002-00000031'
    """
    return f"part-{shard:05d}-{number:08d}"


class Finished(NamedTuple):
    """What the finished parts come to, from the first on."""

    parts: int = 0
    end: End | None = None
    position: int = 0
    totals: Mapping[str, int] = MappingProxyType({})
    ids: str | None = None  # their kind


def cut(source: Input, finished: Finished, tokens: int, shard: int = 0) -> Iterator[Part]:
    """Cut an input, behind what is finished, into parts of about so many tokens.

    Where it is cut depends on the text alone. Ids of another kind than the first, which Parquet
    could not hold, are an error.
    """
    position = finished.position
    records = behind(source, finished.end, finished.ids, shard)
    for number, group in enumerate(_grouped(records, tokens), finished.parts):
        read = source.position
        sentences, ids = [record.words for record, _ in group], [record.id for record, _ in group]
        yield Part(shard, number, sentences, ids, group[-1][1], read, read - position)
        position = read


def behind(
    source: Input, end: End | None, kind: str | None, shard: int
) -> Iterator[tuple[Record, End]]:
    """The records of an input behind an end, each with its own; ids must stay of one kind."""
    done = end.taken if end else 0
    place, taken = (end.place if end else None), 0
    for record in source.records(place):
        taken = taken + 1 if record.place == place else 1
        place = record.place
        if end is not None and place == end.place and taken <= done:
            continue
        found = type(record.id).__name__
        if kind is None and (record.id is not None or shard == 0):
            kind = found
        if kind is not None and found not in (kind, NO_IDS):
            raise InputError(
                f"{source.name_of(place)}, line {place.line}: its id is {ID_KINDS[found]}, the "
                f"first one is {ID_KINDS[kind]}; let the column hold one kind"
            )
        yield record, End(place, taken)


def _grouped(
    records: Iterable[tuple[Record, End]], tokens: int
) -> Iterator[list[tuple[Record, End]]]:
    group, room = [], tokens
    for record in records:
        group.append(record)
        room -= len(record[0].words) + 2  # a blank line takes its markers
        if room <= 0:
            yield group
            group, room = [], tokens
    if group:
        yield group


class PartStore:
    """Stored parts, a folder each: sentences, and arrays joined along their words, or stacked.

    Whenever a process is killed, the parts that are there are complete: the same run resumes
    behind them. Those of `pooled` sentences have no axis of words.
    """

    def __init__(self, folder: Path, *, pooled: bool) -> None:
        self.folder = folder
        self.pooled = pooled

    def names(self) -> list[str]:
        """Those of all parts, in order."""
        return sorted(path.parent.name for path in self.folder.glob(f"part-*/{RECORD}"))

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        return (self.folder / name / RECORD).exists()

    def add(
        self,
        part: Part,
        arrays: Sequence[Array],
        totals: Mapping[str, int],
        learnt: KnownWords | None = None,
        state: Mapping[str, Array] | None = None,
    ) -> dict[str, Any]:
        """Store a part, complete or not at all; give its record.

        `totals` is what was counted of its sentences, `learnt` the words that were first met in it,
        `state` what state `carry` remembers after it.
        """
        record = {name: getattr(part, name) for name in ("shard", "number", "end", "position")}
        ids = next((type(id_).__name__ for id_ in part.ids if id_ is not None), NO_IDS)
        record |= {"bytes": part.bytes, "ids": ids, "totals": dict(totals)}
        objects = {RECORD: record, SENTENCES: {"words": part.sentences, "ids": part.ids}}
        others = {f"{STATE}{name}": array for name, array in (state or {}).items()}
        if learnt is not None:
            objects[LEARNT] = {"words": learnt.words, "afresh": learnt.afresh}
            others[TOKEN_VECTORS] = learnt.vectors
        target = self.folder / name_of_part(part.shard, part.number)
        with write_folder_atomically(target, force=True) as folder:
            self._save_joined(folder / f"{VALUES}{ARRAY}", arrays)
            for name, array in others.items():
                save_array(folder / f"{name}{ARRAY}", array.shape, [array])
            for name, values in objects.items():
                write_object(values, folder / name, indent=None)
        return record

    def object(self, name: str, file: str = RECORD) -> dict[str, Any]:
        """An object of a part."""
        return read_object(self.folder / name / file)

    def array(self, name: str, file: str = VALUES) -> Array:
        """An array of a part, read where it is used."""
        path = self.folder / name / f"{file}{ARRAY}"
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise FormatError(f"{path}: is damaged ({error}); begin again (--force)") from error

    def finished(self) -> Finished:
        """The parts of an input that is not divided, from the first; a missing one ends them."""
        totals: Counter[str] = Counter()
        ids = record = None
        count = 0
        while self.has(name := name_of_part(0, count)):
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
            stored, values = self.object(name, SENTENCES), self.array(name)
            for words, id_, start in zip(
                stored["words"], stored["ids"], self.starts(stored["words"]), strict=True
            ):
                yield Item(words, self.at(values, start, len(words)), id_)

    def state(self, name: str) -> dict[str, Array] | None:
        """What state `carry` remembered after a part."""
        files = [path.stem for path in (self.folder / name).glob(f"{STATE}*")]
        return {
            file.removeprefix(STATE): np.array(self.array(name, file)) for file in files
        } or None

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

    def _save_joined(self, path: Path, arrays: Sequence[Array]) -> None:
        if self.pooled:
            save_array(path, (len(arrays), *arrays[0].shape), arrays)
            return
        *leading, _, size = arrays[0].shape
        words = sum(array.shape[-2] for array in arrays)
        pieces = (array[layer] for layer in np.ndindex(*leading) for array in arrays)
        save_array(path, (*leading, words, size), pieces)


def save_array(path: Path, shape: tuple[int, ...], pieces: Iterable[Array]) -> None:
    """Write pieces of an array, in memory's order, as `.npy`; errors have the system's number."""
    with open(path, "wb") as file:
        for number, piece in enumerate(pieces):
            if number == 0:
                descr = np.lib.format.dtype_to_descr(piece.dtype)
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(piece).data)


class Seen:
    """The first occurrence of every distinct sentence of the finished parts.

    An entry is the number of a part, and where in it the array of the sentence starts: see
    `PartStore.starts`. Entries of a part are added before it is written, so a part that is there
    has all of its own; what the index knows of later ones than the first `parts` is forgotten.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.path = folder / SEEN
        with self._errors():
            self._index = sqlite3.connect(self.path, isolation_level=None)
            self._index.execute(
                "CREATE TABLE IF NOT EXISTS seen (digest BLOB PRIMARY KEY, part INT, start INT) "
                "WITHOUT ROWID"
            )
            self._index.execute("DELETE FROM seen WHERE part >= ?", (parts,))

    def find(self, sentences: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The sentences among these that were computed before, each with its entry."""
        query = "SELECT part, start FROM seen WHERE digest = ?"
        with self._errors():
            rows = {
                sentence: self._index.execute(query, (digest_of(sentence),)).fetchone()
                for sentence in sentences
            }
        return {sentence: row for sentence, row in rows.items() if row}

    def add(self, entries: Iterable[tuple[str, int, int]]) -> None:
        """Remember where sentences stand, all or none; what was remembered before stays."""
        rows = ((digest_of(sentence), part, start) for sentence, part, start in entries)
        with self._errors():
            self._index.execute("BEGIN")
            self._index.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", rows)
            self._index.execute("COMMIT")

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in one line what SQLite could not do, and close the index."""
        try:
            yield
        except sqlite3.Error as error:
            if hasattr(self, "_index"):
                self.close()
            codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
            is_full = getattr(error, "sqlite_errorcode", None) in codes
            advice = "free some space" if is_full else "begin again (--force)"
            raise DiskError(f"{self.path}: cannot be used ({error}); {advice}") from error


def digest_of(sentence: str) -> bytes:
    """128 bits that stand for a sentence; two of a billion share them with 1e-21."""
    return hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=16).digest()
