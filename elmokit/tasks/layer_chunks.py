"""Layers of sentences in a folder: in chunks, each of which is whole or not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import (
    disk_errors,
    one_at_a_time,
    write_atomically,
    write_folder_atomically,
)
from elmokit.formats.json_files import read_object, write_object
from elmokit.text.characters import Sentence

Array = NDArray[np.float32]

FORMAT, VERSION = "elmokit-layers", 1
RECORD, LOCK = "store.json", "lock"
CHUNK = "layers-"
LEFTOVER = ".tmp-"
VALUES, SENTENCES = "values.float32", "sentences.json"
STORED = np.dtype("<f4")


class Chunk(NamedTuple):
    """Sentences whose layers are kept together."""

    sentences: Sequence[Sentence]
    values: Array  # (values,): sentence after sentence, each (layers, words, size)


class ChunkFolder:
    """A folder of chunks, and a record of what they are layers of.

    Several processes may use one folder: a chunk never changes once it has its name, and whoever
    adds some has the folder to itself meanwhile. A killed process loses the chunk it was at.

    Args:
        folder: Its name.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._read: set[str] = set()
        self._words: dict[str, str] = {}

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the folder to oneself for the time of a block; wait for whoever has it now."""
        with disk_errors(self.folder, "made"):
            self.folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(self.folder / LOCK):
            yield

    def begin(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """What the folder says its layers are of, once it has said `facts` if it is new."""
        record = self.folder / RECORD
        if not record.exists():
            self._check_empty()
            contents = {"format": FORMAT, "version": VERSION, "facts": facts}
            with write_atomically(record) as temporary:
                write_object(contents, temporary)
            return json.loads(json.dumps(facts))  # as it will be read back: tuples as lists
        found = read_object(record)
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise FormatError(f"{record}: is of another version; choose another folder")
        return found.get("facts", {})

    def unread(self, values_per_word: int) -> Iterator[Chunk]:
        """The chunks that were added since the last call; the folder must be claimed.

        What is not whole, a killed process left or somebody has damaged: it is removed, and its
        sentences are computed again.
        """
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(LEFTOVER):
                remove(path)
            if path.name.startswith(CHUNK) and path.name not in self._read:
                chunk = self._whole_chunk(path, values_per_word)
                if chunk is None:
                    remove(path)
                    continue
                self._read.add(path.name)
                yield chunk

    def write(self, sentences: Sequence[Sentence], layers: Iterable[Array]) -> Chunk:
        """Keep sentences with their layers, each (layers, words, size); the folder is claimed."""
        numbers = (self.folder / f"{CHUNK}{number:08d}" for number in count())
        path = next(path for path in numbers if not path.exists())
        with write_folder_atomically(path) as temporary:
            # Not through a memory map: there, a full disk kills the process without a word.
            with open(temporary / VALUES, "wb") as file:
                for array in layers:
                    file.write(np.ascontiguousarray(array, dtype=STORED).data)
            write_object({"sentences": sentences}, temporary / SENTENCES, indent=None)
        self._read.add(path.name)
        return Chunk(sentences, mapped(path / VALUES))

    def _whole_chunk(self, path: Path, values_per_word: int) -> Chunk | None:
        try:
            stored = read_object(path / SENTENCES)["sentences"]
            # Every word is in memory once, however often it occurs.
            sentences = [tuple(map(self._words.setdefault, words, words)) for words in stored]
            values = mapped(path / VALUES)
        except (FormatError, OSError, KeyError, TypeError, ValueError):
            return None
        whole = len(values) == values_per_word * sum(map(len, sentences))
        return Chunk(sentences, values) if whole else None

    def _check_empty(self) -> None:
        others = [path.name for path in self.folder.iterdir() if path.name != LOCK]
        if any(not name.startswith(LEFTOVER) for name in others):
            raise InputError(
                f"{self.folder}: holds files that are no stored layers; choose another folder"
            )


def mapped(path: Path) -> Array:
    """A file of numbers, read where they are used; the system keeps what it has memory for."""
    return np.asarray(np.memmap(path, dtype=STORED, mode="r"))


def remove(path: Path) -> None:
    """Remove what is left of a folder or a file."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
