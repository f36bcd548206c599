"""Finished parts of an output, kept beside it until the output is whole.

`vectors.h5.parts/` holds a folder for each part, some sentences, which appears whole or not at all,
and a record of what is being made from what. Whenever the process is killed, what is there is
whole: the same run goes on behind the last part. Where a part ends depends on the input alone, so
the vectors are the same as if nothing had happened.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from elmokit.bulk.inputs import Record, RecordPlace
from elmokit.errors import DiskError, FormatError, InputError
from elmokit.inference.token_vectors import KnownWords
from elmokit.io.files import (
    claim,
    disk_errors,
    read_object,
    write_atomically,
    write_folder_atomically,
    write_object,
)
from elmokit.vectors.files import PARTS
from elmokit.vectors.items import Item

INDEX = "sentences.sqlite"
ASKED_AT_ONCE = 500
IO_ERROR = sqlite3.SQLITE_IOERR_WRITE


class FirstComputed(NamedTuple):
    """Where a sentence was computed first."""

    part: int
    start: int  # its first word among those of the part; its number where vectors are pooled


class Seen:
    """The first occurrence of every distinct sentence of the finished parts.

    Entries of a part are added before it is written, so a part that is there has all of its own.

    Args:
        folder: Where the index is kept.
        parts: How many parts are finished; what the index knows of later ones is forgotten.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.path = folder / INDEX
        with self._errors():
            self._index = sqlite3.connect(self.path, isolation_level=None)
        try:
            self._run(
                "CREATE TABLE IF NOT EXISTS seen (digest BLOB PRIMARY KEY, part INT, start INT) "
                "WITHOUT ROWID"
            )
            self._run("DELETE FROM seen WHERE part >= ?", (parts,))
        except DiskError:
            self.close()
            raise

    def find(self, sentences: Sequence[str]) -> dict[str, FirstComputed]:
        """The sentences among these that were computed before."""
        digests = {digest_of(sentence): sentence for sentence in sentences}
        found: dict[str, FirstComputed] = {}
        asked = list(digests)
        for first in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[first : first + ASKED_AT_ONCE]
            query = f"SELECT * FROM seen WHERE digest IN ({','.join('?' * len(some))})"
            for digest, part, start in self._run(query, some):
                found[digests[digest]] = FirstComputed(part, start)
        return found

    def add(self, places: Iterable[tuple[str, FirstComputed]]) -> None:
        """Remember where sentences stand, all or none; what was remembered before stays."""
        self._run("BEGIN")
        for sentence, place in places:
            self._run("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", (digest_of(sentence), *place))
        self._run("COMMIT")

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    def _run(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        with self._errors():
            return self._index.execute(statement, values)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, IO_ERROR)
            advice = "free some space" if full else "begin anew (--force)"
            raise DiskError(f"{self.path}: cannot be used ({error}); {advice}") from error


def digest_of(sentence: str) -> bytes:
    """128 bits that stand for a sentence; two of a billion share them with odds of 1 : 10^21."""
    return hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=16).digest()


VALUE_SHOWN = 60
MISSING = object()


def difference(before: Any, now: Any) -> str:
    """The first thing in which two values differ, of plain ones as JSON has them.

    >>> difference(2, 1)
    'was 2, is 1'
    >>> difference({"settings": {"split": False}}, {"settings": {"split": True}})
    'settings.split was false, is true'
    """
    was, here = dict(_flat(before)), dict(_flat(now))
    for name in (*was, *here):
        values = was.get(name, MISSING), here.get(name, MISSING)
        if values[0] != values[1]:
            shown = "was {}, is {}".format(*map(_shown, values))
            return f"{name} {shown}" if name else shown
    return "was the same"


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their dotted names; those of a list of objects are numbered from 1."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value, start=1)}
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for name, item in value.items():
        yield from _flat(item, f"{prefix}.{name}" if prefix else name)


def _shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value if item is not None)
    text = value if isinstance(value, str) else json.dumps(value)
    # Paths and checksums tell themselves apart by their ends.
    return text if len(text) <= VALUE_SHOWN else f"…{text[1 - VALUE_SHOWN :]}"


Array = NDArray[Any]

RUN, LOCK = "run.json", "lock"
RECORD = "record.json"
VALUES, STATE = "values.npy", "state.npz"
WORDS, TOKEN_VECTORS = "words.json", "token_vectors.npy"
FORMAT, VERSION = "elmokit-parts", 2
NO_WORK = (RUN, LOCK)


class End(NamedTuple):
    """Where reading goes on: a line, and how many of its sentences are done."""

    place: RecordPlace
    taken: int


class Part(NamedTuple):
    """Sentences that are computed and kept together."""

    number: int
    records: list[Record]
    end: End
    position: int  # bytes of the input that were read by then


