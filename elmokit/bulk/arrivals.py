"""What has come of a run on many machines so far, and whether all of it has come."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from elmokit.bulk.failures import checked
from elmokit.bulk.parts import Message, PartFolder, PartKey
from elmokit.bulk.summary import Progress, Report
from elmokit.errors import ElmoError, InputError
from elmokit.process_memory import peak_memory


class Arrivals:
    """The parts that have come so far, and what they come to.

    Args:
        folder: Where parts are.
        done: The records of those that were done before.
        size: Bytes of the input.
        report: Told how far the work is.
    """

    def __init__(
        self,
        folder: PartFolder,
        done: Mapping[PartKey, Message],
        size: int | None,
        report: Report | None,
    ) -> None:
        self.folder = folder
        self.done = dict(done)
        self.totals: Counter[str] = Counter()
        self.words_here = 0
        self.memory = peak_memory()
        self._parts_of_shards: dict[int, int] = {}
        self._size = size
        self._report = report
        self._position = 0
        self._started = time.perf_counter()
        for record in done.values():
            self._count(record)
        self._first_position = self._position

    def collect(self, messages: Iterable[Message]) -> None:
        """Take what machines tell, until all is done."""
        for message in messages:
            self.take(checked(message))

    def take(self, message: Message) -> None:
        """Take what is told of a part, or of a shard that is read."""
        if "parts" in message:
            self._parts_of_shards[message["shard"]] = message["parts"]
            return
        record = message["record"]
        part = PartKey(*record["part"])
        self.folder.wait_for(part)
        self._check_ids(record)
        self.done[part] = record
        self._count(record)
        self.words_here += record["totals"]["words"]
        self.memory = max(self.memory or 0, message["memory"] or 0) or None
        self._tell(message["known_words"])

    def check_whole(self, shards: int) -> None:
        """Refuse an output that lacks a part of so many shards, or has none at all."""
        expected = {
            PartKey(shard, number)
            for shard, count in self._parts_of_shards.items()
            for number in range(count)
        }
        missing = sorted(expected.symmetric_difference(self.done))
        if missing or len(self._parts_of_shards) != shards:
            what = missing[0].name if missing else "the end of a shard"
            raise ElmoError(
                f"{self.folder.folder}: {what} did not arrive; run the same command with --resume"
            )
        if not self.done:
            raise InputError("the input: holds no sentence; name a file that has some")

    def _check_ids(self, record: Message) -> None:
        first = next(iter(self.done.values()), record)
        if record["ids"] != first["ids"]:
            part, first_part = (PartKey(*each["part"]).name for each in (record, first))
            raise InputError(
                f"{part}: has ids of kind {record['ids']}, {first_part} of kind {first['ids']}; "
                "let the column that is kept hold one kind"
            )

    def _count(self, record: Message) -> None:
        self.totals.update(record["totals"])
        self._position += record["bytes"]

    def _tell(self, known_words: float) -> None:
        if self._report is None:
            return
        self._report(
            Progress(
                sentences=self.totals["sentences"],
                words=self.totals["words"],
                words_here=self.words_here,
                seconds=time.perf_counter() - self._started,
                first_position=self._first_position,
                position=self._position,
                size=self._size,
                known_words=known_words,
            )
        )
