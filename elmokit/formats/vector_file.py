"""A file of vectors as a sequence: each item is read when it is asked for."""

from __future__ import annotations

import operator
import os
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, Self, SupportsIndex, TypeVar, overload

import numpy as np

from elmokit.errors import FormatError, InputError
from elmokit.formats.vector_items import PathLike, SentenceVectors

DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,  # a damaged size asks for any amount
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What libraries raise on a file that is not what its name says."""


class VectorFile(Sequence[SentenceVectors], ABC):
    """Sentences and their vectors, in the order of the input's lines.

    `len`, `[n]`, slices (as lists) and iteration read no more of the file than they need. Arrays
    are float32, whatever the file holds. Reading from several threads and in forked processes is
    safe; a pickled one is opened anew by its path, as workers of a `DataLoader` do.

    Attributes:
        path: The file.
        description: What its writer remembered, such as which `layers` it holds.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.description: dict[str, Any] = {}
        self._closed = False
        check_readable(path)

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


class Handle(Protocol):
    """What a library has open."""

    def close(self) -> Any:
        """Give it back."""


AnyHandle = TypeVar("AnyHandle", bound=Handle)


class OwnHandle(Generic[AnyHandle]):
    """A handle for each process: after a fork the child opens the file for itself.

    Parent and child would otherwise share a position in the file, and read each other's bytes.
    """

    def __init__(self, open_handle: Callable[[], AnyHandle]) -> None:
        self._open = open_handle
        self._handle = open_handle()
        self._process = os.getpid()

    def get(self) -> AnyHandle:
        """The handle of this process."""
        if self._process != os.getpid():
            self._handle.close()
            self._handle = self._open()
            self._process = os.getpid()
        return self._handle

    def close(self) -> None:
        """Close the handle of this process."""
        self._handle.close()


def check_readable(path: PathLike) -> None:
    """Refuse a file that is not there or cannot be opened."""
    try:
        open(path, "rb").close()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from error


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