class Finished(NamedTuple):
    """What the finished parts come to."""

    parts: int = 0
    end: End | None = None
    position: int = 0
    totals: Mapping[str, int] = MappingProxyType({})


class Spool:
    """The folder of finished parts of one output.

    Args:
        output: The file that is to be made of them.
        facts: What the vectors depend on: input, model, settings. A run goes on only with the same.
        pooled: Whether the arrays have no axis of words.
    """

    def __init__(self, output: str | Path, facts: Mapping[str, Any], *, pooled: bool) -> None:
        self.folder = parts_of(output)
        self.facts = json.loads(json.dumps(facts))  # as it will be read back: tuples as lists
        self.pooled = pooled
        self._removed = False

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the folder to oneself for the time of a block; it goes if nothing came of it."""
        with claim(self.folder / LOCK):
            self._removed = False
            try:
                yield
            finally:
                # Once it is removed, what has its name may be another process's.
                if not self._removed and self.folder.exists() and not self.holds_work():
                    self.remove()

    def begin(self, *, resume: bool, force: bool) -> Finished:
        """Find what is finished, or begin anew; what a killed process left over is removed."""
        with disk_errors(self.folder, "made"):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._remove_leftovers()
        check_unfinished(self.folder, resume=resume, force=force)
        if self.holds_work() and not force:
            self._check_same_run()
            return self._finished()
        self._empty()
        record = {"format": FORMAT, "version": VERSION, "facts": self.facts, "replaces": force}
        with write_atomically(self.folder / RUN) as path:
            write_object(record, path)
        return Finished()

    def write(
        self,
        part: Part,
        arrays: Sequence[Array],
        totals: Mapping[str, int],
        learnt: KnownWords,
        state: Mapping[str, Array] | None = None,
    ) -> None:
        """Keep a part: its sentences and their arrays, and what the run knows after it.

        Args:
            part: The sentences.
            arrays: The array of each.
            totals: Those of the run, this part included.
            learnt: The words that were first met in this part.
            state: What state `carry` remembers.
        """
        with write_folder_atomically(self._path(part.number), force=True) as folder:
            save_joined(folder / VALUES, arrays, self.pooled)
            save_array(folder / TOKEN_VECTORS, learnt.vectors.shape, [learnt.vectors])
            known = {"words": learnt.words, "afresh": learnt.afresh}
            write_object(known, folder / WORDS, indent=None)
            if state is not None:
                np.savez(folder / STATE, **state)  # type: ignore[arg-type]
            record = {
                "end": part.end,
                "position": part.position,
                "words": [record.words for record in part.records],
                "ids": [record.id for record in part.records],
                "totals": dict(totals),
            }
            write_object(record, folder / RECORD, indent=None)

    def state(self, number: int) -> dict[str, Array] | None:
        """What state `carry` remembered after a part."""
        path = self._path(number) / STATE
        if not path.exists():
            return None
        with part_damage(path), np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def learnt(self, parts: int) -> Iterator[KnownWords]:
        """The words that are known after some parts, in the order in which they were learnt."""
        first = parts
        while first and not read_object(self._path(first - 1) / WORDS)["afresh"]:
            first -= 1
        for number in range(max(0, first - 1), parts):
            stored = read_object(self._path(number) / WORDS)
            with part_damage(self._path(number) / TOKEN_VECTORS) as path:
                vectors = np.load(path, allow_pickle=False)
            yield KnownWords(stored["words"], vectors, stored["afresh"])

    def values(self, number: int) -> Array:
        """The arrays of a part, joined along their words or stacked, read where they are used."""
        with part_damage(self._path(number) / VALUES) as path:
            return np.load(path, mmap_mode="r", allow_pickle=False)

    def record(self, number: int) -> dict[str, Any]:
        """What a part says of its sentences."""
        return read_object(self._path(number) / RECORD)

    def items(self, parts: int) -> Iterator[Item]:
        """Every sentence with its array, in the order of the input."""
        for number in range(parts):
            record, values = self.record(number), self.values(number)
            starts = starts_of(record["words"], self.pooled)
            for words, id_, start in zip(record["words"], record["ids"], starts, strict=True):
                yield Item(words, array_at(values, start, len(words), self.pooled), id_)

    def replaces(self) -> bool:
        """Whether the run was begun to replace whatever has the name of its output."""
        return bool(read_object(self.folder / RUN).get("replaces"))

    def holds_work(self) -> bool:
        """Whether anything of a run is finished."""
        return holds_work(self.folder)

    def remove(self) -> None:
        """Remove everything, by a rename first: the folder is whole while it has its name."""
        with disk_errors(self.folder, "removed"):
            os.rename(self.folder, trash_path(self.folder))
        self._removed = True
        empty_trash(self.folder)

    def _empty(self) -> None:
        """Remove everything but the lock; the record first, so that what is left is no run."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name != RUN):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()

    def _remove_leftovers(self) -> None:
        """Remove temporary files of this output that a killed process left."""
        output = self.folder.name.removesuffix(PARTS)
        places = [(self.folder.parent, output + ending) for ending in ("", PARTS)]
        for folder, name in (*places, (self.folder, "")):
            for leftover in folder.glob(f".tmp-????????-{glob.escape(name)}{'' if name else '*'}"):
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:08d}"

    def _finished(self) -> Finished:
        """The parts from the first on; one that is missing ends them."""
        count = 0
        while (self._path(count) / RECORD).exists():
            count += 1
        if not count:
            return Finished()
        record = self.record(count - 1)
        place, taken = record["end"]
        end = End(RecordPlace(*place), taken)
        return Finished(count, end, record["position"], record["totals"])

    def _check_same_run(self) -> None:
        found = read_object(self.folder / RUN)
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise FormatError(f"{self.folder}: is of another version; begin anew (--force)")
        before = found.get("facts", {})
        for name in (*self.facts, *before):
            if before.get(name) != self.facts.get(name):
                found_here = difference(before.get(name), self.facts.get(name))
                raise InputError(
                    f"{self.folder}: was begun with other {name} ({found_here}); resume with the "
                    "same command, or begin anew (--force)"
                )


