"""Text of any size to vectors on many machines, by Ray Data.

Tasks read the shards of the input and cut them into chunks of sentences, as the local engine does.
Actors, each with a copy of the model, compute chunks and write each as a part. The output is the
folder of all parts: in the order of their names, they hold the rows that the local engine writes
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
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from elmokit import errors
from elmokit.bulk.compute import Computer
from elmokit.bulk.inputs import Input
from elmokit.bulk.parts import SUFFIX, Message, Part, Parts, PartWriter
from elmokit.bulk.pipeline import (
    Report,
    VectorSettings,
    check_not_input,
    check_output,
    description_of,
    facts_of,
    tokens_per_chunk,
)
from elmokit.bulk.shards import Shard, shards_of, with_first_rows
from elmokit.bulk.spool import Spool
from elmokit.bulk.summary import Progress, Summary, peak_memory
from elmokit.embedder import Embedder
from elmokit.errors import ElmoError, InputError, StoppedError
from elmokit.formats.mixes import read_mix
from elmokit.formats.vector_items import Description
from elmokit.formats.vectors import check_compression
from elmokit.reductions import Mix

WORKERS_PER_READER = 16
"""A reader splits raw text about as fast as so many processors compute with a small model."""
CHUNKS_PER_WORKER = 2
"""The one that is computed, and the next."""
SECONDS_FOR_PORT = 20
LOST_STARTS = 8
"""So many workers in a row may be lost while they start, before a run is given up."""


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
        quiet: Keep Ray from showing progress of its own, and anything but errors.
    """
    settings = settings or VectorSettings()
    ray = import_ray()
    check_spreadable(embedder, source, output)
    check_output(output, resume=resume, force=force)
    check_compression(output, settings.compression)
    check_not_input(output, source)
    layers = read_mix(settings.mix, embedder.config) if settings.mix else settings.layers
    computer = Computer(embedder, layers=layers, pool=settings.pool, dtype=settings.dtype)
    shards = shards_of(source, tokens_per_chunk(computer))
    target = Path(os.path.abspath(output))
    facts = ray_facts(embedder, source, settings)
    spool = Spool(target, facts, pooled=settings.pool != "none")
    worker = {
        "settings": settings,
        "folder": spool.folder,
        "description": description_of(embedder, settings, facts["model"]),
        "device": embedder.device.type,
    }
    started = time.perf_counter()
    with connected(ray, address, quiet), data_settings(ray, quiet), spool.claimed():
        spool.begin(resume=resume, force=force)
        parts = Parts(spool.folder)
        run = Run(parts, parts.begin(), source.position()[1], report)
        try:
            shards = unread(ray, shards, run)
            # Closed at once where an error ends it, so that the workers are free for others.
            with closing(results(ray, shards, on_processor(embedder, layers), worker)) as messages:
                run.collect(messages)
        except (KeyboardInterrupt, ray.exceptions.RayError) as error:
            raise stopped(error, run.totals["sentences"], spool.folder) from error
        run.check_whole(len(shards))
        parts.publish(target)
        spool.remove()
    seconds = time.perf_counter() - started
    return Summary.of(output, run.totals, run.words_here, seconds, run.memory)


def import_ray() -> Any:
    """The library for many machines, which is an extra."""
    try:
        importlib.import_module("ray.data")
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "the engine ray needs one more library: pip install 'elmokit[ray]'"
        ) from None


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


def ray_facts(embedder: Embedder, source: Input, settings: VectorSettings) -> dict[str, Any]:
    """What the parts depend on; a run is resumed only with the same."""
    facts = facts_of(embedder, source, settings)
    facts.pop("threads", None)  # those of this process do not matter to the workers
    return facts | {
        "engine": "ray",
        "compression": settings.compression,
        "sentences": settings.keep_sentences,
    }


