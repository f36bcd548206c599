"""A file of vectors as a sequence: each item is read when it is asked for."""

from __future__ import annotations

import json
import operator
import os
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, SupportsIndex, overload
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from elmokit.config import Settings
from elmokit.errors import FormatError, InputError, unreadable

Pool = Literal["none", "mean", "max"]
DType = Literal["float32", "float16"]
Description = Mapping[str, str | int | float | None]


@dataclass(frozen=True)
class VectorSettings(Settings):
    """What is made of each sentence, and how it is written.

    Attributes:
        layers: "average", "sum", "top", "all", the number of a layer (0 is the token layer), or
            "mix".
        mix: The file of a trained mix, or the folder of a task that has one, where layers is "mix".
        pool: "mean" or "max" over the words of a sentence; None or "none" keeps the words.
        dtype: "float32" or "float16".
        compression: One that the format has; None is none.
        keep_sentences: Write the sentences too.
        output_format: "hdf5" whatever the file's name says.
        description: What the file is to remember of its vectors, such as which `layers` they are
            of. Bulk embedding knows and fills it in; of arrays from elsewhere, writers know
            nothing but this.
    """

    layers: str | int = "average"
    mix: Annotated[str | Path, "give the name of a file"] | None = None
    pool: Pool | None = "none"
    dtype: DType = "float32"
    compression: str | None = None
    keep_sentences: bool = True
    output_format: Literal["hdf5"] | None = None
    description: Description | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layers", str(self.layers))
        if self.mix is not None:
            inside = Path(self.mix) / "mix.json" if Path(self.mix).is_dir() else self.mix
            object.__setattr__(self, "mix", str(inside))
        object.__setattr__(self, "pool", self.pool or "none")


DEFAULTS = VectorSettings()


PathLike = str | Path
Array = NDArray[np.float32]


class Item(NamedTuple):
    """One line of the input, to be written."""

    words: Sequence[str] | str  # a sentence: words, or the text
    vectors: NDArray[Any]
    id: str | int | None = None

    @property
    def sentence(self) -> str:
        """Its words joined by spaces, or its text as it is."""
        return self.words if isinstance(self.words, str) else " ".join(self.words)


class SentenceVectors(NamedTuple):
    """One line of the input, as it is read back."""

    sentence: str | None  # words joined by spaces; None where the file does not tell
    vectors: Array  # of the shape it was written with
    id: str | int | None = None


def checked_items(
    path: PathLike, items: Iterable[Item | tuple[Any, ...]], dtype: DType
) -> Iterator[Item]:
    """Items whose arrays are finite numbers of `dtype`, in C order and of one kind of shape."""
    expected: tuple[int | None, ...] | None = None
    for number, item in enumerate(items, start=1):
        words, vectors, id_ = Item(*item)
        array = np.asarray(vectors)
        place = f"{path}: not written; line {number}"
        found = fixed_dimensions(array, place)
        if found != (expected := expected or found):
            others = str(expected).replace("None", "words")
            raise InputError(
                f"{place} has vectors of shape {array.shape}, the lines before {others}"
            )
        yield Item(words, as_finite(array, dtype, place), id_)


def fixed_dimensions(array: NDArray[Any], place: str) -> tuple[int | None, ...]:
    """The shape, with None for the dimension that differs from line to line."""
    if array.ndim not in (1, 2, 3) or not array.shape[-1]:
        raise InputError(
            f"{place} has vectors of shape {array.shape}; give (words, size), "
            "(layers, words, size), or (size,)"
        )
    return (*array.shape[:-2], None, array.shape[-1]) if array.ndim > 1 else array.shape


def as_finite(array: NDArray[Any], dtype: DType, place: str) -> NDArray[Any]:
    """The numbers as `dtype`; NaN, infinities and what is too large for it are errors."""
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(array, dtype=dtype)
    if not np.isfinite(converted).all():
        if np.isfinite(array).all():
            advice = "; use float32" if dtype == "float16" else ""
            raise InputError(f"{place} has numbers that are too large for {dtype}{advice}")
        raise InputError(f"{place} has NaN or infinite vectors")
    return converted


