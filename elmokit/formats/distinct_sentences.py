"""Any number of sentences, and the last line of each, in constant memory."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

INDEX = ".index"
"""Ends the name of the temporary file."""
CACHE_KILOBYTES = 16 << 10
SENTENCES_AT_ONCE = 1000


class DistinctSentences:
    """Sentences and line numbers in a database on disk, where the last of equal sentences stays."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._pending: list[tuple[int, str]] = []
        database.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, sentence TEXT UNIQUE)")
        database.execute("BEGIN")

    def add(self, number: int, sentence: str) -> None:
        """Take the next line."""
        self._pending.append((number, json.dumps(sentence)))
        if len(self._pending) >= SENTENCES_AT_ONCE:
            self._insert()

    def write_json(self, file: BinaryIO) -> None:
        """Write an object from sentence to line number, a string, in the order of the lines."""
        self._insert()
        file.write(b"{")
        lines = self._database.execute("SELECT number, sentence FROM lines ORDER BY number")
        for count, (number, sentence) in enumerate(lines):
            file.write(f'{", " if count else ""}{sentence}: "{number}"'.encode("ascii"))
        file.write(b"}")

    def _insert(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?)", self._pending)
        self._pending.clear()


@contextmanager
def distinct_sentences(beside: Path) -> Iterator[DistinctSentences]:
    """Keep sentences in a temporary file beside another, on the disk that has room for it."""
    path = beside.with_name(f"{beside.name}{INDEX}")
    with _disk_errors():
        database = sqlite3.connect(path, isolation_level=None)
        try:
            for setting in (
                # Nobody else looks at it, and after a crash nobody needs it.
                "journal_mode = OFF",
                "synchronous = OFF",
                "locking_mode = EXCLUSIVE",
                f"cache_size = -{CACHE_KILOBYTES}",
            ):
                database.execute(f"PRAGMA {setting}")
            yield DistinctSentences(database)
        finally:
            database.close()
            path.unlink(missing_ok=True)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn what the database says of the disk into an error of the system."""
    try:
        yield
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error
