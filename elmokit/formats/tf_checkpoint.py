"""TensorFlow checkpoints (`NAME.index`, `NAME.data-*`) of the original code and of TF-Hub modules.

Read without TensorFlow. An index is a table of LevelDB, whose values are protocol buffers; the data
are plain numbers. Every block and every tensor that is read is compared with its CRC-32C.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.errors import FormatError, MissingFileError
from elmokit.formats.native import check_finite
from elmokit.io.files import check_not_pointer, disk_errors

MAGIC = bytes.fromhex("57fb808b247547db")
"""The last bytes of an index, and of a checkpoint in the format before TensorFlow 0.12."""
LARGEST_INDEX = 4 << 20  # bytes; those of the published models have a few thousand
LONGEST_NAME = 4096
FOOTER, TRAILER = 48, 5
DTYPES = {1: "<f4", 2: "<f8", 14: "bfloat16", 19: "<f2"}
COPY = "copy or download it again"

SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
BILM = re.compile(r"(?:.*/)?(?:lm|bilm)/(.+)")
MIX = re.compile(r"(?:.*/)?aggregation/(?:(.*_)?W|weights|((.*_)?gamma|scaling))")
MIX_WEIGHTS, MIX_GAMMA = "mix/weights", "mix/gamma"
"""What the mix of a TF-Hub module is called here; AllenNLP's files have none."""
LSTM = re.compile(
    r"RNN_(?P<direction>[01])/(?:.*[Cc]ell_?(?P<layer>\d+)/)?(?:.*/)?lstm_cell/"
    r"(?P<part>kernel|weights|bias|biases|projection/kernel|projection/weights)"
)
PARTS = {"kernel": "W_0", "weights": "W_0", "bias": "B", "biases": "B"}
PARTS |= {"projection/kernel": "W_P_0", "projection/weights": "W_P_0"}
TRAINING_ROWS = 261
"""Rows of the table of characters; a TF-Hub module has one more, the padded word's zeros."""


class Entry(NamedTuple):
    """Where a variable is."""

    name: str
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int  # bytes
    checksum: int
    sliced: bool  # whether it is stored in parts, under other names


class TensorBundle:
    """The weights of a biLM, or of a TF-Hub module, in a checkpoint, by AllenNLP's names."""

    def __init__(self, path: str | Path) -> None:
        self.place = prefix_of(path)
        index = self.place.with_name(f"{self.place.name}.index")
        if not index.exists() and _is_old(self.place):
            raise FormatError(
                f"{self.place}: is a checkpoint in TensorFlow's format before 0.12 (V1), which is "
                "not read; save it again with TensorFlow 0.12 or later"
            )
        self._shards, entries = read_index(index)
        self.is_module = any("bilm/" in entry.name for entry in entries)
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            name = allennlp_name(entry.name)
            if name is None:
                continue
            if name in (MIX_WEIGHTS, MIX_GAMMA) and name in self._entries:
                continue  # of several mixes the first is the module's output
            if name in self._entries:
                raise FormatError(
                    f"{index}: has {self._entries[name].name} and {entry.name}: more than one biLM"
                )
            self._entries[name] = entry
        if "softmax/b" in self._entries and "embedding" in self._entries:
            # Trained with share_embedding_softmax, which stores the table once.
            self._entries.setdefault("softmax/W", self._entries["embedding"])
        if not any(name.startswith("RNN_") for name in self._entries):
            one = any("lm/rnn/" in entry.name for entry in entries)
            what = "a language model of one direction" if one else "variables, but not those"
            raise FormatError(f"{index}: has {what}{'; ELMo has two' if one else ' of an ELMo'}")

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of what AllenNLP's files call `name`; None when there is no such variable."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if name == "char_embed" and entry.shape[:1] == (TRAINING_ROWS + 1,):
            return (TRAINING_ROWS, *entry.shape[1:])
        return entry.shape

    def read(self, name: str) -> Tensor:
        """A variable as float32, after a comparison with its checksum."""
        entry = self._entries[name]
        values = read_variable(self._shard(entry), entry)
        return values[len(values) - TRAINING_ROWS :] if name == "char_embed" else values

    def mix(self) -> tuple[list[float], float] | None:
        """The weights of a module's own mix, before the softmax, and gamma; None without one."""
        if not {MIX_WEIGHTS, MIX_GAMMA} <= self._entries.keys():
            return None
        weights, gamma = self.read(MIX_WEIGHTS), self.read(MIX_GAMMA)
        if weights.dim() != 1 or gamma.numel() != 1:
            shapes = f"{tuple(weights.shape)} and {tuple(gamma.shape)}"
            raise FormatError(f"{self.place}: its mix is of {shapes}, not a list and a number")
        return weights.tolist(), gamma.item()

    def _shard(self, entry: Entry) -> Path:
        if not 0 <= entry.shard < self._shards:
            raise damaged(self.place, f"{entry.name} is in a file beyond the last")
        ending = f".data-{entry.shard:05}-of-{self._shards:05}"
        return self.place.with_name(self.place.name + ending)


