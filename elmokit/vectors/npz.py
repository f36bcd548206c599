"""Vectors as NPZ, for NumPy: arrays "0", "1", …, and JSON texts as arrays of bytes.

`json.loads(bytes(file["sentences"]))` is the list of sentences; `ids` and `description`, where they
were given, are read likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from elmokit.io.files import write_atomically
from elmokit.vectors.items import (
    DEFAULTS,
    Item,
    OwnHandle,
    PathLike,
    SentenceVectors,
    VectorFile,
    VectorSettings,
    checked_items,
    damage_of,
    parse_object,
)

SUFFIX = ".npy"
SENTENCES, IDS, DESCRIPTION = "sentences", "ids", "description"


def write_npz(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], settings: VectorSettings = DEFAULTS
) -> None:
    """Write arrays "0", "1", … and their sentences; of all items only these are in memory."""
    method = ZIP_DEFLATED if settings.compression == "deflate" else ZIP_STORED
    sentences: list[str] = []
    ids: list[str | int | None] = []
    with write_atomically(path) as temporary, ZipFile(temporary, "w", method) as archive:
        for item in checked_items(path, items, settings.dtype):
            _add(archive, str(len(ids)), item.vectors)
            ids.append(item.id)
            if settings.keep_sentences:
                sentences.append(item.sentence)
        if settings.keep_sentences:
            _add_json(archive, SENTENCES, sentences)
        if any(each is not None for each in ids):
            _add_json(archive, IDS, ids)
        if settings.description is not None:
            _add_json(archive, DESCRIPTION, dict(settings.description))


def _add(archive: ZipFile, name: str, values: NDArray[Any]) -> None:
    # A ZipInfo by itself is of the first day of 1980: equal items make equal files.
    member = ZipInfo(f"{name}{SUFFIX}")
    member.compress_type = archive.compression
    with archive.open(member, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, values, allow_pickle=False)


def _add_json(archive: ZipFile, name: str, value: object) -> None:
    _add(archive, name, np.frombuffer(json.dumps(value).encode("ascii"), dtype=np.uint8))


class NpzVectors(VectorFile):
    """Reads arrays "0", "1", … one by one, and their sentences."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with damage_of(path):
            self._archive = OwnHandle(lambda: ZipFile(self.path))
            members = self._archive.get().namelist()
            self._texts = {name.removesuffix(SUFFIX): name for name in members}
            numbers = [name for name in self._texts if name.isdecimal() and name.isascii()]
            self._arrays = sorted((int(name), self._texts.pop(name)) for name in numbers)
            if others := self._texts.keys() - {SENTENCES, IDS, DESCRIPTION}:
                raise ValueError(f"its array {min(others)!r} is not the number of a line")
            if DESCRIPTION in self._texts:
                self.description = parse_object(self._text(DESCRIPTION), DESCRIPTION)

    def __len__(self) -> int:
        return len(self._arrays)

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number, (line, _) in enumerate(self._arrays):
            sentence = self._sentences.get(line)
            if sentence is not None:
                yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        line, member = self._arrays[number]
        sentence, id_ = self._sentences.get(line), self._ids.get(line)
        return SentenceVectors(sentence, self._array(member), id_)

    def _close(self) -> None:
        self._archive.close()

    @cached_property
    def _sentences(self) -> dict[int, Any]:
        return self._by_line(SENTENCES)

    @cached_property
    def _ids(self) -> dict[int, Any]:
        return self._by_line(IDS)

    def _by_line(self, name: str) -> dict[int, Any]:
        found = json.loads(self._text(name)) if name in self._texts else []
        if not isinstance(found, list):
            raise ValueError(f"its {name} are not a JSON list")
        return dict(enumerate(found))

    def _text(self, name: str) -> bytes | str:
        """What an array of bytes, or a scalar text of NumPy, says."""
        array = self._array(self._texts[name])
        return array.tobytes() if array.dtype == np.uint8 else str(array)

    def _array(self, member: str) -> NDArray[Any]:
        # All of it at once: only at the end is its checksum compared.
        contents = BytesIO(self._archive.get().read(member))
        return np.lib.format.read_array(contents, allow_pickle=False)
