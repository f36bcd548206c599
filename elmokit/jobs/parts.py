"""Finished parts of a run, and the index of the sentences in them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import DiskError, FormatError
from elmokit.io.files import read_object, write_folder_atomically, write_object
from elmokit.jobs.run_folder import SEEN

Array = NDArray[Any]

RECORD, ARRAY = "record.json", ".npy"
ASKED_AT_ONCE = 500


class Pieces(NamedTuple):
    """An array that is never in memory as a whole: its pieces follow each other in C order."""

    shape: tuple[int, ...]
    pieces: Iterable[Array]


class PartStore:
    """Parts of a run, a folder each, with JSON objects and arrays; complete or not there.

    Whenever a process is killed, the parts that are there are complete: the same run resumes
    behind them.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Those of all parts, in order."""
        return sorted(path.parent.name for path in self.folder.glob(f"part-*/{RECORD}"))

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        return (self.folder / name / RECORD).exists()

    def write(
        self,
        name: str,
        objects: Mapping[str, Mapping[str, Any]],
        arrays: Mapping[str, Array | Pieces],
    ) -> None:
        """Write a part: JSON objects by the names of their files, "record.json" among them."""
        with write_folder_atomically(self.folder / name, force=True) as folder:
            for file, array in arrays.items():
                pieces = array if isinstance(array, Pieces) else Pieces(array.shape, [array])
                save_array(folder / f"{file}{ARRAY}", *pieces)
            for file, values in objects.items():
                write_object(values, folder / file, indent=None)

    def object(self, name: str, file: str = RECORD) -> dict[str, Any]:
        """An object of a part."""
        return read_object(self.folder / name / file)

    def array(self, name: str, file: str) -> Array:
        """An array of a part, read where it is used."""
        path = self.folder / name / f"{file}{ARRAY}"
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise FormatError(f"{path}: is damaged ({error}); begin again (--force)") from error


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


class FirstComputed(NamedTuple):
    """Where a sentence was computed first."""

    part: int
    start: int  # its first word among those of the part; its number where vectors are pooled


class Seen:
    """The first occurrence of every distinct sentence of the finished parts.

    Entries of a part are added before it is written, so a part that is there has all of its own.

    Args:
        folder: Where the index is.
        parts: How many parts are finished; what the index knows of later ones is forgotten.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.path = folder / SEEN
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
            codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
            is_full = getattr(error, "sqlite_errorcode", None) in codes
            advice = "free some space" if is_full else "begin again (--force)"
            raise DiskError(f"{self.path}: cannot be used ({error}); {advice}") from error


def digest_of(sentence: str) -> bytes:
    """128 bits that stand for a sentence; two of a billion share them with 1e-21."""
    return hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=16).digest()
