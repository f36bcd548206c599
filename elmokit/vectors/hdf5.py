"""Vectors as HDF5, in the layout of `allennlp elmo`: a dataset "0", "1", … for each line.

`sentence_to_index` is a JSON object from sentence to the number of its line, for old readers. What
they do not look at are attributes: `line` of a dataset, a JSON object with the line's sentence and
id; `items` and `description` of the file.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from elmokit.errors import ElmoWarning, InputError
from elmokit.io.files import write_atomically
from elmokit.io.hdf5 import check_size, find_item, open_hdf5
from elmokit.system import StopRequest, stop_requests
from elmokit.text.characters import word_bytes
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

SENTENCE_TO_INDEX = "sentence_to_index"
LINE, DESCRIPTION, ITEMS = "line", "description", "items"

FORMAT_VERSION = ("v108", "v108")
"""HDF5 of 2008, which every h5py reads; older groups would have all their names in memory."""
WORDS_PER_CHUNK = 1024
GZIP_LEVEL = 4
DEEPEST = 100  # folders of a sentence that is a name
LONGEST_INDEX = (1 << 31) - 1  # bytes of a text that NumPy and old readers have room for


def write_hdf5(
    path: PathLike,
    items: Iterable[Item | tuple[Any, ...]],
    settings: VectorSettings = DEFAULTS,
    *,
    sentence_keys: bool = False,
) -> None:
    """Write the layout of `allennlp elmo`; of all items only the sentences are in memory.

    Sentences that are kept are in `sentence_to_index` too, a JSON object from sentence to key.
    Where a sentence occurs twice, its last line is the one there. With `sentence_keys` each dataset
    is named by its sentence instead; all sentences must differ.
    """
    keys = SentenceKeys(path) if sentence_keys else None
    lines = checked_items(path, items, settings.dtype)
    with write_atomically(path) as temporary, DeferredErrorFile.open(temporary) as disk:
        with h5py.File(disk, "w", libver=FORMAT_VERSION) as file:
            if settings.description is not None:
                _set_json(file.id, DESCRIPTION, settings.description)
            index = _add_all(file, disk, lines, settings, keys)
            if settings.keep_sentences and keys is None:
                _add_index(file, index, path)
        disk.check()


def _add_all(
    file: h5py.File,
    disk: DeferredErrorFile,
    items: Iterable[Item],
    settings: VectorSettings,
    keys: SentenceKeys | None,
) -> dict[str, str]:
    """Write items as long as the disk takes them; give the keys of sentences, in their order."""
    writer = _DatasetWriter(file, compress=settings.compression == "gzip")
    index: dict[str, str] = {}
    count = 0
    for item in items:
        disk.check()
        key = str(count) if keys is None else keys.add(item.sentence)
        about = {} if item.id is None else {"id": item.id}
        if settings.keep_sentences and keys is None:
            about["sentence"] = item.sentence
            index.pop(item.sentence, None)  # the last of equal sentences has its place
            index[item.sentence] = key
        writer.add(key, item.vectors, about)
        count += 1
    if keys is None:
        file.attrs[ITEMS] = count
    return index


class DeferredErrorFile(io.FileIO):
    """A file that stores the first error of writing, to be raised outside of HDF5.

    If a write fails while HDF5 closes a file, the process crashes later. Free space tells nothing
    of quotas and limits on the size of files, so it cannot be checked before. Ctrl-C, raised while
    HDF5 calls these methods, would crash the process too, and is deferred likewise.
    """

    _error: OSError | None = None
    _stop: StopRequest

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Make a file, and collect signals until it is closed."""
        with cls(path, "w+") as file, stop_requests() as file._stop:
            yield file

    def check(self) -> None:
        """Raise what was deferred."""
        if self._error is not None:
            raise self._error
        if self._stop.made:
            raise KeyboardInterrupt

    def write(self, data: Any) -> int:
        """Write all of the data, or store the error."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self._error = self._error or error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file, or store the error."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._error = self._error or error
            return size or 0

    def readinto(self, buffer: Any) -> int:
        """Fill all of a buffer, with zeros where nothing was written."""
        view = memoryview(buffer).cast("B")
        count = super().readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)


class _DatasetWriter:
    """Adds datasets by h5py's low-level calls, which for many short ones take half the time."""

    def __init__(self, file: h5py.File, compress: bool) -> None:
        self._file = file.id
        self._compress = compress
        self._links = h5p.create(h5p.LINK_CREATE)
        self._links.set_create_intermediate_group(True)
        self._links.set_char_encoding(h5t.CSET_UTF8)
        self._plain = h5p.create(h5p.DATASET_CREATE)
        self._plain.set_obj_track_times(False)  # without times, equal items make equal files

    def add(self, key: str, values: NDArray[Any], about: Mapping[str, Any]) -> None:
        """Add an array and, if there is something to say about it, an attribute that does."""
        creation = self._compressed(values.shape) if self._compress and values.size else self._plain
        kind, space = h5t.py_create(values.dtype), h5s.create_simple(values.shape)
        dataset = h5d.create(self._file, key.encode(), kind, space, creation, self._links)
        dataset.write(h5s.ALL, h5s.ALL, values)
        if about:
            _set_json(dataset, LINE, about)

    def _compressed(self, shape: tuple[int, ...]) -> h5p.PropDCID:
        creation = self._plain.copy()
        words = (min(count, WORDS_PER_CHUNK) for count in shape[-2:-1])
        creation.set_chunk((*shape[:-2], *words, shape[-1]))
        creation.set_shuffle()
        creation.set_deflate(GZIP_LEVEL)
        return creation


