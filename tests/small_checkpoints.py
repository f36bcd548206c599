"""Small checkpoints as TensorFlow writes them, made without the package that is tested."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = bytes.fromhex("57fb808b247547db")
DTYPES = {"<f4": 1, "<f8": 2, "<i4": 3, "<u2": 14, "<f2": 19}  # two bytes of bfloat16


def bit_by_bit(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state


BYTES = [bit_by_bit(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ BYTES[(state ^ byte) & 255]
    return state ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def block(entries: Mapping[bytes, bytes], kind: int = 0) -> bytes:
    """A block with its trailer; each key is stored without what it shares with the one before."""
    data, before = b"", b""
    for key in sorted(entries):
        shared = 0
        while shared < min(len(key), len(before)) and key[shared] == before[shared]:
            shared += 1
        value = entries[key]
        data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        data += key[shared:] + value
        before = key
    data += struct.pack("<II", 0, 1)
    return data + bytes([kind]) + struct.pack("<I", masked(data + bytes([kind])))


def entry_of(values: np.ndarray, shard: int, offset: int, **lies: Any) -> bytes:
    """The entry of a variable; `lies` replace what it says, by number of the field."""
    shape = b"".join(field(2, field(1, size)) for size in lies.pop("shape", values.shape))
    fields = {1: DTYPES[values.dtype.str], 2: shape, 3: shard, 4: offset, 5: values.nbytes}
    fields |= {int(number[1:]): value for number, value in lies.items()}
    data = b"".join(field(number, value) for number, value in fields.items())
    return data + varint(6 << 3 | 5) + struct.pack("<I", masked(values.tobytes()))


def write_checkpoint(
    prefix: Path,
    variables: Mapping[str, np.ndarray],
    *,
    shards: int = 1,
    kind: int = 0,
    endian: int = 0,
    lies: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """Write a checkpoint of some data files; gives its name."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    entries, parts = table_of(variables, shards, endian, lies or {})
    for shard, part in enumerate(parts):
        Path(f"{prefix}.data-{shard:05}-of-{shards:05}").write_bytes(part)
    write_index(prefix, block(entries, kind))
    return prefix


def table_of(
    variables: Mapping[str, np.ndarray],
    shards: int = 1,
    endian: int = 0,
    lies: Mapping[str, Mapping[str, Any]] = {},
) -> tuple[dict[bytes, bytes], list[bytes]]:
    """The entries of the index, and what is in the data files."""
    parts = [b""] * shards
    entries = {b"": field(1, shards) + (field(2, endian) if endian else b"")}
    for number, (name, values) in enumerate(sorted(variables.items())):
        shard = number % shards
        entries[name.encode()] = entry_of(values, shard, len(parts[shard]), **lies.get(name, {}))
        parts[shard] += values.tobytes()
    return entries, parts


def write_index(prefix: Path, data: bytes, handles: Mapping[bytes, bytes] | None = None) -> None:
    """Write an index of one block of entries; `handles` say other things of where blocks are."""
    index = block(handles or {b"z": varint(0) + varint(len(data) - 5)})
    footer = varint(len(data) + len(index)) + varint(0) + varint(len(data))
    footer += varint(len(index) - 5)
    Path(f"{prefix}.index").write_bytes(data + index + footer.ljust(40, b"\0") + MAGIC)


def training_names(weights: Mapping[str, np.ndarray], style: str = "new") -> dict[str, np.ndarray]:
    """Weights by AllenNLP's names, under those of the original training, or of a module."""
    parts = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    if style == "old":
        parts = {"W_0": "weights", "B": "biases", "W_P_0": "projection/weights"}
    cell = r"RNN_(.)/RNN/MultiRNNCell/Cell(\d)/LSTMCell/(.*)"

    def name_of(name: str) -> str:
        found = re.fullmatch(cell, name)
        if style == "module":
            if found:
                return name.replace("LSTMCell/" + found[3], "rnn/lstm_cell/" + parts[found[3]])
            return name
        if found:
            layers = "" if style == "one layer" else f"multi_rnn_cell/cell_{found[2]}/"
            return f"RNN_{found[1]}/rnn/{layers}lstm_cell/{parts[found[3]]}"
        return name

    prefix = "module/bilm/" if style == "module" else "lm/"
    named = {prefix + name_of(name): values for name, values in weights.items()}
    if style == "module":
        named["module/bilm/char_embed"] = np.pad(weights["char_embed"], ((1, 0), (0, 0)))
        return named | {"module/bilm/Variable": np.zeros((2, 3), np.float32)}
    slots = {f"{name}/Adagrad": np.ones_like(values) for name, values in named.items()}
    return named | slots | {"global_step": np.float32(10)[None]}
