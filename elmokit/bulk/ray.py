"""Text of any size to vectors on many machines, by Ray Data.

Tasks read the shards of the input and cut them into parts, as the local engine does. Actors, each
with a copy of the model, compute parts and store them in the run's folder, which all machines see.
In the end the output is made of them here, as the local engine makes it.

A part appears complete or not at all. A machine that is lost costs the parts that it was at, which
Ray gives to others; a run that is cut short resumes with the parts that are missing.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmokit import errors
from elmokit.bulk.compute import Computer, Summary, Tally
from elmokit.bulk.inputs import Input, RecordPlace, open_input
from elmokit.bulk.parts import ID_KINDS, NO_IDS, End, Finished, Part, PartStore, cut, name_of_part
from elmokit.bulk.pipeline import EmbeddingJob, tokens_per_part, totals_of
from elmokit.errors import ElmoError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Mix
from elmokit.io.text_files import TextSettings
from elmokit.jobs.progress import Observer
from elmokit.system import import_extra
from elmokit.vectors.items import VectorSettings

BYTES_PER_SHARD = 64 << 20
"""The least that is read in one go: what is read again where its reader is lost."""
WORKERS_PER_READER = 16
"""A reader splits raw text about as fast as so many CPUs compute with a small model."""
PARTS_PER_WORKER = 2  # the one that is computed, and the next
SECONDS_FOR_STORAGE = 60
"""The longest that a part may take to be seen by the other machines of shared storage."""
SECONDS_FOR_PORT = 20
LOST_STARTS = 8  # so many workers in a row may be lost while they start, before a run is given up
FROM_ITS_START = Finished(end=End(RecordPlace(0, 1), 0))
"""Of a shard, which unlike an input may be without a sentence."""

Message = dict[str, Any]  # what machines tell each other; plain values for JSON


def embed_with_ray(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: VectorSettings | None = None,
    *,
    address: str | None = None,
    resume: bool = False,
    force: bool = False,
    observer: Observer | None = None,
    quiet: bool = False,
) -> Summary:
    """Embed every sentence of an input into a file of vectors, on a Ray cluster.

    All its machines must have this package, and must have the files of the input and the folder of
    the output under the same names; every worker gets a copy of the model. The arguments are those
    of `embed_files`; `address` is that of the cluster, None for the one that Ray finds, or else
    starts on this machine. With `quiet` Ray shows nothing but errors. Its own progress is shown
    only where there is no `observer` either: two would write over each other on a terminal.
    """
    ray = import_ray()
    check_spreadable(embedder, source)
    engine = {"engine": "ray"}  # threads are each worker's own
    job = EmbeddingJob(embedder, source, output, settings or VectorSettings(), engine)
    bars, observer = observer is None and not quiet, observer or Observer()
    # The cluster first: where there is none, no part of a run before is removed.
    with connected(ray, address, quiet), job.folder.claimed():
        if before := job.begin(resume=resume, force=force):
            return before
        done = [job.parts.object(name) for name in job.parts.names()]
        totals = sum((Counter(record["totals"]) for record in done), Counter())
        tally = Tally(totals, sum(record["bytes"] for record in done), observer)
        stage = observer.stage("embedding", "byte", source.size, tally.position)
        try:
            with logging_less(quiet), stage:
                compute_missing(ray, job, tally, bars, done)
        except ray.exceptions.RayError as error:
            hint = job.folder.resume_hint()
            raise ElmoError(f"Ray gave up ({last_line(error)}); {hint}") from error
        job.publish(tally.totals["sentences"], observer)
    return Summary.of(output, tally, job.computer.longest)


def import_ray() -> Any:
    """The library for many machines, which is an extra."""
    import_extra("ray.data", "ray")
    return import_extra("ray", "ray")


def check_spreadable(embedder: Embedder, source: Input) -> None:
    """Raise for what only one machine can do."""
    if embedder.state == "carry":
        raise InputError(
            "state 'carry' reads each sentence after another one, so it cannot be spread over "
            "machines; use state zero or warm, or the local engine"
        )
    if source.streamed:
        raise InputError("a stream cannot be read by other machines; save it in a file first")


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


@contextmanager
def logging_less(quiet: bool) -> Iterator[None]:
    """Have Ray Data log warnings, or errors alone, for a while."""
    log = logging.getLogger("ray.data")
    before = log.level
    log.setLevel(logging.ERROR if quiet else logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def try_port(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_FOR_PORT).close()


def last_line(error: BaseException) -> str:
    """The last line of a message: where it has a trace, what went wrong is at its end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def with_failure(messages: Iterable[Message]) -> Iterator[Message]:
    """Messages, and the error that ended them, as its public kind: it is told where the user is."""
    try:
        yield from messages
    except ElmoError as error:
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        yield {"failure": kind.__name__, "why": str(error)}