def allennlp_name(variable: str) -> str | None:
    """What AllenNLP's files call a variable; None for one that is not a biLM's.

    >>> allennlp_name("lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel")
    'RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0'
    """
    if mix := MIX.fullmatch(variable):
        return MIX_GAMMA if mix[2] else MIX_WEIGHTS
    found = BILM.fullmatch(variable)
    lstm = found and LSTM.fullmatch(found[1])
    if found is None or lstm is None:
        return found and found[1]
    # One layer alone has no number.
    place = f"RNN_{lstm['direction']}/RNN/MultiRNNCell/Cell{lstm['layer'] or 0}/LSTMCell"
    return f"{place}/{PARTS[lstm['part']]}"


def prefix_of(path: str | Path) -> Path:
    """The name of a checkpoint, of which each of its files begins with it."""
    path = Path(path)
    return path.parent / SUFFIX.sub("", path.name)


def is_checkpoint(path: str | Path) -> bool:
    """Whether this names a checkpoint, or one of its files; in the old format, too."""
    prefix = prefix_of(path)
    if prefix != Path(path):
        return True
    return os.path.isfile(f"{prefix}.index") or _is_old(prefix)


def _is_old(prefix: Path) -> bool:
    if not os.path.isfile(prefix) or prefix.stat().st_size < FOOTER:
        return False
    with disk_errors(prefix, "read"), open(prefix, "rb") as file:
        file.seek(-len(MAGIC), 2)
        return file.read() == MAGIC


def read_index(path: Path) -> tuple[int, list[Entry]]:
    """The number of data files, and the variables but for parts of those that are cut up."""
    if not path.is_file():
        raise MissingFileError(f"{path}: is missing; it names the tensors of this checkpoint")
    check_not_pointer(path)
    with disk_errors(path, "read"):
        size = path.stat().st_size
        if not FOOTER <= size <= LARGEST_INDEX:
            raise damaged(path, f"{size:,} bytes are not the index of a checkpoint")
        data = path.read_bytes()
    if not data.endswith(MAGIC):
        raise damaged(path, "it does not end as the index of a checkpoint does")
    try:
        return _entries(data, path)
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise damaged(path, "its table cannot be read") from error


def _entries(data: bytes, path: Path) -> tuple[int, list[Entry]]:
    footer = len(data) - FOOTER
    _, position = _varint(data, footer)
    _, position = _varint(data, position)
    shards, entries, end = 0, [], 0
    for _, handle in _block(data, *_handle(data, position), path):
        offset, size = _handle(handle, 0)
        if offset < end:
            raise damaged(path, "its blocks overlap")
        end = offset + size
        for key, value in _block(data, offset, size, path):
            if not key:
                shards = _header(value, path)
            elif not key.startswith(b"\0"):
                entries.append(_entry(key.decode(), value))
    return shards, entries


def _handle(data: bytes, position: int) -> tuple[int, int]:
    offset, position = _varint(data, position)
    return offset, _varint(data, position)[0]


