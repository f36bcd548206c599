"""An output in parts, each a Parquet file that any machine can write.

`vectors.parquet.parts/` holds the parts that are done and a record of each until all are there;
then the folder of parts becomes `vectors.parquet`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.bulk.compute import Computer
from elmokit.embedder import Embedder
from elmokit.errors import InputError
from elmokit.formats.files import (
    check_replaceable,
    disk_errors,
    publish_folder,
    write_atomically,
)
from elmokit.formats.json_files import read_object, write_object
from elmokit.formats.vector_settings import VectorSettings
from elmokit.formats.vectors import Item, write_vectors
from elmokit.formats.vectors_folder import CONTENTS, write_contents
from elmokit.process_memory import peak_memory
from elmokit.reductions import Mix

Message = dict[str, Any]
"""What machines tell each other; plain values for JSON."""

SUFFIX = ".parquet"
SECONDS_FOR_STORAGE = 60
"""The longest that a file may take to be seen by the other machines of shared storage."""


class PartKey(NamedTuple):
    """Which part of the output it is."""

    shard: int
    number: int  # of the parts of the shard, from 0

    @property
    def name(self) -> str:
        """Names are in the order of the input.

        >>> PartKey(2, 31).name
        'part-00002-00000031'
        """
        return f"part-{self.shard:05d}-{self.number:08d}"

    @classmethod
    def named(cls, name: str) -> PartKey:
        """The part that has a name."""
        _, shard, number = name.split("-")
        return cls(int(shard), int(number))


class PartFolder:
    """The parts of an output that are done, and a record of each.

    A record is written before its part: where the part is, its record is.

    Args:
        folder: Where they are, on every machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vectors = folder / "vectors"
        self.records = folder / "records"

    def begin(self) -> dict[PartKey, Message]:
        """Make the folders, or find the records of what is done."""
        with disk_errors(self.folder, "written"):
            self.vectors.mkdir(parents=True, exist_ok=True)
            self.records.mkdir(exist_ok=True)
            found = [PartKey.named(path.stem) for path in self.vectors.glob(f"part-*{SUFFIX}")]
        return {part: self.record(part) for part in sorted(found)}

    def path(self, part: PartKey) -> Path:
        """The file of a part."""
        return self.vectors / f"{part.name}{SUFFIX}"

    def record(self, part: PartKey) -> Message:
        """What is known of a part: where it ends in the input, and counts."""
        return read_object(self._record_path(part))

    def write(
        self,
        part: PartKey,
        record: Message,
        items: Iterable[Item],
        settings: VectorSettings,
    ) -> None:
        """Write a part, on a machine that sees the folder as the others do."""
        if not self.vectors.is_dir():  # it is not made here, where nobody would look for it
            raise InputError(
                f"{self.folder}: is not there on {socket.gethostname()}; put the output on "
                "storage that all machines share"
            )
        with write_atomically(self._record_path(part)) as temporary:
            write_object(record, temporary)
        write_vectors(self.path(part), items, settings)

    def wait_for(self, part: PartKey) -> None:
        """Wait until this machine, too, sees a part that another has written."""
        end = time.monotonic() + SECONDS_FOR_STORAGE
        while not self.path(part).exists():
            if time.monotonic() > end:
                raise InputError(
                    f"{self.path(part)}: was written by another machine, but is not here; put "
                    "the output on storage that all machines share"
                )
            time.sleep(1)

    def rows_of_shards(self, count: Callable[[], list[int]]) -> list[int]:
        """How many sentences shards have: counted once, for all runs that resume the first."""
        path = self.folder / "rows.json"
        if not path.exists():
            rows = count()
            with write_atomically(path) as temporary:
                write_object({"rows": rows}, temporary)
        return read_object(path)["rows"]

    def publish(self, output: Path, records: Mapping[PartKey, Message], *, numbered: bool) -> None:
        """Make the folder of parts the output, in place of what has its name.

        Args:
            output: Its name.
            records: Those of all parts.
            numbered: Whether ids are but the numbers of the sentences.
        """
        for leftover in self.vectors.glob(".tmp-*"):  # of machines that were lost
            with suppress(OSError):
                leftover.unlink()
        lines = {
            self.path(part).name: records[part]["totals"]["sentences"] for part in sorted(records)
        }
        write_contents(self.vectors, lines, numbered=numbered)
        if output.is_dir():
            check_replaceable(Path(os.path.realpath(output)), output, force=True)
        with disk_errors(output, "written"):
            publish_folder(self.vectors, output)

    def is_published(self, output: Path) -> bool:
        """Whether all parts have become the output, so that only their records are left here."""
        moved = self.records.is_dir() and not self.vectors.is_dir()
        return moved and (output / CONTENTS).is_file()

    def _record_path(self, part: PartKey) -> Path:
        return self.records / f"{part.name}.json"


class PartWriter:
    """Computes parts, and writes each.

    Args:
        embedder: The model.
        layers: Which of its layers are wanted.
        settings: What to make of each sentence.
        folder: Where to write.
        machine: Says in the records who has written a part.
    """

    def __init__(
        self,
        embedder: Embedder,
        layers: str | Mix,
        settings: VectorSettings,
        folder: PartFolder,
        machine: str = "",
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.machine = machine
        self.computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)

    def write(self, message: Message) -> Message:
        """Write a part that a `Shard` has given; give its record, and how this writer does.

        A part that is there was written by a machine that was lost before it could tell.
        """
        part = PartKey(message["shard"], message["number"])
        if self.folder.path(part).exists():
            record = self.folder.record(part)
        else:
            record = self._write(part, message)
        known = self.computer.embedder.cache_hit_rate
        return {"record": record, "known_words": known, "memory": peak_memory()}

    def _write(self, part: PartKey, message: Message) -> Message:
        sentences, ids = message["words"], message["ids"]
        kind = kind_of(ids, sentences)
        arrays = self.computer.compute(sentences)
        totals = {
            "sentences": len(sentences),
            "words": sum(map(len, sentences)),
            "blank": sum(not sentence for sentence in sentences),
            **self.computer.take_counts(),
        }
        record = {
            "part": part,
            "end": message["end"],
            "bytes": message["bytes"],
            "ids": kind,
            "totals": totals,
            "machine": self.machine,
        }
        items = map(Item, sentences, arrays, ids)
        self.folder.write(part, record, items, self.settings)
        return record


def kind_of(ids: Sequence[str | int | None], sentences: Sequence[Sequence[str]]) -> str:
    """Whether ids are texts or numbers: the columns of all parts must be alike."""
    for id_, sentence in zip(ids, sentences, strict=True):
        if id_ is None or type(id_) is not type(ids[0]):
            raise InputError(
                f"sentence {' '.join(sentence)[:60]!r}: has the id {id_!r}; let the column that "
                "is kept hold a text in every row, or a whole number in every row"
            )
    return type(ids[0]).__name__
