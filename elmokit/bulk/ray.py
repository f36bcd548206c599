"""Text of any size to vectors on many machines, by Ray Data.

Tasks read the shards of the input and cut them into parts, as the local engine does. Actors, each
with a copy of the model, compute parts and store them in the run's folder, which all machines see.
In the end the output is made of them here, as the local engine makes it.

A part appears complete or not at all. A machine that is lost costs the parts that it was at, which
Ray gives to others; a run that is cut short resumes with the parts that are missing.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
import socket
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmokit import errors
from elmokit.bulk.compute import Computer, Report, Summary, Tally
from elmokit.bulk.inputs import Input, RecordPlace, open_input
from elmokit.bulk.pipeline import (
    EmbeddingJob,
    End,
    Finished,
    Part,
    SentenceParts,
    cut,
    name_of_part,
    tokens_per_part,
    totals_of,
)
from elmokit.errors import ElmoError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.io.text_files import TextSettings
from elmokit.system import peak_memory
from elmokit.vectors.items import VectorSettings

BYTES_PER_SHARD = 64 << 20
"""The least that is read in one go: what is read again where its reader is lost."""
WORKERS_PER_READER = 16
"""A reader splits raw text about as fast as so many CPUs compute with a small model."""
PARTS_PER_WORKER = 2
"""The one that is computed, and the next."""
SECONDS_FOR_STORAGE = 60
"""The longest that a part may take to be seen by the other machines of shared storage."""
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
    before = {name: getattr(context, name) for name in wanted if hasattr(context, name)}
    # The second warns that there are no bars.
    logs = [logging.getLogger(name) for name in ("ray.data", "ray.data._internal.progress")]
    levels = [log.level for log in logs]
    try:
        for name in before:
            setattr(context, name, wanted[name])
        if not bars:
            logs[0].setLevel(logging.ERROR if quiet else logging.WARNING)
            logs[1].setLevel(logging.ERROR)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


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


def with_failure(messages: Iterable[Message]) -> Iterator[Message]:
    """Messages, and the error that ended them: it is to be told where the user is.

    An error that is defined elsewhere goes as the public kind it is of.
    """
    try:
        yield from messages
    except ElmoError as error:
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        yield {"failure": kind.__name__, "why": str(error)}


def checked(message: Message) -> Message:
    """A message that is not a failure; raise the error that happened elsewhere."""
    if "failure" in message:
        raise getattr(errors, message["failure"])(message["why"])
    return message


@dataclass(frozen=True)
class Shard:
    """Some files of an input.

    Attributes:
        number: Its place among the shards.
        files: Their full names, in order.
        settings: How to read them.
        tokens: How many tokens a part has, about.
        finished: The parts that were done before the run, from the first on.
        done: The names of all that were. Ray reads a shard again where its reader is lost, and
            needs the same messages then, whatever has been stored since.
    """

    number: int
    files: tuple[str, ...]
    settings: TextSettings
    tokens: int
    finished: Finished
    done: frozenset[str]

    def messages(self) -> Iterator[Message]:
        """The parts that are not done, for a `Worker`; at last, how many there are in all."""
        for name in self.files:
            if not os.path.exists(name):
                raise InputError(f"{name}: {not_here('input')}")
        count = self.finished.parts
        source = open_input(self.files, self.settings)
        for part in cut(source, self.finished, self.tokens, self.number):
            if part.name not in self.done:
                yield part._asdict()
            count += 1
        yield {"shard": self.number, "parts": count}


def shards_of(source: Input, tokens: int, parts: SentenceParts) -> list[Shard]:
    """The files of an input in groups of at least `BYTES_PER_SHARD`; no file is divided."""
    done = frozenset(parts.names())
    groups: list[list[str]] = []
    room = 0
    for path in source.files:
        if room <= 0:
            groups.append([])
            room = BYTES_PER_SHARD
        groups[-1].append(os.path.abspath(path))
        room -= path.stat().st_size
    return [
        Shard(number, tuple(group), source.settings, tokens, finished_of(parts, number), done)
        for number, group in enumerate(groups)
    ]


def finished_of(parts: SentenceParts, shard: int) -> Finished:
    """What is finished of a shard, which unlike an input may be without a sentence."""
    finished = parts.finished(shard)
    return finished if finished.parts else Finished(end=End(RecordPlace(0, 1), 0), totals={})


def not_here(what: str) -> str:
    """What to tell of a file that this machine does not see."""
    return (
        f"is not there on {socket.gethostname()}; put the {what} on storage that all machines share"
    )


class Worker:
    """Computes parts and stores them: what Ray makes an actor of.

    Args:
        model: The embedder and its layers that are wanted, or where Ray has them.
        settings: What to make of each sentence.
        parts: Where they are stored.
        device: Where to compute.
    """

    def __init__(
        self, model: Any, settings: VectorSettings, parts: SentenceParts, device: str
    ) -> None:
        self.machine = ""
        if not isinstance(model, tuple):
            ray = import_ray()
            model = ray.get(model)
            self.machine = ray.get_runtime_context().get_node_id()
            if device == "cpu":
                torch.set_num_threads(1)  # there is a worker for every CPU
        embedder, layers = model
        embedder.bilm.to(device)
        self.parts = parts
        self.computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Store the part of a row; pass on what is none."""
        message = json.loads(row["message"])
        if "sentences" in message:
            (message,) = with_failure(map(self.store, [Part(**message)]))
        return {"message": json.dumps(message)}

    def store(self, part: Part) -> Message:
        """Compute and store a part; give its record, and how this worker does.

        A part that is there was stored by a machine that was lost before it could tell.
        """
        if not self.parts.folder.is_dir():  # it is not made here, where nobody would look for it
            raise InputError(f"{self.parts.folder}: {not_here('output')}")
        if self.parts.has(part.name):
            record = self.parts.object(part.name)
        else:
            arrays = self.computer.compute(part.sentences)
            totals = totals_of(part, self.computer)
            record = self.parts.add(part, arrays, totals, machine=self.machine)
        known = self.computer.embedder.cache_hit_rate
        return {"record": record, "known_words": known, "memory": peak_memory()}