def _block(data: bytes, offset: int, size: int, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; a key shares its beginning with the one before."""
    end = offset + size
    if size < 4 or end + TRAILER > len(data):
        raise damaged(path, "a block reaches beyond its end")
    checksum = int.from_bytes(data[end + 1 : end + TRAILER], "little")
    if masked(crc32c(np.frombuffer(data[offset : end + 1], np.uint8))) != checksum:
        raise damaged(path, "its checksum differs")
    if data[end] != 0:
        raise FormatError(f"{path}: is compressed with snappy; save it again without")
    limit = end - 4 - 4 * int.from_bytes(data[end - 4 : end], "little")
    position, key = offset, b""
    while position < limit:
        shared, position = _varint(data, position)
        fresh, position = _varint(data, position)
        length, position = _varint(data, position)
        value = position + fresh
        if shared + fresh > LONGEST_NAME or value + length > limit:
            raise damaged(path, "an entry reaches beyond its block")
        key = key[:shared] + data[position:value]
        position = value + length
        yield key, data[value:position]


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number, seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number without end")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: number and value."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        size = {1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if tag & 7 == 2:
            size, position = _varint(data, position)
        if size is None or position + size > len(data):
            raise ValueError("a field beyond its end")
        part = data[position : position + size]
        position += size
        yield tag >> 3, part if tag & 7 == 2 else int.from_bytes(part, "little")


def _header(value: bytes, path: Path) -> int:
    """The number of data files, where their numbers are little-endian."""
    fields = dict(_fields(value))
    if fields.get(2, 0) != 0:
        raise FormatError(f"{path}: is big-endian; save it again on a little-endian machine")
    return _number(fields, 1)


def _entry(name: str, value: bytes) -> Entry:
    fields = dict(_fields(value))
    shape = fields.get(2, b"")
    if not isinstance(shape, bytes):
        raise ValueError("a number where a shape belongs")
    dimensions = (dict(_fields(d)) for n, d in _fields(shape) if n == 2 and isinstance(d, bytes))
    shard, offset, size, checksum = (_number(fields, number) for number in (3, 4, 5, 6))
    sizes = tuple(_number(dimension, 1) for dimension in dimensions)
    return Entry(name, _number(fields, 1), sizes, shard, offset, size, checksum, 7 in fields)


def _number(fields: Mapping[int, int | bytes], number: int) -> int:
    """A field; one that is absent is 0."""
    value = fields.get(number, 0)
    if not isinstance(value, int):
        raise ValueError("a text where a number belongs")
    return value


def read_variable(path: Path, entry: Entry) -> Tensor:
    """A variable out of its data file, which is mapped into memory, as float32."""
    name = f"{path}: {entry.name}"
    dtype = DTYPES.get(entry.dtype)
    if entry.sliced:
        raise FormatError(
            f"{name} is partitioned, stored in slices, which is not read; save it again as one"
        )
    if dtype is None:
        raise FormatError(
            f"{name} is of TensorFlow's type {entry.dtype}; it must be floating point"
        )
    stored = np.dtype("<u2" if dtype == "bfloat16" else dtype)
    if entry.size != prod(entry.shape) * stored.itemsize:
        raise damaged(path, f"{entry.name} has {entry.size:,} bytes, its shape is {entry.shape}")
    if not path.is_file():
        raise MissingFileError(f"{path}: is missing; it holds the numbers of this checkpoint")
    check_not_pointer(path)
    there = path.stat().st_size
    if entry.offset + entry.size > there:
        raise damaged(path, f"it has {there:,} bytes, and {entry.name} ends beyond them")
    with disk_errors(path, "read"):
        data = np.memmap(path, np.uint8, "r")[entry.offset :][: entry.size]
    if masked(crc32c(data)) != entry.checksum:
        raise damaged(path, f"the checksum of {entry.name} differs")
    values = data.view(stored).reshape(entry.shape)
    if dtype == "bfloat16":
        values = (values.astype("<u4") << 16).view("<f4")
    tensor = torch.from_numpy(values.astype(np.float32))
    check_finite(tensor, name)
    return tensor


def damaged(path: Path, why: str) -> FormatError:
    """The error about a file that is not what it was when it was written."""
    return FormatError(f"{path}: is damaged or incomplete ({why}); {COPY}")


# CRC-32C. x^5685 + x^1362 + x^426 + 1 is a multiple of its polynomial, and so is that to the power
# of 8 or 64: a byte, or a 64-bit word, may be replaced by itself at three later places. So all but
# the last 5685 bytes go by large exclusive ors; a table does the rest.
FOLDS = (5685 - 1362, 5685 - 426, 5685)
POLYNOMIAL = 0x82F63B78
FOLDED_AT_ONCE = 1 << 20
ALL_ONES = b"Td\x1fd"
"""The bytes after which the remainder, which begins with zeros, is all ones, as it must begin."""


def _remainders() -> list[int]:
    remainders = list(range(256))
    for _ in range(8):
        remainders = [(value >> 1) ^ (POLYNOMIAL * (value & 1)) for value in remainders]
    return remainders


REMAINDERS = _remainders()


def crc32c(data: NDArray[np.uint8]) -> int:
    """CRC-32C of bytes.

    >>> hex(crc32c(np.frombuffer(b"123456789", np.uint8)))
    '0xe3069283'
    """
    rest = np.frombuffer(bytes(-(len(data) + len(ALL_ONES)) % 8) + ALL_ONES, np.uint8)
    start = 0
    while start < len(data):
        stop = start + FOLDED_AT_ONCE - len(rest) % 8
        joined = np.concatenate([rest, data[start:stop]])
        rest = _folded(joined.view(np.uint64)).view(np.uint8)
        start = stop
    remainder = 0
    for byte in _folded(rest.copy()).tolist():
        remainder = REMAINDERS[(remainder ^ byte) & 255] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


def _folded(values: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """The last values, into which those before are folded."""
    start = 0
    while (left := len(values) - start - FOLDS[-1]) > 0:
        size = min(FOLDS[0], left)
        for fold in FOLDS:
            values[start + fold : start + fold + size] ^= values[start : start + size]
        start += size
    return values[start:]


def masked(checksum: int) -> int:
    """A checksum as the files store it."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


CHOSEN = re.compile(r'^model_checkpoint_path:\s*"([^"]*)"', re.MULTILINE)


def newest_checkpoint(names: list[str], chosen: str = "") -> str | None:
    """The checkpoint of a folder that has these files; None where there is none.

    `chosen` is the file `checkpoint`, often with the path of another machine: its last part counts.
    Without it the one of the highest step is taken.
    """
    found = [SUFFIX.sub("", name) for name in names if name.endswith(".index")]
    named = CHOSEN.search(chosen)
    if named is not None:
        last = re.split(r"[/\\]", named[1])[-1]
        if last in found or not found:
            return last

    def step(name: str) -> int:
        number = re.search(r"-(\d{1,18})$", name)
        return int(number[1]) if number else -1

    return max(found, key=step, default=None)
