"""HDF5 files of any number of datasets, in constant memory and on any disk."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t
from numpy.typing import NDArray

from elmokit.formats.interrupts import HeldInterrupts, held_interrupts
from elmokit.formats.unfailing_file import UnfailingFile

FORMAT_VERSION = ("v108", "v108")
"""HDF5 of 2008, which every h5py reads. With older groups, a million names are in memory."""
CACHE_BYTES = 4 << 20
WORDS_PER_CHUNK = 1024
GZIP_LEVEL = 4
COPY_BYTES = 1 << 20
KINDS_REMEMBERED = 1024
"""Types and shapes, each of which HDF5 would otherwise make anew for every dataset."""


class Room(NamedTuple):
    """A place in a file that HDF5 has reserved and will not write to."""

    offset: int

    def fill(self, raw: io.FileIO, text: BinaryIO) -> None:
        """Copy a text there, piece by piece, once HDF5 is done with the file."""
        raw.seek(self.offset)
        with open(raw.fileno(), "wb", buffering=COPY_BYTES, closefd=False) as file:
            while block := text.read(COPY_BYTES):
                file.write(block)


class Hdf5Writer:
    """Adds datasets by h5py's low-level calls, which cost less where they are short and many.

    Equal arrays make equal files: nothing in them is of the time of day.

    Attributes:
        file: For whatever else is to be written.
    """

    def __init__(
        self, file: h5py.File, disk: UnfailingFile, interrupts: HeldInterrupts, compress: bool
    ) -> None:
        self.file = file
        self._disk = disk
        self._interrupts = interrupts
        self._compress = compress
        self._names = h5p.create(h5p.LINK_CREATE)
        self._names.set_create_intermediate_group(True)
        self._names.set_char_encoding(h5t.CSET_UTF8)
        self._plain = _creation()

    def add(
        self, key: str, values: NDArray[Any], attribute: bytes, about: Mapping[str, Any]
    ) -> None:
        """Add an array and, if there is something to say about it, an attribute that does."""
        dataset = h5d.create(
            self.file.id,
            key.encode("utf-8"),
            _type(values.dtype),
            _space(values.shape),
            self._compressed(values.shape) if self._compress and values.size else self._plain,
            self._names,
        )
        dataset.write(h5s.ALL, h5s.ALL, values)
        if about:
            set_json(dataset, attribute, about)
        self._disk.check()
        self._interrupts.check()

    def make_room(self, key: str, size: int) -> Room:
        """Add a dataset (1,) of a text of that many bytes, to be filled in later."""
        creation = _creation()
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
        kind = h5t.py_create(np.dtype(f"S{size}"))
        space = h5s.create_simple((1,))
        return Room(h5d.create(self.file.id, key.encode(), kind, space, creation).get_offset())

    def _compressed(self, shape: tuple[int, ...]) -> h5p.PropDCID:
        creation = _creation()
        words = (min(count, WORDS_PER_CHUNK) for count in shape[-2:-1])
        creation.set_chunk((*shape[:-2], *words, shape[-1]))
        creation.set_shuffle()
        creation.set_deflate(GZIP_LEVEL)
        return creation


@contextmanager
def hdf5_writer(raw: io.FileIO, compress: bool) -> Iterator[Hdf5Writer]:
    """Write HDF5 into an empty file; what the disk refuses is raised, at the latest at the end.

    So is Ctrl-C, which waits until HDF5 is not at work: raised inside, it would crash the process.
    """
    disk = UnfailingFile(raw)
    with held_interrupts() as interrupts:
        with h5py.File(disk, "w", libver=FORMAT_VERSION) as file:
            cache = file.id.get_mdc_config()
            cache.max_size = CACHE_BYTES
            file.id.set_mdc_config(cache)
            yield Hdf5Writer(file, disk, interrupts, compress)
        disk.check()


def set_json(owner: Any, name: bytes, value: Mapping[str, Any]) -> None:
    """Keep an object as an attribute: a JSON text in ASCII, of any length."""
    text = np.array(json.dumps(value).encode("ascii"))
    kind = _type(text.dtype)
    h5a.create(owner, name, kind, _space(())).write(text, kind)


@lru_cache(KINDS_REMEMBERED)
def _type(dtype: np.dtype[Any]) -> h5t.TypeID:
    return h5t.py_create(dtype)


@lru_cache(KINDS_REMEMBERED)
def _space(shape: tuple[int, ...]) -> h5s.SpaceID:
    return h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)


def _creation() -> h5p.PropDCID:
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_obj_track_times(False)
    return creation
