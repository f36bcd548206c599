"""HDF5 files, opened so that a damaged one is an error of one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from elmokit.errors import ElmoError, FormatError, unreadable
from elmokit.io.files import check_not_pointer


@contextmanager
def open_hdf5(path: str | Path) -> Iterator[h5py.File]:
    """Open a file for reading; whatever else it is, only h5py ever interprets it."""
    try:
        open(path, "rb").close()  # the system's words, before h5py's
    except OSError as error:
        raise unreadable(FormatError, path, error) from error
    check_not_pointer(Path(path))
    if not h5py.is_hdf5(path):
        raise FormatError(f"{path}: is not an HDF5 file")
    with hdf5_damage(path):
        file = h5py.File(path, "r")
    with file:
        yield file


@contextmanager
def hdf5_damage(path: str | Path) -> Iterator[None]:
    """Say in one line what h5py could not read; it has no error class of its own for that."""
    try:
        yield
    except ElmoError:
        raise
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).strip("'\"")
        raise FormatError(
            f"{path}: is damaged or incomplete ({reason}); copy or download it again"
        ) from error
