"""Vectors as NPZ, for NumPy: arrays "0", "1", …, and JSON texts as arrays of bytes.

`json.loads(bytes(file["sentences"]))` is the list of sentences; `ids` and `description`, where they
were given, are read likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from io import BytesIO
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from elmokit.formats.files import write_atomically
from elmokit.formats.json_scalars import JsonScalars
from elmokit.formats.npz import NpzReader, NpzWriter
from elmokit.formats.vector_file import VectorFile, damage_of
from elmokit.formats.vector_items import (
    Item,
    PathLike,
    SentenceVectors,
    checked_lines,
)
from elmokit.formats.vector_settings import DEFAULTS, VectorSettings

COMPRESSIONS = ("none", "deflate")

SENTENCES = "sentences"
IDS = "ids"
DESCRIPTION = "description"


def write_npz(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
) -> None:
    """Write arrays "0", "1", … and their sentences, in constant memory."""
    lines = checked_lines(path, items, settings.dtype)
    with write_atomically(path) as temporary, ExitStack() as stack:
        file = stack.enter_context(open(temporary, "w+b"))
        directory, *texts = (
            stack.enter_context(TemporaryFile(dir=temporary.parent)) for _ in range(3)
        )
        sentences, ids = map(_JsonList, texts)
        archive = NpzWriter(file, directory, settings.compression == "deflate")
        for line in lines:
            archive.add(str(line.number), line.vectors)
            ids.add(line.id)
            if settings.keep_sentences:
                sentences.add(line.sentence)
        if settings.keep_sentences:
            archive.add_text(SENTENCES, sentences.finished())
        if ids.known:
            archive.add_text(IDS, ids.finished())
        if settings.description is not None:
            text = json.dumps(dict(settings.description)).encode("ascii")
            archive.add_text(DESCRIPTION, BytesIO(text))
        archive.finish()


class NpzVectors(VectorFile):
    """Reads arrays "0", "1", … one by one, and their sentences."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with damage_of(path):
            self._archive = NpzReader(path)
            others = self._archive.others.keys() - {SENTENCES, IDS, DESCRIPTION}
            if others:
                raise ValueError(f"it has an array {min(others)!r}, which is no number of a line")
            if DESCRIPTION in self._archive.others:
                self.description = dict(json.loads(bytes(self._archive.read_text(DESCRIPTION))))

    def __len__(self) -> int:
        return len(self._archive.numbers)

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number in range(len(self)):
            sentence = self._of(self._sentences, number)
            if sentence is not None:
                yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        return SentenceVectors(
            self._of(self._sentences, number),
            self._archive.read(number),
            self._of(self._ids, number),
        )

    def _close(self) -> None:
        for texts in ("_sentences", "_ids"):
            self.__dict__.pop(texts, None)
        self._archive.close()

    def _of(self, texts: JsonScalars | None, number: int) -> Any:
        """What a list says of an item, if it goes so far."""
        line = int(self._archive.numbers[number])
        return texts[line] if texts is not None and line < len(texts) else None

    @cached_property
    def _sentences(self) -> JsonScalars | None:
        return self._list(SENTENCES)

    @cached_property
    def _ids(self) -> JsonScalars | None:
        return self._list(IDS)

    def _list(self, name: str) -> JsonScalars | None:
        if name not in self._archive.others:
            return None
        return JsonScalars(self._archive.read_text(name), "[]", f"{self.path}: its {name}")


class _JsonList:
    """A JSON list that grows in a file.

    Attributes:
        known: Whether it has anything but null.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.known = False
        self._file = file
        self._between = b"["

    def add(self, value: str | int | None) -> None:
        self.known |= value is not None
        self._file.write(self._between + json.dumps(value).encode("ascii"))
        self._between = b", "

    def finished(self) -> BinaryIO:
        self._file.write(b"[]" if self._between == b"[" else b"]")
        return self._file