def not_here(what: str) -> str:
    """What to tell of a file that this machine does not see."""
    return (
        f"is not there on {socket.gethostname()}; put the {what} on storage that all machines share"
    )


class Shard(NamedTuple):
    """Some files of an input."""

    number: int  # its place among the shards
    files: tuple[str, ...]  # their full names, in order
    settings: TextSettings
    tokens: int  # that a part has, about
    # The names of the parts that were done before the run. Ray reads a shard again where its reader
    # is lost, and needs the same messages then, whatever has been stored since.
    done: frozenset[str]

    def messages(self) -> Iterator[Message]:
        """The parts that are not done, for a `Worker`; at last, how many there are in all."""
        for name in self.files:
            if not os.path.exists(name):
                raise InputError(f"{name}: {not_here('input')}")
        count = 0
        source = open_input(self.files, self.settings)
        for part in cut(source, FROM_ITS_START, self.tokens, self.number):
            if name_of_part(part.shard, part.number) not in self.done:
                yield part._asdict()
            count += 1
        yield {"shard": self.number, "parts": count}


def shards_of(source: Input, tokens: int, parts: PartStore) -> list[Shard]:
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
        Shard(number, tuple(group), source.settings, tokens, done)
        for number, group in enumerate(groups)
    ]


class Worker:
    """Computes and stores parts, as an actor of Ray, which may have the model."""

    def __init__(self, model: Any, settings: VectorSettings, parts: PartStore, device: str) -> None:
        if not isinstance(model, tuple):
            model = import_ray().get(model)
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
        """Compute and store a part, unless a machine did that was lost since; give its record."""
        if not self.parts.folder.is_dir():  # it is not made here, where nobody would look for it
            raise InputError(f"{self.parts.folder}: {not_here('output')}")
        name = name_of_part(part.shard, part.number)
        if self.parts.has(name):
            return self.parts.object(name)
        arrays = self.computer.compute(part.sentences)
        return self.parts.add(part, arrays, totals_of(part, self.computer))


def compute_missing(
    ray: Any, job: EmbeddingJob, tally: Tally, bars: bool, done: Sequence[Message]
) -> None:
    """Have the workers compute every part that is not `done`; raise what failed there."""
    shards = shards_of(job.source, tokens_per_part(job.computer), job.parts)
    files: dict[str, str] = {}  # one for each kind of ids
    for record in done:
        check_kind_of_ids(record, shards, files)
    counts: dict[int, int] = {}  # how many parts each shard has
    # Closed at once where an error ends it, so that the workers are free for others.
    with closing(results(ray, shards, job, bars)) as messages:
        for message in messages:
            if "failure" in message:
                raise getattr(errors, message["failure"])(message["why"])
            if "parts" in message:
                counts[message["shard"]] = message["parts"]
            else:
                wait_for(name_of_part(message["shard"], message["number"]), job.parts)
                check_kind_of_ids(message, shards, files)
                tally.end_part(message["totals"], message["bytes"])
    expected = {name_of_part(shard, n) for shard, count in counts.items() for n in range(count)}
    missing = sorted(expected.symmetric_difference(job.parts.names()))
    if missing or len(counts) != len(shards):
        raise ElmoError(
            f"{job.parts.folder}: {missing[0] if missing else 'the end of a shard'} did not "
            "arrive; run the same command with --resume"
        )
    if not expected:
        raise InputError("the input: holds no sentence; name a file that has some")


