"""What the files of a corpus hold, without reading again those that have not changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmokit.errors import ElmoError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import disk_errors, write_atomically
from elmokit.formats.json_files import read_object, write_object

BLOCK_BYTES = 1 << 22
SETTLED_SECONDS = 2.0
"""A file younger than this may change once more without a new date."""


def sha256_of_files(files: Sequence[Path], memory: Path, progress: Progress) -> list[str]:
    """The SHA-256 of each file's contents, remembered in the JSON file `memory`.

    A file with the size and the date that it had before is taken to hold what it held.
    """
    remembered = _remembered(memory)
    fresh: dict[str, list[Any]] = {}
    hashes = []
    total = sum(map(size_of, files))
    done = 0
    for path in files:
        name, state = str(path.resolve()), _state(path)
        *known_state, known = remembered.get(name, [None])
        if known_state != state:
            known = _sha256(path, done, total, progress)
            if _settled(state):
                fresh[name] = [*state, known]
        hashes.append(known)
        done += size_of(path)
        progress(done, total)
    if fresh:
        with write_atomically(memory) as temporary:
            # Read again: another process may have remembered something meanwhile.
            write_object(_remembered(memory) | fresh, temporary)
    return hashes


def size_of(path: Path) -> int:
    """The bytes of a file on disk."""
    return _state(path)[0]


def _state(path: Path) -> list[int]:
    """What a file must keep to count as unchanged: its size and its date."""
    with disk_errors(path, "read"):
        status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _settled(state: list[int]) -> bool:
    return state[1] < (time.time() - SETTLED_SECONDS) * 1e9


def _sha256(path: Path, done: int, total: int, progress: Progress) -> str:
    digest = hashlib.sha256()
    with disk_errors(path, "read"), open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            progress(done, total)
    return digest.hexdigest()


def _remembered(memory: Path) -> dict[str, list[Any]]:
    try:
        return {name: list(state) for name, state in read_object(memory).items()}
    except (ElmoError, TypeError):
        return {}  # it can always be found out anew