def results(
    ray: Any, shards: Sequence[Shard], model: tuple[Embedder, str | Mix], job: EmbeddingJob
) -> Generator[Message]:
    """Read, compute and store all shards on the cluster; give what is told of every part."""
    device = job.embedder.device.type
    workers = worker_count(ray, "GPU" if device == "cuda" else "CPU")

    def read(row: dict[str, int]) -> Iterator[dict[str, str]]:
        for message in with_failure(shards[row["shard"]].messages()):
            yield {"message": json.dumps(message)}

    rows = ray.data.from_items(
        [{"shard": shard.number} for shard in shards], override_num_blocks=len(shards)
    )
    # A reader mostly waits, so it takes no CPU from a worker. It also keeps Ray from making one
    # step of reading and computing, in which one worker would have a whole shard to itself.
    readers = ray.data.TaskPoolStrategy(size=1 + workers // WORKERS_PER_READER)
    # A pool that may shrink: the workers of a lost machine start again where idle ones have left.
    pool = ray.data.ActorPoolStrategy(
        min_size=1, max_size=workers, max_tasks_in_flight_per_actor=PARTS_PER_WORKER
    )
    # Sent, not loaded there: the model's folder may be on this machine alone.
    arguments = {"model": ray.put(model), "settings": job.settings, "parts": job.parts}
    stored = rows.flat_map(read, compute=readers, num_cpus=0).map(
        Worker,
        fn_constructor_kwargs=arguments | {"device": device},
        compute=pool,
        num_cpus=0 if device == "cuda" else 1,
        num_gpus=1 if device == "cuda" else 0,
    )
    for row in stored.iter_rows():
        yield json.loads(row["message"])


def on_cpu(embedder: Embedder, layers: str | Mix) -> tuple[Embedder, str | Mix]:
    """The model and its mix, or copies of them, as every machine can load them."""
    if embedder.device.type != "cpu":
        embedder, layers = copy.deepcopy((embedder, layers))
        embedder.bilm.to("cpu")
        if not isinstance(layers, str):
            layers.to("cpu")
    return embedder, layers


class Collector:
    """Collects the parts that Ray's workers report.

    Args:
        parts: Where they are stored.
        size: Bytes of the input.
        report: Told how far the work is.
    """

    def __init__(self, parts: SentenceParts, size: int | None, report: Report | None) -> None:
        self.parts = parts
        self.memory = peak_memory()
        self.tally = Tally(size, {}, 0, report, lambda: self._known_words)
        self._known_words = 0.0
        self._ids: Message | None = None  # the record of a part that has some
        self._parts_of_shards: dict[int, int] = {}
        for name in parts.names():
            record = parts.object(name)
            self._check_ids(record)
            self.tally.add_before(record["totals"], record["bytes"])

    def take(self, message: Message) -> None:
        """Take what is told of a part, or of a shard that is read."""
        if "parts" in checked(message):
            self._parts_of_shards[message["shard"]] = message["parts"]
            return
        record = message["record"]
        self._wait_for(name_of_part(record["shard"], record["number"]))
        self._check_ids(record)
        self.memory = max(self.memory or 0, message["memory"] or 0) or None
        self._known_words = message["known_words"]
        self.tally.end_part(record["totals"], record["bytes"])
        self.tally.tell()

    def check_complete(self, shards: int) -> None:
        """Raise where a part of so many shards is missing, or where there is none at all."""
        expected = [
            name_of_part(shard, number)
            for shard, count in self._parts_of_shards.items()
            for number in range(count)
        ]
        missing = sorted(set(expected).symmetric_difference(self.parts.names()))
        if missing or len(self._parts_of_shards) != shards:
            what = missing[0] if missing else "the end of a shard"
            raise ElmoError(
                f"{self.parts.folder}: {what} did not arrive; run the same command with --resume"
            )
        if not expected:
            raise InputError("the input: holds no sentence; name a file that has some")

    def _wait_for(self, name: str) -> None:
        """Wait until this machine, too, sees a part that another has stored."""
        end = time.monotonic() + SECONDS_FOR_STORAGE
        while not self.parts.has(name):
            if time.monotonic() > end:
                raise InputError(f"{self.parts.folder / name}: {not_here('output')}")
            time.sleep(1)

    def _check_ids(self, record: Message) -> None:
        if record["ids"] == "NoneType":  # which any of them may be
            return
        first = self._ids = self._ids or record
        if record["ids"] != first["ids"]:
            names = [name_of_part(each["shard"], each["number"]) for each in (record, first)]
            raise InputError(
                f"{names[0]}: has ids of kind {record['ids']}, {names[1]} of kind {first['ids']}; "
                "let the column that is kept hold one kind"
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
    """Embed every sentence of an input into a file of vectors, on a Ray cluster.

    All its machines must have this package, and must have the files of the input and the folder of
    the output under the same names.

    Args:
        embedder: The model; every worker gets a copy.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The file. It appears when it is complete; until then, what is done is beside it.
        settings: What to make of each sentence.
        address: Of the cluster; None for the one that Ray finds, or else starts on this machine.
        resume: Resume a run of the same input, model and settings that was cut short.
        force: Replace the output, or what is left of another run.
        report: Told how far the work is, after every part.
        quiet: Let Ray show nothing but errors. Its own progress is shown only where there is no
            `report` either: two would write over each other on a terminal.
    """
    ray = import_ray()
    check_spreadable(embedder, source)
    settings = settings or VectorSettings()
    engine = {"engine": "ray"}  # threads are each worker's own
    job = EmbeddingJob(
        embedder, source, output, settings, resume=resume, force=force, engine=engine
    )
    if before := job.finished_before():
        return before
    try:
        with (
            connected(ray, address, quiet),
            data_settings(ray, quiet=quiet, progress=report is None),
            job.folder.claimed(),
        ):
            job.begin()
            collector = Collector(job.parts, source.position()[1], report)
            compute_missing(ray, job, collector)
            job.publish(collector.tally)
    except ray.exceptions.RayError as error:
        hint = job.folder.resume_hint()
        raise ElmoError(f"Ray gave up ({last_line(error)}); {hint}") from error
    longest = job.computer.longest
    return Summary.of(output, collector.tally, collector.memory, longest_whole=longest)


def compute_missing(ray: Any, job: EmbeddingJob, collector: Collector) -> None:
    """Have the workers compute every part that is not there."""
    shards = shards_of(job.source, tokens_per_part(job.computer), job.parts)
    model = on_cpu(job.embedder, job.computer.choice.mix or job.computer.choice.name)
    # Closed at once where an error ends it, so that the workers are free for others.
    with closing(results(ray, shards, model, job)) as messages:
        for message in messages:
            collector.take(message)
    collector.check_complete(len(shards))


def check_spreadable(embedder: Embedder, source: Input) -> None:
    """Raise for what only one machine can do."""
    if embedder.state == "carry":
        raise InputError(
            "state 'carry' reads each sentence after another one, so it cannot be spread over "
            "machines; use state zero or warm, or the local engine"
        )
    if source.streamed:
        raise InputError("a stream cannot be read by other machines; save it in a file first")
