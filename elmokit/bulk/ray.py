"""Text of any size to vectors on many machines, by Ray Data.

Tasks read the shards of the input and cut them into parts, as the local engine does. Actors, each
with a copy of the model, compute parts and write each into a file of its own. The output is the
folder of these files: in the order of their names, they hold the rows that the local engine writes
into one file.

A part appears whole or not at all. A machine that is lost costs the parts that it was at, which Ray
gives to others; a run that is cut short goes on with the parts that are missing.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmokit import errors
from elmokit.bulk.compute import BulkProgress, Computer, Report, Summary
from elmokit.bulk.inputs import Input, InputSettings, RecordPlace, open_input
from elmokit.bulk.pipeline import EmbeddingJob, cut, tokens_per_part, whole_before
from elmokit.bulk.spool import End, Finished, Part
from elmokit.errors import ElmoError, InputError, StoppedError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.io.files import (
    check_replaceable,
    disk_errors,
    publish_folder,
    read_object,
    write_atomically,
    write_object,
)
from elmokit.system import peak_memory
from elmokit.vectors.files import CONTENTS, write_contents, write_vectors
from elmokit.vectors.items import Item, VectorSettings

SECONDS_FOR_PORT = 20
LOST_STARTS = 8
"""So many workers in a row may be lost while they start, before a run is given up."""


def import_ray() -> Any:
    """The library for many machines, which is an extra."""
    try:
        importlib.import_module("ray.data")
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "the engine ray needs one more library: pip install 'elmokit[ray]'"
        ) from None


@contextmanager
def connected(ray: Any, address: str | None, quiet: bool) -> Iterator[None]:
    """Be part of a cluster for a while; one that this process is part of already is used."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # unless the user wants to be counted
    try:
        try_port(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=not quiet,
            logging_level=logging.ERROR if quiet else logging.INFO,
        )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"{address}: no Ray cluster answers" if address else "Ray does not start"
        raise InputError(
            f"{where} ({last_line(error)}); see whether one runs (ray status), or start one "
            "(ray start --head)"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def try_port(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_FOR_PORT).close()


@contextmanager
def data_settings(ray: Any, *, quiet: bool, progress: bool) -> Iterator[None]:
    """Set for a while how Ray Data works, as far as its version has the setting.

    Args:
        ray: The library.
        quiet: Let it show nothing but errors.
        progress: Let it show bars and notes of its own; else only warnings, unless it is quiet.
    """
    context = ray.data.DataContext.get_current()
    bars = progress and not quiet
    wanted = {
        "target_max_block_size": 1,  # each part by itself, so that all workers get some
        "enable_progress_bars": bars,
        "max_consecutive_actor_init_deaths": LOST_STARTS,
    }
    levels = {
        "ray.data": logging.ERROR if quiet else logging.WARNING,
        "ray.data._internal.progress": logging.ERROR,  # which warns that there are no bars
    }
    before = {name: getattr(context, name) for name in wanted if hasattr(context, name)}
    try:
        for name in before:
            setattr(context, name, wanted[name])
        with log_levels({} if bars else levels):
            yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)


@contextmanager
def log_levels(levels: Mapping[str, int]) -> Iterator[None]:
    """Set for a while what loggers let through, by their names."""
    before = {name: logging.getLogger(name).level for name in levels}
    try:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def worker_count(ray: Any, resource: str) -> int:
    """How many workers the cluster has room for."""
    count = int(ray.cluster_resources().get(resource, 0))
    if not count:
        raise InputError(f"the Ray cluster has no {resource}; add machines that have one")
    return count


def last_line(error: BaseException) -> str:
    """The last line of a message: where it has a trace, what went wrong is at its end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


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


def or_failure(compute: Callable[[], Message]) -> Message:
    """A message, or in its place the error: it is to be told where the user is."""
    try:
        return compute()
    except ElmoError as error:
        return failure(error)


def with_failure(messages: Iterator[Message]) -> Iterator[Message]:
    """Messages, and the error that ended them."""
    try:
        yield from messages
    except ElmoError as error:
        yield failure(error)


def failure(error: ElmoError) -> Message:
    """An error as a message; one that is defined elsewhere goes as the public kind it is of."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return {"failure": kind.__name__, "why": str(error)}


