"""NPZ files of any number of arrays, in constant memory.

Python's zipfile keeps a record of every member in memory, so of every sentence. Here the directory
is kept on disk until it is written, and read where it lies.
"""

from __future__ import annotations

import io
import mmap
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.formats.vector_items import PathLike

# PKWARE's APPNOTE.TXT has these: fields in little-endian order, each record after its signature.
LOCAL = struct.Struct("<4s5H3L2H")
LOCAL_SIZES = struct.Struct("<2H2Q")
CENTRAL = struct.Struct("<4s6H3L5H2L")
CENTRAL_SIZES = struct.Struct("<2H3Q")
END = struct.Struct("<4s4H2LH")
END64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR = struct.Struct("<4sLQL")
LOCAL_MARK, CENTRAL_MARK, END_MARK = b"PK\3\4", b"PK\1\2", b"PK\5\6"
END64_MARK, LOCATOR_MARK = b"PK\6\6", b"PK\6\7"

VERSION = 45  # of the format: the first with sizes of 64 bits
ZIP64 = 1  # the extra field that has them
ELSEWHERE = 0xFFFFFFFF  # what stands in a field of 32 bits then
STORED, DEFLATED = 0, 8
FIRST_OF_1980 = (1 << 5) | 1  # no time of day: equal items make equal files
OWN_FILE = 0o600 << 16
LONGEST_COMMENT = 0xFFFF
LONGEST_HEADER = 256  # of an array of few dimensions
SUFFIX = ".npy"
COPY_BYTES = 1 << 20

Bytes = bytes | memoryview


class NpzWriter:
    """Adds arrays to an NPZ file, one by one.

    Args:
        file: Empty, and able to seek.
        directory: An empty file for what is written at the end.
        compress: Deflate the arrays.
    """

    def __init__(self, file: BinaryIO, directory: BinaryIO, compress: bool) -> None:
        self._file = file
        self._directory = directory
        self._method = DEFLATED if compress else STORED
        self._count = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        """Add an array."""
        header = npy_header(values.dtype, values.shape)
        self._add(name, (header, values.ravel().view(np.uint8).data))

    def add_text(self, name: str, text: BinaryIO) -> None:
        """Add the bytes of a file, from its start, as an array (bytes,) of uint8."""
        size = text.seek(0, io.SEEK_END)
        text.seek(0)
        blocks = iter(lambda: text.read(COPY_BYTES), b"")
        self._add(name, _chain(npy_header(np.dtype(np.uint8), (size,)), blocks))

    def finish(self) -> None:
        """Write the directory; the file is an NPZ file then."""
        start = self._file.tell()
        size = self._directory.seek(0, io.SEEK_END)
        self._directory.seek(0)
        copyfileobj(self._directory, self._file, COPY_BYTES)
        end = self._file.tell()
        rest = END64.size - 12  # what follows the field itself
        self._file.write(
            END64.pack(
                END64_MARK, rest, VERSION, VERSION, 0, 0, self._count, self._count, size, start
            )
            + LOCATOR.pack(LOCATOR_MARK, 0, end, 1)
            + END.pack(END_MARK, 0, 0, 0xFFFF, 0xFFFF, ELSEWHERE, ELSEWHERE, 0)
        )

    def _add(self, name: str, blocks: Iterable[Bytes]) -> None:
        encoded = f"{name}{SUFFIX}".encode("ascii")
        start = self._file.tell()
        self._file.write(self._local(encoded, 0, 0, 0))
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS) if self._method == DEFLATED else None
        check = size = packed = 0
        for block in blocks:
            check = zlib.crc32(block, check)
            size += len(block)
            packed += self._file.write(packer.compress(block) if packer else block)
        packed += self._file.write(packer.flush()) if packer else 0
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(self._local(encoded, check, packed, size))
        self._file.seek(end)
        self._directory.write(self._central(encoded, check, packed, size, start))
        self._count += 1

    def _local(self, name: bytes, check: int, packed: int, size: int) -> bytes:
        """What stands before a member."""
        sizes = LOCAL_SIZES.pack(ZIP64, LOCAL_SIZES.size - 4, size, packed)
        return LOCAL.pack(
            LOCAL_MARK, VERSION, 0, self._method, 0, FIRST_OF_1980,
            check, ELSEWHERE, ELSEWHERE, len(name), len(sizes),
        ) + name + sizes  # fmt: skip

    def _central(self, name: bytes, check: int, packed: int, size: int, start: int) -> bytes:
        """What the directory says of a member."""
        sizes = CENTRAL_SIZES.pack(ZIP64, CENTRAL_SIZES.size - 4, size, packed, start)
        return CENTRAL.pack(
            CENTRAL_MARK, VERSION, VERSION, 0, self._method, 0, FIRST_OF_1980,
            check, ELSEWHERE, ELSEWHERE, len(name), len(sizes), 0, 0, 0, OWN_FILE, ELSEWHERE,
        ) + name + sizes  # fmt: skip