def save_joined(path: Path, arrays: Sequence[Array], pooled: bool) -> None:
    """Write arrays as one: stacked, or joined along their words. No copy of all is made."""
    first = arrays[0]
    if pooled:
        save_array(path, (len(arrays), *first.shape), arrays)
        return
    *leading, _, size = first.shape
    words = sum(array.shape[-2] for array in arrays)
    pieces = (array[layer] for layer in np.ndindex(*leading) for array in arrays)
    save_array(path, (*leading, words, size), pieces)


def save_array(path: Path, shape: tuple[int, ...], pieces: Iterable[Array]) -> None:
    """Write an array as `.npy`, of pieces that follow each other in memory's order.

    Where the disk refuses, the error has the system's number, as it has not from `np.save`.
    """
    with open(path, "wb") as file:
        for number, piece in enumerate(pieces):
            if number == 0:
                descr = np.lib.format.dtype_to_descr(piece.dtype)
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(piece).data)


@contextmanager
def part_damage(path: Path) -> Iterator[Path]:
    """Say in one line that an array cannot be read."""
    try:
        yield path
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise FormatError(f"{path}: is damaged ({error}); begin anew (--force)") from error


def parts_of(output: str | Path) -> Path:
    """The folder beside an output that its parts are kept in."""
    return Path(f"{output}{PARTS}")


def threads_before(output: str | Path) -> int | None:
    """How many threads an unfinished run of an output has computed with; None if there is none."""
    path = parts_of(output) / RUN
    facts = read_object(path).get("facts") if path.exists() else None
    threads = facts.get("threads") if isinstance(facts, dict) else None
    return threads if isinstance(threads, int) else None


def trash_path(parts: Path) -> Path:
    """What parts are called while they are removed."""
    return parts.with_name(f".tmp-{token_hex(4)}-{parts.name}")


def empty_trash(parts: Path) -> None:
    """Remove what `Spool.remove` has renamed, in this process or in one that was killed then."""
    for doomed in parts.parent.glob(f".tmp-????????-{glob.escape(parts.name)}"):
        shutil.rmtree(doomed, ignore_errors=True)


def starts_of(sentences: Sequence[Sequence[str]], pooled: bool) -> list[int]:
    """Where the array of each sentence begins in those of its part."""
    lengths = [1 if pooled else len(words) for words in sentences]
    return list(accumulate(lengths, initial=0))[:-1]


def array_at(values: Array, start: int, words: int, pooled: bool) -> Array:
    """The array of one sentence."""
    return np.asarray(values[start] if pooled else values[..., start : start + words, :])


def holds_work(folder: Path) -> bool:
    """Whether anything of a run is finished in the folder of its parts."""
    return (folder / RUN).exists() and any(
        path.name not in NO_WORK and not path.name.startswith(INDEX) for path in folder.iterdir()
    )


def check_unfinished(folder: Path, *, resume: bool, force: bool) -> None:
    """Refuse to begin anew over what an unfinished run has done, unless that is wished."""
    if not resume and not force and holds_work(folder):
        raise InputError(
            f"{folder}: holds an unfinished run; go on with it (--resume), or begin anew (--force)"
        )