DAMAGE = (
    BadZipFile,
    EOFError,
    KeyError,
    MemoryError,  # a damaged size asks for any amount
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What h5py, zipfile, NumPy, pyarrow and json raise on a file that is not what its name says."""


class VectorFile(Sequence[SentenceVectors], ABC):
    """Sentences and their vectors, in the order of the input's lines.

    `len`, `[n]`, slices (as lists) and iteration read no more of the file than they need. Arrays
    are float32, whatever the file holds. Reading from several threads and in forked processes is
    safe; a pickled one is opened again by its path, as workers of a `DataLoader` do.

    Attributes:
        path: The file.
        description: What its writer remembered, such as which `layers` it holds.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.description: dict[str, Any] = {}
        self._closed = False
        try:
            open(path, "rb").close()
        except OSError as error:
            raise unreadable(FormatError, path, error) from error

    @abstractmethod
    def __len__(self) -> int: ...

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Numbers of items and their sentences, without the vectors, as far as they are known.

        Where a sentence comes more than once, its last number is among them.
        """
        self._check_open()
        with damage_of(self.path):
            yield from self._known_sentences()

    @abstractmethod
    def _known_sentences(self) -> Iterator[tuple[int, str]]: ...

    @abstractmethod
    def _read(self, number: int) -> SentenceVectors:
        """Read an item; errors of libraries about damaged files are let through."""

    @abstractmethod
    def _close(self) -> None: ...

    @overload
    def __getitem__(self, index: SupportsIndex) -> SentenceVectors: ...
    @overload
    def __getitem__(self, index: slice) -> list[SentenceVectors]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> SentenceVectors | list[SentenceVectors]:
        if isinstance(index, slice):
            return [self._checked(number) for number in range(*index.indices(len(self)))]
        number = operator.index(index)
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"{self.path}: has {count} items; there is no [{number}]")
        return self._checked(number % count)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self.path,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the file; nothing can be read after that."""
        self._closed = True
        self._close()

    def _checked(self, number: int) -> SentenceVectors:
        self._check_open()
        with damage_of(self.path), np.errstate(over="ignore"):
            sentence, vectors, identity = self._read(number)
            if vectors.dtype.kind not in "fiu" or vectors.ndim not in (1, 2, 3):
                raise ValueError(f"item {number} is {vectors.dtype} of shape {vectors.shape}")
            vectors = np.require(vectors, np.float32, ("C", "W"))
            if not np.isfinite(vectors).all():
                raise ValueError(f"item {number} has NaN or infinite numbers")
        return SentenceVectors(sentence, vectors, identity)

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self.path}: is closed; open it again")


class OwnHandle:
    """A handle of a library for each process: after a fork the child opens the file for itself.

    Parent and child would otherwise share a position in the file, and read each other's bytes.
    """

    def __init__(self, open_handle: Callable[[], Any]) -> None:
        self._open = open_handle
        self._handle = open_handle()
        self._process = os.getpid()

    def get(self) -> Any:
        """The handle of this process."""
        if self._process != os.getpid():
            self._handle.close()
            self._handle = self._open()
            self._process = os.getpid()
        return self._handle

    def close(self) -> None:
        """Close the handle of this process."""
        self._handle.close()


@contextmanager
def damage_of(path: PathLike) -> Iterator[None]:
    """Say in one line what could not be read."""
    try:
        yield
    except DAMAGE as error:
        why = " ".join(str(error).split()).strip("'\"")[:200] or type(error).__name__
        raise FormatError(
            f"{path}: is not a file of vectors, or is damaged ({why}); make or copy it again"
        ) from error


def parse_object(text: str | bytes, name: str) -> dict[str, Any]:
    """The JSON object that is the part `name` of a file."""
    found = json.loads(text) if isinstance(text, str | bytes) else None
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is not a JSON object")
    return found
