"""Numbers from HDF5 files that may be damaged, or something else altogether."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from elmokit.errors import FormatError
from elmokit.formats.shapes import Shape, check_finite


@contextmanager
def open_hdf5(path: str | Path) -> Iterator[h5py.File]:
    """Open a file for reading; whatever else it is, only h5py ever interprets it."""
    _check_contents(path)
    with _damage_of(path):
        file = h5py.File(path, "r")
    with file:
        yield file


def shape_of(file: h5py.File, name: str) -> Shape | None:
    """The shape of a dataset; None when there is none of that name."""
    with _damage_of(file.filename):
        item = file.get(name)
        if not isinstance(item, h5py.Dataset):
            return None
        return (0,) if item.shape is None else item.shape  # None: a dataset that holds nothing


def read_floats(file: h5py.File, name: str) -> Tensor:
    """A dataset of floating-point numbers as float32; anything else is refused."""
    place = f"{file.filename}: {name}"
    with _damage_of(file.filename):
        dataset = file[name]
        if dataset.dtype.kind != "f":
            raise FormatError(f"{place} holds {dataset.dtype}; it must hold floating-point numbers")
        # HDF5 converts what is stored as float64, float16 or with the bytes the other way round.
        values = np.empty(dataset.shape, dtype=np.float32)
        dataset.read_direct(values)
    tensor = torch.from_numpy(values)
    check_finite(tensor, place)
    return tensor


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
def _damage_of(path: str | Path) -> Iterator[None]:
    """Say in one line what h5py could not read; it has no error class of its own for that."""
    try:
        yield
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).strip("'\"")
        raise FormatError(
            f"{path}: is damaged or incomplete ({reason}); copy or download it again"
        ) from error