class Run:
    """What has come of a run so far.

    Args:
        parts: Where parts are.
        done: The records of those that were done before.
        size: Bytes of the input.
        report: Told how far the work is.
    """

    def __init__(
        self, parts: Parts, done: Mapping[Part, Message], size: int | None, report: Report | None
    ) -> None:
        self.parts = parts
        self.done = dict(done)
        self.totals: Counter[str] = Counter()
        self.words_here = 0
        self.memory = peak_memory()
        self._chunks: dict[int, int] = {}
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
        if "chunks" in message:
            self._chunks[message["shard"]] = message["chunks"]
            return
        record = message["record"]
        part = Part(*record["part"])
        self.parts.wait_for(part)
        self._check_ids(record)
        self.done[part] = record
        self._count(record)
        self.words_here += record["totals"]["words"]
        self.memory = max(self.memory or 0, message["memory"] or 0) or None
        self._tell(message["known_words"])

    def check_whole(self, shards: int) -> None:
        """Refuse an output that lacks a part of so many shards, or has none at all."""
        expected = {Part(shard, n) for shard, count in self._chunks.items() for n in range(count)}
        missing = sorted(expected.symmetric_difference(self.done))
        if missing or len(self._chunks) != shards:
            what = missing[0].name if missing else "the end of a shard"
            raise ElmoError(
                f"{self.parts.folder}: {what} did not arrive; run the same command with --resume"
            )
        if not self.done:
            raise InputError("the input: holds no sentence; name a file that has some")

    def _check_ids(self, record: Message) -> None:
        first = next(iter(self.done.values()), record)
        if record["ids"] != first["ids"]:
            raise InputError(
                f"{Part(*record['part']).name}: has ids of kind {record['ids']}, "
                f"{Part(*first['part']).name} of kind {first['ids']}; let the column that is kept "
                "hold one kind"
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


class Worker:
    """What Ray makes an actor of: a copy of the model."""

    def __init__(
        self,
        model: Any,
        settings: VectorSettings,
        folder: Path,
        description: Description,
        device: str,
    ) -> None:
        ray = import_ray()
        embedder, layers = ray.get(model)
        if device == "cpu":
            torch.set_num_threads(1)  # there is a worker for every processor
        embedder.bilm.to(device)
        machine = ray.get_runtime_context().get_node_id()
        self.writer = PartWriter(embedder, layers, settings, Parts(folder), description, machine)

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Write the chunk of a row; pass on what is none."""
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
        for message in with_failure(shards[row["shard"]].chunks()):
            yield {"message": json.dumps(message)}

    rows = ray.data.from_items(
        [{"shard": shard.number} for shard in shards], override_num_blocks=len(shards)
    )
    # A reader mostly waits, so it takes no processor from a worker. It also keeps Ray from making
    # one step of reading and computing, in which one worker would have a whole shard to itself.
    readers = ray.data.TaskPoolStrategy(size=1 + workers // WORKERS_PER_READER)
    chunks = rows.flat_map(read, compute=readers, num_cpus=0)
    # A pool that may shrink: the workers of a lost machine start again where idle ones have left.
    pool = ray.data.ActorPoolStrategy(
        min_size=1, max_size=workers, max_tasks_in_flight_per_actor=CHUNKS_PER_WORKER
    )
    written = chunks.map(
        Worker,
        # Sent, not loaded there: the model's folder may be on this machine alone.
        fn_constructor_kwargs={"model": ray.put(model), **worker},
        compute=pool,
        num_cpus=0 if cuda else 1,
        num_gpus=1 if cuda else 0,
    )
    for row in written.iter_rows():
        yield json.loads(row["message"])


def unread(ray: Any, shards: Sequence[Shard], run: Run) -> list[Shard]:
    """What is not done of each shard, with sentences numbered where the input has no ids."""
    if all(shard.settings.keep is None for shard in shards):
        rows = run.parts.rows_of_shards(partial(count_rows, ray, shards))
        shards = with_first_rows(shards, rows)
    return [shard.without(run.done) for shard in shards]


def count_rows(ray: Any, shards: Sequence[Shard]) -> list[int]:
    """How many sentences each shard but the last has, counted on the cluster."""

    def count(shard: Shard) -> Message:
        return or_failure(lambda: {"rows": shard.rows()})

    task = ray.remote(count)
    answers = ray.get([task.remote(shard) for shard in shards[:-1]])
    return [checked(answer)["rows"] for answer in answers]


def worker_count(ray: Any, resource: str) -> int:
    """How many workers the cluster has room for."""
    count = int(ray.cluster_resources().get(resource, 0))
    if not count:
        raise InputError(f"the Ray cluster has no {resource}; add machines that have one")
    return count


def on_processor(embedder: Embedder, layers: str | Mix) -> tuple[Embedder, str | Mix]:
    """The model and its mix, or copies of them, as every machine can load them."""
    if embedder.device.type != "cpu":
        embedder, layers = copy.deepcopy((embedder, layers))
        embedder.bilm.to("cpu")
        if not isinstance(layers, str):
            layers.to("cpu")
    return embedder, layers


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
    """An error as a message."""
    return {"failure": type(error).__name__, "why": str(error)}


def checked(message: Message) -> Message:
    """A message that is no failure; raise the error that happened elsewhere."""
    if "failure" in message:
        raise getattr(errors, message["failure"])(message["why"])
    return message


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
def data_settings(ray: Any, quiet: bool) -> Iterator[None]:
    """Set for a while how Ray Data works, as far as its version has the setting."""
    context = ray.data.DataContext.get_current()
    wanted = {
        "target_max_block_size": 1,  # each chunk by itself, so that all workers get some
        "enable_progress_bars": not quiet,
        "max_consecutive_actor_init_deaths": LOST_STARTS,
    }
    before = {name: getattr(context, name) for name in wanted if hasattr(context, name)}
    log = logging.getLogger("ray.data")
    level = log.level
    try:
        for name in before:
            setattr(context, name, wanted[name])
        log.setLevel(logging.ERROR if quiet else level)
        yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)


def stopped(error: BaseException, sentences: int, folder: Path) -> ElmoError:
    """What to tell where Ctrl-C or Ray ended a run."""
    kept = f"{sentences:,} sentences are in {folder}; to go on, run the same command with --resume"
    if isinstance(error, KeyboardInterrupt):
        return StoppedError(f"stopped; {kept}")
    return ElmoError(f"Ray gave up ({last_line(error)}); {kept}")


def last_line(error: BaseException) -> str:
    """The last line of a message: where it has a trace, what went wrong is at its end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