def checked(message: Message) -> Message:
    """A message that is not a failure; raise the error that happened elsewhere."""
    if "failure" in message:
        raise getattr(errors, message["failure"])(message["why"])
    return message


BYTES_PER_SHARD = 64 << 20
"""The least that is read in one go: what is read again where its reader is lost."""
BEGINNING = End(RecordPlace(0, 1), 0)
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
            End(RecordPlace(*place), taken),
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


WORKERS_PER_READER = 16
"""A reader splits raw text about as fast as so many processors compute with a small model."""
PARTS_PER_WORKER = 2
"""The one that is computed, and the next."""


class Worker:
    """What Ray makes an actor of: a copy of the model."""

    def __init__(self, model: Any, settings: VectorSettings, folder: Path, device: str) -> None:
        ray = import_ray()
        embedder, layers = ray.get(model)
        if device == "cpu":
            torch.set_num_threads(1)  # there is a worker for every processor
        embedder.bilm.to(device)
        machine = ray.get_runtime_context().get_node_id()
        self.writer = PartWriter(embedder, layers, settings, PartFolder(folder), machine)

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Write the part of a row; pass on what is none."""
        message = json.loads(row["message"])
        if "words" in message:
            message = or_failure(partial(self.writer.write, message))
        return {"message": json.dumps(message)}


def results(
    ray: Any, shards: Sequence[Shard], model: tuple[Embedder, str | Mix], worker: dict[str, Any]
) -> Generator[Message]:
    """Read, compute and write all shards on the cluster; give what is told of every part.

    Args:
        ray: The library.
        shards: What is to be read.
        model: The embedder, on the processor, and its layers that are wanted.
        worker: The other arguments of every `Worker`.
    """
    cuda = worker["device"] == "cuda"
    workers = worker_count(ray, "GPU" if cuda else "CPU")

    def read(row: dict[str, int]) -> Iterator[dict[str, str]]:
        for message in with_failure(shards[row["shard"]].parts()):
            yield {"message": json.dumps(message)}

    rows = ray.data.from_items(
        [{"shard": shard.number} for shard in shards], override_num_blocks=len(shards)
    )
    # A reader mostly waits, so it takes no processor from a worker. It also keeps Ray from making
    # one step of reading and computing, in which one worker would have a whole shard to itself.
    readers = ray.data.TaskPoolStrategy(size=1 + workers // WORKERS_PER_READER)
    parts = rows.flat_map(read, compute=readers, num_cpus=0)
    # A pool that may shrink: the workers of a lost machine start again where idle ones have left.
    pool = ray.data.ActorPoolStrategy(
        min_size=1, max_size=workers, max_tasks_in_flight_per_actor=PARTS_PER_WORKER
    )
    written = parts.map(
        Worker,
        # Sent, not loaded there: the model's folder may be on this machine alone.
        fn_constructor_kwargs={"model": ray.put(model), **worker},
        compute=pool,
        num_cpus=0 if cuda else 1,
        num_gpus=1 if cuda else 0,
    )
    for row in written.iter_rows():
        yield json.loads(row["message"])


def count_rows(ray: Any, shards: Sequence[Shard]) -> list[int]:
    """How many sentences each shard but the last has, counted on the cluster."""

    def count(shard: Shard) -> Message:
        return or_failure(lambda: {"rows": shard.rows()})

    task = ray.remote(count)
    answers = ray.get([task.remote(shard) for shard in shards[:-1]])
    return [checked(answer)["rows"] for answer in answers]


def on_processor(embedder: Embedder, layers: str | Mix) -> tuple[Embedder, str | Mix]:
    """The model and its mix, or copies of them, as every machine can load them."""
    if embedder.device.type != "cpu":
        embedder, layers = copy.deepcopy((embedder, layers))
        embedder.bilm.to("cpu")
        if not isinstance(layers, str):
            layers.to("cpu")
    return embedder, layers


class PartCollector:
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
            BulkProgress(
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


def embed_with_ray(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    address: str | None = None,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    quiet: bool = False,
) -> Summary:
    """Embed every sentence of an input into a folder of Parquet files, on a Ray cluster.

    All its machines must have this package, and must have the files of the input and the folder of
    the output under the same names.

    Args:
        embedder: The model; every worker gets a copy.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The folder, `.parquet`. It appears when it is whole; until then, what is done is
            beside it.
        settings: What to make of each sentence.
        address: Of the cluster; None for the one that Ray finds, or else starts on this machine.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        report: Told how far the work is, after every part.
        quiet: Keep Ray from showing anything but errors. Its own progress is shown only where
            there is no `report` either: two would write over each other on a terminal.
    """
    settings = settings or VectorSettings()
    ray = import_ray()
    check_spreadable(embedder, source, output)
    facts = worker_facts(settings)
    job = EmbeddingJob(
        embedder, source, output, settings, resume=resume, force=force, elsewhere=facts
    )
    shards = shards_of(source, tokens_per_part(job.computer))
    if whole := job.whole_before():
        return whole
    spool = job.spool
    started = time.perf_counter()
    arrivals: PartCollector | None = None
    try:
        with (
            connected(ray, address, quiet),
            data_settings(ray, quiet=quiet, progress=report is None),
            spool.claimed(),
        ):
            job.begin()
            folder = PartFolder(spool.folder)
            if folder.is_published(job.target):  # a kill came after the last step
                job.publish_done()
                whole = whole_before(output, source, job.run)
                assert whole is not None  # without parts, a folder that is there is whole
                return whole
            arrivals = PartCollector(folder, folder.begin(), source.position()[1], report)
            compute_missing(ray, job, shards, arrivals)
            job.check_publishable()
            folder.publish(job.target, arrivals.done, numbered=source.settings.keep is None)
            job.publish_done()
    except (KeyboardInterrupt, ray.exceptions.RayError) as error:
        done = arrivals.totals["sentences"] if arrivals else 0
        raise stopped(error, job.resume_hint(f"{done:,} sentences are")) from error
    seconds = time.perf_counter() - started
    return Summary.of(
        output,
        arrivals.totals,
        arrivals.words_here,
        seconds,
        arrivals.memory,
        longest_whole=job.computer.longest,
    )


def compute_missing(
    ray: Any, job: EmbeddingJob, shards: Sequence[Shard], arrivals: PartCollector
) -> None:
    """Have the workers compute every part that has not arrived."""
    worker = {
        "settings": job.settings,
        "folder": job.spool.folder,
        "device": job.embedder.device.type,
    }
    shards = unread(ray, shards, arrivals)
    model = on_processor(job.embedder, job.computer.choice.mix or job.computer.choice.name)
    # Closed at once where an error ends it, so that the workers are free for others.
    with closing(results(ray, shards, model, worker)) as messages:
        arrivals.collect(messages)
    arrivals.check_whole(len(shards))


def unread(ray: Any, shards: Sequence[Shard], arrivals: PartCollector) -> list[Shard]:
    """What is not done of each shard, with sentences numbered where the input has no ids."""
    if all(shard.settings.keep is None for shard in shards):
        rows = arrivals.folder.rows_of_shards(partial(count_rows, ray, shards))
        shards = with_first_rows(shards, rows)
    return [shard.without(arrivals.done) for shard in shards]


def check_spreadable(embedder: Embedder, source: Input, output: str | Path) -> None:
    """Refuse what only one machine can do."""
    if Path(output).suffix.lower() != SUFFIX:
        raise InputError(
            f"{output}: the engine ray writes Parquet; choose a name that ends in {SUFFIX}"
        )
    if embedder.state == "carry":
        raise InputError(
            "state 'carry' reads each sentence after another one, so it cannot be spread over "
            "machines; use state zero or warm, or the local engine"
        )
    if source.streamed:
        raise InputError("a stream cannot be read by other machines; save it in a file first")


def worker_facts(settings: VectorSettings) -> dict[str, Any]:
    """What parts of this engine depend on; threads are each worker's own."""
    return {
        "engine": "ray",
        "compression": settings.compression,
        "sentences": settings.keep_sentences,
    }


def stopped(error: BaseException, kept: str) -> ElmoError:
    """What to tell where Ctrl-C or Ray ended a run."""
    if isinstance(error, KeyboardInterrupt):
        return StoppedError(f"stopped; {kept}")
    return ElmoError(f"Ray gave up ({last_line(error)}); {kept}")
