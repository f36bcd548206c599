"""An input in shards: some files each, which any machine can read and cut into parts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from elmokit.bulk.inputs import Input, InputSettings, Place, open_input
from elmokit.bulk.parts import Message, PartKey
from elmokit.bulk.pipeline import cut
from elmokit.bulk.spool import End, Finished, Part
from elmokit.errors import InputError

BYTES_PER_SHARD = 64 << 20
"""The least that is read in one go: what is read again where its reader is lost."""
BEGINNING = End(Place(0, 1), 0)
NOTHING = Finished(0, BEGINNING, 0, {})


@dataclass(frozen=True)
class Shard:
    """Some files of an input.

    Attributes:
        number: Its place among the shards.
        files: Their full names, in order.
        settings: How to read them.
        tokens: How many tokens a part has, about.
        first_row: The number of its first sentence, where ids are such numbers; None where the
            input has ids.
        finished: The parts that are done, from the first on.
        done: The numbers of all that are done.
    """

    number: int
    files: tuple[str, ...]
    settings: InputSettings
    tokens: int
    first_row: int | None = None
    finished: Finished = NOTHING
    done: frozenset[int] = frozenset()

    def rows(self) -> int:
        """How many sentences it has."""
        return sum(1 for _ in self._open().records(BEGINNING.place))

    def parts(self) -> Iterator[Message]:
        """The parts that are not done, for a `PartWriter`; at last, how many there are in all."""
        count, position = self.finished.parts, self.finished.position
        row = self.finished.totals.get("sentences", 0)
        for part in cut(self._open(), self.finished, self.tokens):
            if part.number not in self.done:
                yield self._message(part, row, part.position - position)
            count, position = part.number + 1, part.position
            row += len(part.records)
        yield {"shard": self.number, "parts": count}

    def without(self, done: Mapping[PartKey, Message]) -> Shard:
        """The shard, of which only what is not done is read; what is done has records."""
        records = {
            part.number: record for part, record in done.items() if part.shard == self.number
        }
        count = next(number for number in range(len(records) + 1) if number not in records)
        first = [records[number] for number in range(count)]
        place, taken = first[-1]["end"] if first else BEGINNING
        finished = Finished(
            count,
            End(Place(*place), taken),
            sum(record["bytes"] for record in first),
            {"sentences": sum(record["totals"]["sentences"] for record in first)},
        )
        return replace(self, finished=finished, done=frozenset(records))

    def _open(self) -> Input:
        for name in self.files:
            if not os.path.exists(name):
                raise InputError(
                    f"{name}: is not there on {socket.gethostname()}; put the input on storage "
                    "that all machines share"
                )
        return open_input(self.files, self.settings)

    def _message(self, part: Part, row: int, size: int) -> Message:
        """A part from sentence `row` of the shard on, which took `size` bytes of its files."""
        ids: list[str | int | None] = [record.id for record in part.records]
        if self.first_row is not None:
            ids = list(range(self.first_row + row, self.first_row + row + len(ids)))
        return {
            "shard": self.number,
            "number": part.number,
            "words": [record.words for record in part.records],
            "ids": ids,
            "end": part.end,
            "bytes": size,
        }


def shards_of(source: Input, tokens: int) -> list[Shard]:
    """The files of an input in groups of at least `BYTES_PER_SHARD`; no file is divided."""
    groups: list[list[str]] = []
    room = 0
    for path in source.files:
        if room <= 0:
            groups.append([])
            room = BYTES_PER_SHARD
        groups[-1].append(os.path.abspath(path))
        room -= path.stat().st_size
    return [
        Shard(number, tuple(group), source.settings, tokens) for number, group in enumerate(groups)
    ]


def with_first_rows(shards: Sequence[Shard], rows: Sequence[int]) -> list[Shard]:
    """Shards with the number of their first sentence, where each but the last has so many."""
    firsts = accumulate(rows, initial=0)
    return [replace(shard, first_row=first) for shard, first in zip(shards, firsts, strict=True)]