def _add_index(file: h5py.File, index: dict[str, str], path: PathLike) -> None:
    text = json.dumps(index)
    if len(text) <= LONGEST_INDEX:
        file.create_dataset(SENTENCE_TO_INDEX, data=[text], dtype=h5py.string_dtype())
        return
    warnings.warn(
        f"{path}: is written without {SENTENCE_TO_INDEX}, which would be {len(text) >> 20} MB; "
        "open_vectors finds the sentences nevertheless",
        ElmoWarning,
        stacklevel=3,
    )


def _set_json(owner: Any, name: str, value: Mapping[str, Any]) -> None:
    """Write an object as an attribute: a JSON text in ASCII, of any length."""
    text = np.array(json.dumps(dict(value)).encode("ascii"))
    kind = h5t.py_create(text.dtype)
    h5a.create(owner, name.encode(), kind, h5s.create(h5s.SCALAR)).write(text, kind)


class SentenceKeys:
    """Sentences that name datasets of an HDF5 file, where "/" makes folders."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self._lines: dict[str, int] = {}
        self._folders: dict[str, int] = {}

    def add(self, sentence: str) -> str:
        """Give the next line's sentence; raise if it cannot be a name, or is one already."""
        line = len(self._lines) + 1
        place = f"{self.path}: line {line}, {sentence[:40]!r},"
        names = sentence.split("/")
        encodable = word_bytes(sentence).decode() == sentence
        odd = not {"", "."}.isdisjoint(names) or len(names) > DEEPEST
        if odd or "\0" in sentence or not encodable:
            raise InputError(f"{place} cannot be a key of an HDF5 file; use line numbers as keys")
        *folders, _ = accumulate(names, "{}/{}".format)
        earlier = next((self._lines[name] for name in folders if name in self._lines), None)
        earlier = earlier or self._lines.get(sentence) or self._folders.get(sentence)
        if earlier is not None:
            raise InputError(f"{place} has the key of line {earlier}; use line numbers as keys")
        self._lines[sentence] = line
        self._folders.update(dict.fromkeys(folders, line))
        return sentence


