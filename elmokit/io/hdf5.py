"""HDF5 files, opened so that a damaged one is an error of one clear line."""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
from h5py import h5z

from elmokit.errors import ElmoError, FormatError, unreadable
from elmokit.io.archives import ALWAYS_ALLOWED, MOST_FOLD
from elmokit.io.files import check_not_pointer

FILTERS = {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_LZF}
"""Of others HDF5 takes the memory that their parameters say."""


@contextmanager
def open_hdf5(path: str | Path, *, check_names: bool = False) -> Iterator[h5py.File]:
    """Open a file for reading; to check its groups' names takes a look at every byte of it."""
    try:
        open(path, "rb").close()  # the system's words, before h5py's
    except OSError as error:
        raise unreadable(FormatError, path, error) from error
    check_not_pointer(Path(path))
    if not h5py.is_hdf5(path):
        raise FormatError(f"{path}: is not an HDF5 file")
    with hdf5_damage(path):
        if check_names:
            _check_free_lists(path)
        file = h5py.File(path, "r")
    with file:
        yield file


def _check_free_lists(path: str | Path) -> None:
    """Raise where the unused places among a group's names form a ring: HDF5 never leaves it."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if not re.match(rb"\x89HDF\r\n\x1a\n([\0\1].{4}|[^\0\1])\x08\x08", data, re.DOTALL):
            raise ValueError("it has a user block, or addresses that are not of 8 bytes")
        left = len(data)  # all lists together: a place has 16 bytes at least, and 1 ends a list
        for heap in re.finditer(rb"HEAP\0(?=.{27})", data, re.DOTALL):
            size, place, start = struct.unpack_from("<3Q", data, heap.start() + 8)
            while place != 1 and place < size and start + place + 8 <= len(data):
                place, left = struct.unpack_from("<Q", data, start + place)[0], left - 16
                if left < 0:
                    raise ValueError("the unused places among its names form a ring")


def find_item(file: h5py.Group, name: str) -> Any:
    """A dataset or group of the file itself; None where there is none of that name.

    Whatever leads to other files raises an error, and so does what may: links other than names.
    """
    place = ""
    for part in name.split("/"):
        place = f"{place}/{part}"
        link = file.get(place, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise FormatError(f"{file.filename}: {name[:100]} is a link elsewhere, not followed")
    item = file[name]
    if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
        raise FormatError(f"{file.filename}: {name[:100]} is in another file, which is not read")
    return item


def check_size(dataset: h5py.Dataset, stored: int, taken: int = 0) -> int:
    """The bytes of a dataset, with those `taken` before; raises for far more than are stored."""
    how, taken = dataset.id.get_create_plist(), taken + dataset.nbytes
    known = {how.get_filter(number)[0] for number in range(how.get_nfilters())} <= FILTERS
    largest = max(taken, math.prod(dataset.chunks or ()) * dataset.dtype.itemsize)
    if not known or largest > max(ALWAYS_ALLOWED, MOST_FOLD * stored):
        raise FormatError(
            f"{dataset.file.filename}: {dataset.name} would grow more than {MOST_FOLD} times, "
            "or has a filter of HDF5 that may, when it is read"
        )
    return taken


@contextmanager
def hdf5_damage(path: str | Path) -> Iterator[None]:
    """Say in one line what h5py could not read; it has no error class of its own for that."""
    try:
        yield
    except ElmoError:
        raise
    except (KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).strip("'\"")
        line = f"{path}: is damaged or incomplete ({reason}); copy or download it again"
        raise FormatError(line) from error