def check_kind_of_ids(record: Message, shards: Sequence[Shard], files: dict[str, str]) -> None:
    """Raise where ids of a part are of another kind than those before.

    `files` has a file for each kind so far. Within a shard its reader has compared them.
    """
    if record["ids"] != NO_IDS:
        files.setdefault(record["ids"], shards[record["shard"]].files[record["end"][0][0]])
    if len(files) > 1:
        (first, first_file), (other, other_file) = files.items()
        raise InputError(
            f"{other_file}: an id is {ID_KINDS[other]}, in {first_file} {ID_KINDS[first]}; let the "
            "column hold one kind"
        )


def wait_for(name: str, parts: PartStore) -> None:
    """Wait until this machine, too, sees a part that another has stored."""
    end = time.monotonic() + SECONDS_FOR_STORAGE
    while not parts.has(name):
        if time.monotonic() > end:
            raise InputError(f"{parts.folder / name}: {not_here('output')}")
        time.sleep(1)


def results(ray: Any, shards: Sequence[Shard], job: EmbeddingJob, bars: bool) -> Generator[Message]:
    """Read, compute and store all shards on the cluster; give what is told of every part."""
    device = job.embedder.device.type
    workers = worker_count(ray, "GPU" if device == "cuda" else "CPU")

    def read(row: dict[str, int]) -> Iterator[dict[str, str]]:
        for message in with_failure(shards[row["shard"]].messages()):
            yield {"message": json.dumps(message)}

    rows = ray.data.from_items(
        [{"shard": shard.number} for shard in shards], override_num_blocks=len(shards)
    )
    rows.context.target_max_block_size = 1  # each part by itself, so that all workers get some
    rows.context.enable_progress_bars = bars
    rows.context.max_consecutive_actor_init_deaths = LOST_STARTS
    # A reader mostly waits, so it takes no CPU from a worker. It also keeps Ray from making one
    # step of reading and computing, in which one worker would have a whole shard to itself.
    readers = ray.data.TaskPoolStrategy(size=1 + workers // WORKERS_PER_READER)
    # A pool that may shrink: the workers of a lost machine start again where idle ones have left.
    pool = ray.data.ActorPoolStrategy(
        min_size=1, max_size=workers, max_tasks_in_flight_per_actor=PARTS_PER_WORKER
    )
    # Sent, not loaded there: the model's folder may be on this machine alone.
    arguments = {"model": ray.put(on_cpu(job)), "settings": job.settings, "parts": job.parts}
    stored = rows.flat_map(read, compute=readers, num_cpus=0).map(
        Worker,
        fn_constructor_kwargs=arguments | {"device": device},
        compute=pool,
        num_cpus=0 if device == "cuda" else 1,
        num_gpus=1 if device == "cuda" else 0,
    )
    for row in stored.iter_rows():
        yield json.loads(row["message"])


def worker_count(ray: Any, resource: str) -> int:
    """How many workers the cluster has room for."""
    count = int(ray.cluster_resources().get(resource, 0))
    if not count:
        raise InputError(f"the Ray cluster has no {resource}; add machines that have one")
    return count


def on_cpu(job: EmbeddingJob) -> tuple[Embedder, str | Mix]:
    """Copies of the model and its mix that every machine can load."""
    choice = job.computer.choice
    embedder, layers = copy.deepcopy((job.embedder, choice.mix or choice.name))
    embedder.bilm.to("cpu")
    if not isinstance(layers, str):
        layers.to("cpu")
    return embedder, layers
