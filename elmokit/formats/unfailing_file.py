"""A file for libraries that cannot bear a full disk."""

from __future__ import annotations

import io
import os
from typing import Any


class UnfailingFile:
    """A file that takes whatever is written, and tells only those who ask that the disk refused.

    HDF5 needs it: if a write fails while it closes a file, the process crashes later. What the disk
    refuses is kept in memory, so that HDF5 can read it again and close in peace. Ask often.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._position = 0
        self._size = 0
        self._error: OSError | None = None
        self._refused: list[tuple[int, bytes]] = []

    def check(self) -> None:
        """Raise what the disk refused."""
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; from the start or from the end."""
        self._position = offset + (self._size if whence == os.SEEK_END else 0)
        return self._position

    def tell(self) -> int:
        """The place."""
        return self._position

    def write(self, data: Any) -> int:
        """Take all of it."""
        block = memoryview(data).cast("B")
        if self._error is None:
            try:
                self._write(block)
            except OSError as error:
                self._error = error
        if self._error is not None:
            self._refused.append((self._position, bytes(block)))
        self._position += len(block)
        self._size = max(self._size, self._position)
        return len(block)

    def read(self, size: int) -> bytes:
        """That many bytes; h5py takes nothing for a file that lacks this."""
        found = bytearray(size)
        self.readinto(found)
        return bytes(found)

    def readinto(self, buffer: Any) -> int:
        """Fill all of a buffer, with zeros where nothing was written."""
        view = memoryview(buffer).cast("B")
        self._file.seek(self._position)
        done = 0
        while done < len(view) and (count := self._file.readinto(view[done:])):
            done += count
        view[done:] = bytes(len(view) - done)
        for start, block in self._refused:
            self._copy(start, block, view)
        self._position += len(view)
        return len(view)

    def truncate(self, size: int) -> int:
        """End the file here."""
        self._size = size
        if self._error is None:
            try:
                self._file.truncate(size)
            except OSError as error:
                self._error = error
        return size

    def flush(self) -> None:
        """Nothing waits in here."""

    def _write(self, block: memoryview) -> None:
        self._file.seek(self._position)
        done = 0
        while done < len(block):
            done += self._file.write(block[done:])

    def _copy(self, start: int, block: bytes, view: memoryview) -> None:
        """Copy the part of a refused block that the view at this place shows."""
        begin = max(start, self._position)
        end = min(start + len(block), self._position + len(view))
        if begin < end:
            view[begin - self._position : end - self._position] = block[begin - start : end - start]
