"""LanceDB: imported where it is used, connected to a folder or to object storage.

Nothing but this module and `store` knows of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.errors import DiskError, FormatError, InputError

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
    try:
        import lancedb
    except ImportError as error:
        raise InputError(
            'lancedb is not installed; run: pip install "elmokit[analysis]"'
        ) from error
    return lancedb


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
            else "build the index anew (--force)"
        )
        raise FormatError(f"{location}: its tables cannot be used ({why}); {advice}") from error