class Member(NamedTuple):
    """What the directory says of a member."""

    method: int
    check: int
    packed: int
    size: int
    start: int


class NpzReader:
    """Arrays of an NPZ file, those named by numbers and the others, read where they lie.

    Errors of a damaged file are whatever Python raises.

    Attributes:
        numbers: Names that are numbers, in their order.
        others: All other names, and where in the directory they are.
    """

    def __init__(self, path: PathLike) -> None:
        with Path(path).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.others: dict[str, int] = {}
        numbers, places = array("q"), array("q")
        for name, place in self._directory():
            if name.isdecimal() and name.isascii():
                numbers.append(int(name))
                places.append(place)
            else:
                self.others[name] = place
        order = np.argsort(np.asarray(numbers), kind="stable")
        self.numbers: NDArray[np.int64] = np.asarray(numbers)[order]
        self._places = np.asarray(places)[order]

    def read(self, position: int) -> NDArray[Any]:
        """The array named by the number at a position of `numbers`."""
        return parse_npy(self._bytes(int(self._places[position])))

    def read_text(self, name: str) -> Bytes:
        """The bytes of an array (bytes,) of uint8, or of a scalar text as UTF-8."""
        contents = self._bytes(self.others[name])
        start = io.BytesIO(contents[:LONGEST_HEADER])
        if np.lib.format.read_magic(start) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(start)
            if dtype == np.uint8 and len(shape) == 1:
                return contents[start.tell() : start.tell() + shape[0]]
        return str(parse_npy(contents)).encode("utf-8")

    def close(self) -> None:
        """Free the file; what `read_text` gave must be gone."""
        with suppress(BufferError):  # somebody still looks at it: it is freed when they are done
            self._map.close()

    def _directory(self) -> Iterator[tuple[str, int]]:
        """Names without their suffix, and where each record is."""
        count, place = self._end()
        for _ in range(count):
            record = CENTRAL.unpack_from(self._map, place)
            if record[0] != CENTRAL_MARK:
                raise ValueError("the directory of the archive is damaged")
            name_size, extra_size, comment_size = record[10:13]
            start = place + CENTRAL.size
            name = self._map[start : start + name_size].decode("utf-8")
            yield name.removesuffix(SUFFIX), place
            place = start + name_size + extra_size + comment_size

    def _end(self) -> tuple[int, int]:
        """How many members there are, and where the directory is."""
        begin = max(0, len(self._map) - END.size - LONGEST_COMMENT)
        place = self._map.rfind(END_MARK, begin)
        if place < 0:
            raise ValueError("it has no end of an archive")
        _, _, _, _, count, _, start, _ = END.unpack_from(self._map, place)
        if place >= LOCATOR.size:
            mark, _, end64, _ = LOCATOR.unpack_from(self._map, place - LOCATOR.size)
            if mark == LOCATOR_MARK:
                mark, *_, count, _, start = END64.unpack_from(self._map, end64)
                if mark != END64_MARK:
                    raise ValueError("the end of the archive is damaged")
        return count, start

    def _bytes(self, place: int) -> Bytes:
        """The contents of a member, compared with its checksum."""
        member = self._member(place)
        mark, *_, name_size, extra_size = LOCAL.unpack_from(self._map, member.start)
        start = member.start + LOCAL.size + name_size + extra_size
        packed = memoryview(self._map)[start : start + member.packed]
        contents: Bytes = packed
        if member.method == DEFLATED:
            contents = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
        if (
            mark != LOCAL_MARK
            or member.method not in (STORED, DEFLATED)
            or len(contents) != member.size
            or zlib.crc32(contents) != member.check
        ):
            raise ValueError("a member of the archive is damaged")
        return contents

    def _member(self, place: int) -> Member:
        record = CENTRAL.unpack_from(self._map, place)
        method, check, packed, size = record[4], *record[7:10]
        name_size, extra_size, start = *record[10:12], record[16]
        extra_place = place + CENTRAL.size + name_size
        large = iter(self._zip64(extra_place, extra_place + extra_size))
        size, packed, start = (
            next(large) if value == ELSEWHERE else value for value in (size, packed, start)
        )
        return Member(method, check, packed, size, start)

    def _zip64(self, place: int, end: int) -> tuple[int, ...]:
        """Values of 64 bits among the extra fields of a record."""
        while place + 4 <= end:
            kind, size = struct.unpack_from("<2H", self._map, place)
            if kind == ZIP64:
                return struct.unpack_from(f"<{size // 8}Q", self._map, place + 4)
            place += 4 + size
        return ()


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What stands before the numbers of an array in C order."""
    header = io.BytesIO()
    values = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(header, values)
    return header.getvalue()


def parse_npy(contents: Bytes) -> NDArray[Any]:
    """An array out of the bytes of a .npy file; objects are refused."""
    return np.lib.format.read_array(io.BytesIO(contents), allow_pickle=False)


def _chain(first: bytes, others: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from others
