"""Vectors as HDF5, in the layout of `allennlp elmo`: a dataset "0", "1", … for each line.

`sentence_to_index` is a JSON object from sentence to the number of its line, for old readers. What
they do not look at are attributes: `line` of a dataset, a JSON object with the line's sentence and
id; `items` and `description` of the file.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import h5py
import numpy as np
from h5py import h5a, h5d, h5s
from numpy.typing import NDArray

from elmokit.errors import ElmoWarning, FormatError
from elmokit.formats.distinct_sentences import DistinctSentences, distinct_sentences
from elmokit.formats.files import write_atomically
from elmokit.formats.hdf5 import open_hdf5
from elmokit.formats.hdf5_writer import Hdf5Writer, Room, hdf5_writer, set_json
from elmokit.formats.json_scalars import JsonScalars, Text
from elmokit.formats.sentence_keys import SentenceKeys
from elmokit.formats.vector_file import OwnHandle, VectorFile, damage_of
from elmokit.formats.vector_items import (
    Item,
    Line,
    PathLike,
    SentenceVectors,
    checked_lines,
)
from elmokit.formats.vector_settings import DEFAULTS, VectorSettings

COMPRESSIONS = ("none", "gzip")

SENTENCE_TO_INDEX = "sentence_to_index"
LINE = b"line"
DESCRIPTION = b"description"
ITEMS = "items"

SHORT_TEXT_BYTES = 8 << 20
LONGEST_TEXT_BYTES = (1 << 31) - 1
"""NumPy has no room for a longer one."""


def write_hdf5(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
    *,
    sentence_keys: bool = False,
    **changes: Any,
) -> None:
    """Write the layout of `allennlp elmo`, in constant memory.

    Sentences that are kept are in `sentence_to_index` too, a JSON object from sentence to key.
    Where a sentence occurs twice, its last line is the one there.

    Args:
        path: The file.
        items: Sentences and their arrays.
        settings: How to write them.
        sentence_keys: Name each dataset by its sentence instead; all sentences must differ, and
            memory is needed for them.
        changes: Single settings by their names, in place of those of `settings`.
    """
    settings = replace(settings, **changes)
    lines = checked_lines(path, items, settings.dtype)
    with write_atomically(path) as temporary, ExitStack() as stack:
        raw = stack.enter_context(open(temporary, "w+b", buffering=0))
        text = stack.enter_context(TemporaryFile(dir=temporary.parent))
        room = None
        with hdf5_writer(raw, compress=settings.compression == "gzip") as writer:
            if settings.description is not None:
                set_json(writer.file.id, DESCRIPTION, dict(settings.description))
            if sentence_keys:
                _add_by_sentence(writer, lines, SentenceKeys(path))
            elif not settings.keep_sentences:
                _add_by_number(writer, lines, None)
            else:
                with distinct_sentences(temporary) as index:
                    _add_by_number(writer, lines, index)
                    index.write_json(text)
                room = _add_index(writer, text, path)
        if room is not None:
            room.fill(raw, text)


class Hdf5Vectors(VectorFile):
    """Reads the layout of `allennlp elmo`, whatever its keys are.

    Where they are sentences, the order is that of the sentences.
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with damage_of(path):
            self._file: OwnHandle[h5py.File] = OwnHandle(self._open)
            file = self._file.get()
            self.description = _get_json(file.id, DESCRIPTION) or {}
            self._count, self._names = _items_of(file)

    def __len__(self) -> int:
        return self._count

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        if self._keys_are_sentences:
            yield from enumerate(self._names or ())
        elif self._indexed is not None:
            for number, position in enumerate(self._key_positions.tolist()):
                if position >= 0:
                    yield number, str(self._indexed[position])
        else:
            for number in range(self._count):
                sentence = self._line_of(self._dataset(number)).get("sentence")
                if sentence is not None:
                    yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        dataset = self._dataset(number)
        if dataset.dtype.kind != "f":
            raise ValueError(f"item {number} holds {dataset.dtype}, not floating-point numbers")
        # HDF5 converts what is stored as float64, float16 or with the bytes the other way round.
        vectors = np.empty(dataset.shape, dtype=np.float32)
        dataset.read(h5s.ALL, h5s.ALL, vectors)
        line = self._line_of(dataset)
        sentence = line["sentence"] if "sentence" in line else self._sentence(number)
        return SentenceVectors(sentence, vectors, line.get("id"))

    def _open(self) -> h5py.File:
        with open_hdf5(self.path):  # which says in one line what is wrong with the file
            return h5py.File(self.path, "r")

    def _close(self) -> None:
        self.__dict__.pop("_indexed", None)
        self._file.close()

    def _dataset(self, number: int) -> h5d.DatasetID:
        name = str(number) if self._names is None else self._names[number]
        return h5d.open(self._file.get().id, name.encode("utf-8", "surrogateescape"))

    def _line_of(self, dataset: h5d.DatasetID) -> dict[str, Any]:
        return _get_json(dataset, LINE) or {}

    def _sentence(self, number: int) -> str | None:
        """What the names of datasets, or `sentence_to_index`, tell."""
        if self._names is not None and self._keys_are_sentences:
            return self._names[number]
        if self._indexed is None or self._key_positions[number] < 0:
            return None
        return str(self._indexed[int(self._key_positions[number])])

    @cached_property
    def _keys_are_sentences(self) -> bool:
        return self._names is not None and not all(map(str.isdecimal, self._names))

    @cached_property
    def _indexed(self) -> JsonScalars | None:
        """Sentences and the names of their datasets, in turn."""
        file = self._file.get()
        if SENTENCE_TO_INDEX not in file:
            return None
        text = _text_of(file[SENTENCE_TO_INDEX], self.path)
        return JsonScalars(text, "{}", f"{self.path}: its {SENTENCE_TO_INDEX}")

    @cached_property
    def _key_positions(self) -> NDArray[np.int64]:
        """Where in `_indexed` the sentence of each item is; -1 where it is not there."""
        positions = np.full(self._count, -1, dtype=np.int64)
        indexed = self._indexed
        if indexed is None:
            return positions
        numbers = None
        if self._names is not None:
            numbers = {name: number for number, name in enumerate(self._names)}
        for position in range(0, len(indexed) - 1, 2):
            key = str(indexed[position + 1])
            number = int(key) if numbers is None else numbers.get(key, self._count)
            if 0 <= number < self._count:
                positions[number] = position
        return positions


