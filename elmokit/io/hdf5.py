"""HDF5 files, opened so that a damaged one is an error of one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from elmokit.errors import FormatError


@contextmanager
def open_hdf5(path: str | Path) -> Iterator[h5py.File]:
    """Open a file for reading; whatever else it is, only h5py ever interprets it."""
    _check_contents(path)
    with hdf5_damage(path):
        file = h5py.File(path, "r")
    with file:
        yield file


def _check_contents(path: str | Path) -> None:
    """Refuse a file that is not there, is empty, or is no HDF5 file."""
    try:
        with open(path, "rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    if empty:
        raise FormatError(f"{path}: is empty")
    if not h5py.is_hdf5(path):
        raise FormatError(f"{path}: is not an HDF5 file")


@contextmanager
def hdf5_damage(path: str | Path) -> Iterator[None]:
    """Say in one line what h5py could not read; it has no error class of its own for that."""
    try:
        yield
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).strip("'\"")
        raise FormatError(
            f"{path}: is damaged or incomplete ({reason}); copy or download it again"
        ) from error
