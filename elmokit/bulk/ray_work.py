"""What machines do: read shards, compute their parts, and write them."""

from __future__ import annotations

import copy
import json
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from elmokit.bulk.failures import checked, or_failure, with_failure
from elmokit.bulk.parts import Message, PartFolder, PartWriter
from elmokit.bulk.ray_cluster import import_ray, worker_count
from elmokit.bulk.shards import Shard
from elmokit.embedder import Embedder
from elmokit.formats.vector_settings import VectorSettings
from elmokit.reductions import Mix

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
