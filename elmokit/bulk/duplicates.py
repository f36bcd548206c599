"""Which sentences were computed before, and where they are: an index on disk."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import DiskError

INDEX = "sentences.sqlite"
ASKED_AT_ONCE = 500
IO_ERROR = sqlite3.SQLITE_IOERR_WRITE


class Occurrence(NamedTuple):
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

    def find(self, sentences: Sequence[str]) -> dict[str, Occurrence]:
        """The sentences among these that were computed before."""
        digests = {digest_of(sentence): sentence for sentence in sentences}
        found: dict[str, Occurrence] = {}
        asked = list(digests)
        for first in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[first : first + ASKED_AT_ONCE]
            query = f"SELECT * FROM seen WHERE digest IN ({','.join('?' * len(some))})"
            for digest, part, start in self._run(query, some):
                found[digests[digest]] = Occurrence(part, start)
        return found

    def add(self, places: Iterable[tuple[str, Occurrence]]) -> None:
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