class Hdf5Vectors(VectorFile):
    """Reads the layout of `allennlp elmo`, in the order of its keys, numbers or sentences."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        with damage_of(path):
            self._file = OwnHandle(lambda: open_hdf5(self.path))
            file = self._file.get()
            self.description = _get_json(file, DESCRIPTION)
            self._count, self._names = _items_of(file)

    def __len__(self) -> int:
        return self._count

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        indexed = self._keys_are_sentences or bool(self._sentences)
        for number in range(self._count):
            if indexed:
                sentence = self._sentence(number)
            else:
                dataset = find_item(self._file.get(), self._key(number))
                sentence = _get_json(dataset, LINE).get("sentence")
            if sentence is not None:
                yield number, sentence

    def _read(self, number: int) -> SentenceVectors:
        dataset = find_item(self._file.get(), self._key(number))
        line = _get_json(dataset, LINE)
        sentence = line["sentence"] if "sentence" in line else self._sentence(number)
        return SentenceVectors(sentence, _vectors(dataset, number), line.get("id"))

    def _close(self) -> None:
        self._file.close()

    def _key(self, number: int) -> str:
        return str(number) if self._names is None else self._names[number]

    def _sentence(self, number: int) -> str | None:
        """What the names of datasets, or `sentence_to_index`, tell."""
        key = self._key(number)
        return key if self._keys_are_sentences else self._sentences.get(key)

    @cached_property
    def _keys_are_sentences(self) -> bool:
        return self._names is not None and not all(map(str.isdecimal, self._names))

    @cached_property
    def _sentences(self) -> dict[str, str]:
        """The sentence of each key, by `sentence_to_index`."""
        file = self._file.get()
        dataset = find_item(file, SENTENCE_TO_INDEX)
        if dataset is None:
            return {}
        is_text = isinstance(dataset, h5py.Dataset) and h5py.check_string_dtype(dataset.dtype)
        if not is_text or dataset.shape != (1,):
            raise ValueError(f"its {SENTENCE_TO_INDEX} is not one text")
        check_size(dataset, dataset.id.get_storage_size())
        index = parse_object(self._text(dataset), SENTENCE_TO_INDEX)
        if not all(str(key).isdecimal() for key in index.values()):
            raise ValueError(f"its {SENTENCE_TO_INDEX} has keys that are not numbers")
        return {str(key): sentence for sentence, key in index.items()}

    def _text(self, dataset: h5py.Dataset) -> bytes:
        """A text of any length; HDF5 itself would believe, without end, what its heap says."""
        if dataset.dtype.kind != "O":
            return bytes(dataset[0])
        with open(self.path, "rb") as file:
            file.seek(dataset.id.get_offset() or 0)
            length, address, wanted = struct.unpack("<IQI", file.read(16))
            file.seek(min(address, LONGEST_INDEX << 20) + 16)  # behind the heap's own head
            while (entry := struct.unpack("<H6xQ", file.read(16)))[0] != wanted:
                file.seek(min(entry[1] + -entry[1] % 8, LONGEST_INDEX), io.SEEK_CUR)
            if max(length, entry[1]) > self.path.stat().st_size:
                raise ValueError(f"its {SENTENCE_TO_INDEX} is longer than the file")
            return file.read(min(length, entry[1]))


def _vectors(dataset: Any, number: int) -> NDArray[Any]:
    with suppress(AttributeError, TypeError):  # it is a folder, or has a type unknown to NumPy
        if dataset.dtype.kind == "f" and dataset.shape is not None:
            check_size(dataset, dataset.id.get_storage_size())
            return dataset[()]
    raise ValueError(f"item {number} does not hold floating-point numbers")


def _get_json(owner: h5py.HLObject, name: str) -> dict[str, Any]:
    """An object written by `_set_json`; empty where there is none."""
    return parse_object(_attribute(owner, name), name) if name in owner.attrs else {}


def _attribute(owner: h5py.HLObject, name: str) -> Any:
    try:
        if owner.attrs.get_id(name).dtype.kind not in "Siu":  # others may say that they are huge
            raise ValueError(f"its {name} is neither a text of fixed length nor a number")
        return owner.attrs[name]
    except TypeError as error:  # of h5py: damaged types have no counterpart in NumPy
        raise ValueError(str(error)) from error


def _items_of(file: h5py.File) -> tuple[int, list[str] | None]:
    """How many arrays there are, and their keys; None where these are "0", "1", … in full."""
    if ITEMS not in file.attrs:
        names = _dataset_names(file)
        numbered = all(name == str(number) for number, name in enumerate(names))
        return len(names), None if numbered else names
    count = _attribute(file, ITEMS)
    if not isinstance(count, np.integer):
        raise ValueError(f"its number of items is {count!r}")
    count = int(count)
    if count < 0 or (count and find_item(file, str(count - 1)) is None):
        raise ValueError(f"it says that it has {count} items, and has not")
    return count, None


def _dataset_names(file: h5py.File) -> list[str]:
    """The keys of all arrays, those in folders too."""
    names = [name for name in file if name != SENTENCE_TO_INDEX]
    if all(map(str.isdecimal, names)):
        return sorted(names, key=int)
    names.clear()

    def collect(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if name.count("/") > DEEPEST:  # HDF5 takes the more time for each the deeper it is
            raise ValueError(f"its folders are more than {DEEPEST} deep")
        if isinstance(item, h5py.Dataset) and name != SENTENCE_TO_INDEX:
            names.append(name)

    file.visititems(collect)
    return names