def _add_by_sentence(writer: Hdf5Writer, lines: Iterable[Line], keys: SentenceKeys) -> None:
    for line in lines:
        keys.add(line.sentence)
        writer.add(line.sentence, line.vectors, LINE, _about(line, keep_sentence=False))


def _add_by_number(
    writer: Hdf5Writer, lines: Iterable[Line], index: DistinctSentences | None
) -> None:
    count = 0
    for line in lines:
        if index is not None:
            index.add(line.number, line.sentence)
        about = _about(line, keep_sentence=index is not None)
        writer.add(str(line.number), line.vectors, LINE, about)
        count += 1
    writer.file.attrs[ITEMS] = count


def _about(line: Line, keep_sentence: bool) -> dict[str, Any]:
    return {
        **({} if line.id is None else {"id": line.id}),
        **({"sentence": line.sentence} if keep_sentence else {}),
    }


def _add_index(writer: Hdf5Writer, text: BinaryIO, path: PathLike) -> Room | None:
    """Write `sentence_to_index`, or make room for it."""
    size = text.seek(0, io.SEEK_END)
    text.seek(0)
    if size <= SHORT_TEXT_BYTES:
        # As `allennlp elmo` did; but this way a text is in memory as a whole, and more than once.
        contents = text.read().decode("ascii")
        writer.file.create_dataset(SENTENCE_TO_INDEX, data=[contents], dtype=h5py.string_dtype())
        return None
    if size <= LONGEST_TEXT_BYTES:
        return writer.make_room(SENTENCE_TO_INDEX, size)
    warnings.warn(
        f"{path}: is written without {SENTENCE_TO_INDEX}, which would be {size >> 20} MB; "
        "open_vectors finds the sentences nevertheless",
        ElmoWarning,
        stacklevel=3,
    )
    return None


def _get_json(owner: Any, name: bytes) -> dict[str, Any] | None:
    """An object kept by `set_json`; None where there is none."""
    if not h5a.exists(owner, name):
        return None
    attribute = h5a.open(owner, name)
    text = np.empty(attribute.shape, attribute.dtype)
    attribute.read(text)
    found = json.loads(text.item())
    if not isinstance(found, dict):
        raise ValueError(f"its attribute {name.decode()} is no JSON object")
    return found


def _text_of(dataset: h5py.Dataset, path: Path) -> Text:
    """The only text of a dataset: out of the mapped file where it lies there in one piece."""
    offset = dataset.id.get_offset() if dataset.dtype.kind == "S" else None
    if offset is not None:
        size = dataset.dtype.itemsize
        return np.memmap(path, np.uint8, "r", offset, (size,)).data
    try:
        text = dataset[0]
        return text.encode("utf-8") if isinstance(text, str) else bytes(text)
    except (ValueError, TypeError, IndexError, OSError) as error:
        raise FormatError(f"{path}: its {SENTENCE_TO_INDEX} cannot be read ({error})") from error


def _items_of(file: h5py.File) -> tuple[int, list[str] | None]:
    """How many arrays there are, and their keys; None where these are "0", "1", … in full."""
    if ITEMS in file.attrs:
        count = int(file.attrs[ITEMS])
        if count < 0 or (count and str(count - 1) not in file):
            raise ValueError(f"it says that it has {count} items, and has not")
        return count, None
    names = _dataset_names(file)
    numbered = all(name == str(number) for number, name in enumerate(names))
    return len(names), None if numbered else names


def _dataset_names(file: h5py.File) -> list[str]:
    """The keys of all arrays, those in folders too."""
    names = [name for name in file if name != SENTENCE_TO_INDEX]
    if all(map(str.isdecimal, names)):
        return sorted(names, key=int)
    names.clear()

    def keep(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset) and name != SENTENCE_TO_INDEX:
            names.append(name)

    file.visititems(keep)
    return names
