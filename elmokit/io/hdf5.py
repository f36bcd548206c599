"""HDF5 files, opened so that a damaged one is an error of one clear line."""

from __future__ import annotations

import io
import math
import os
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py
from h5py import h5i, h5z

from elmokit.errors import ElmoError, FormatError, unreadable
from elmokit.io.archives import ALWAYS_ALLOWED, MOST_FOLD
from elmokit.io.files import check_not_pointer

FILTERS = {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_LZF}
"""Of others HDF5 takes the memory that their parameters say."""

START = re.compile(rb"\x89HDF\r\n\x1a\n([\0\1].{4}|[^\0\1])\x08\x08", re.DOTALL)
MARKS = re.compile(rb"HEAP\0|MDCI\0[\0\1].{5}\0{3}", re.DOTALL)
"""Where a heap of names begins, or an image of HDF5's cache, which may hold heaps."""
COPY = "copy its contents into a new file (by h5py; h5unjam takes a user block away)"
LONGEST_MARK, LOOKED_AT = 14, 4096
"""Bytes. HDF5 reads names from where their heap begins, h5py's driver having no buffer."""


def open_hdf5(path: str | Path) -> h5py.File:
    """Open a file for reading."""
    with hdf5_damage(path):
        try:
            disk = CheckedFile(path)
        except OSError as error:  # the system's words, before h5py's
            raise unreadable(FormatError, path, error) from error
        with ExitStack() as opened:
            opened.callback(disk.close)
            check_not_pointer(Path(path))
            if not h5py.is_hdf5(path):
                raise FormatError(f"{path}: is not an HDF5 file")
            if not START.match(disk.read(16)):
                problem = "has a user block, or addresses that are not of 8 bytes"
                raise FormatError(f"{path}: {problem}; {COPY}")
            file = h5py.File(path, "r", driver="fileobj", fileobj=disk)
            opened.pop_all()
            return file


class CheckedFile(io.FileIO):
    """What HDF5 reads; raises where a B-tree, or the unused places among names, form a ring.

    HDF5 would follow it for ever, or until its stack overflows, as soon as it has read its start.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._size = self._left = os.fstat(self.fileno()).st_size
        self._known, self._below = set[int](), set[int]()  # what was looked at; nodes of B-trees

    def __del__(self) -> None:
        self.close()  # HDF5 does not

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place, which damaged files have beyond their end or what is counted to."""
        return super().seek(min(place, self._size), whence)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, with zeros behind the end of the file."""
        view, start = memoryview(buffer).cast("B"), self.tell()
        rest = view
        while count := super().readinto(rest):
            rest = rest[count:]
        rest[:] = bytes(len(rest))
        edge = max(0, start - LONGEST_MARK)
        block = self._at(edge, start - edge + LOOKED_AT)
        if b"HEAP\0" in block or b"MDCI\0" in block:  # ten times as fast as the pattern
            for place in {edge + mark.start() for mark in MARKS.finditer(block)} - self._known:
                self._check_names(place)
                self._known.add(place)
        if block[start - edge :].startswith(b"TREE") and start not in self._known:
            self._check_tree(bytes(view))
            self._known.add(start)
        return len(view)

    def _at(self, place: int, size: int) -> bytes:
        self.seek(place)
        return self.read(size)

    def _check_tree(self, node: bytes) -> None:
        kind, level, used = struct.unpack_from("<BBH", node.ljust(8, b"\0"), 4)
        key, rest = divmod(len(node) - 536, 65) if kind else (8, 0)  # of chunks, 64 in each node
        if not level:
            return
        wanted = b"TREE" + bytes([kind, level - 1])
        for place in range(24 + key, min(24 + key + used * (key + 8), len(node) - 7), key + 8):
            (child,) = struct.unpack_from("<Q", node, place)
            if rest or child in self._below or self._at(child, 6) != wanted:
                raise ValueError("its B-trees are not trees")
            self._below.add(child)

    def _check_names(self, heap: int) -> None:
        head = self._at(heap, 32).ljust(32, b"\0")
        if head.startswith(b"MDCI"):
            raise FormatError(f"{self.name}: has an image of HDF5's cache; repack it (h5repack)")
        size, place, start = struct.unpack_from("<3Q", head, 8)
        while place != 1 and place < size and start + place + 8 <= self._size:
            (place,) = struct.unpack("<Q", self._at(start + place, 8))
            self._left -= 16  # of all lists: a place has so many bytes at least, and 1 ends a list
            if self._left < 0:
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
    stored = min(stored, h5i.get_file_id(dataset.id).get_filesize())  # what it says, and has
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
