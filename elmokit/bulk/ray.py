"""Text of any size to vectors on many machines, by Ray Data.

Tasks read the shards of the input and cut them into parts, as the local engine does. Actors, each
with a copy of the model, compute parts and write each into a file of its own. The output is the
folder of these files: in the order of their names, they hold the rows that the local engine writes
into one file.

A part appears whole or not at all. A machine that is lost costs the parts that it was at, which Ray
gives to others; a run that is cut short goes on with the parts that are missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from elmokit.bulk.arrivals import Arrivals
from elmokit.bulk.inputs import Input
from elmokit.bulk.job import Job
from elmokit.bulk.parts import SUFFIX, PartFolder
from elmokit.bulk.pipeline import tokens_per_part
from elmokit.bulk.ray_cluster import connected, data_settings, import_ray, last_line
from elmokit.bulk.ray_work import count_rows, on_processor, results
from elmokit.bulk.shards import Shard, shards_of, with_first_rows
from elmokit.bulk.summary import Report, Summary
from elmokit.bulk.whole import whole_before
from elmokit.embedder import Embedder
from elmokit.errors import ElmoError, InputError, StoppedError
from elmokit.formats.vector_settings import VectorSettings


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
    job = Job(embedder, source, output, settings, resume=resume, force=force, elsewhere=facts)
    shards = shards_of(source, tokens_per_part(job.computer))
    if whole := job.whole_before():
        return whole
    spool = job.spool
    started = time.perf_counter()
    arrivals: Arrivals | None = None
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
            arrivals = Arrivals(folder, folder.begin(), source.position()[1], report)
            compute_missing(ray, job, shards, arrivals)
            job.check_publishable()
            folder.publish(job.target, arrivals.done, numbered=source.settings.keep is None)
            job.publish_done()
    except (KeyboardInterrupt, ray.exceptions.RayError) as error:
        done = arrivals.totals["sentences"] if arrivals else 0
        raise stopped(error, job.how_to_go_on(f"{done:,} sentences are")) from error
    seconds = time.perf_counter() - started
    return Summary.of(
        output,
        arrivals.totals,
        arrivals.words_here,
        seconds,
        arrivals.memory,
        longest_whole=job.computer.longest,
    )


def compute_missing(ray: Any, job: Job, shards: Sequence[Shard], arrivals: Arrivals) -> None:
    """Have the workers compute every part that has not arrived."""
    worker = {
        "settings": job.settings,
        "folder": job.spool.folder,
        "device": job.embedder.device.type,
    }
    shards = unread(ray, shards, arrivals)
    model = on_processor(job.embedder, job.computer.layers)
    # Closed at once where an error ends it, so that the workers are free for others.
    with closing(results(ray, shards, model, worker)) as messages:
        arrivals.collect(messages)
    arrivals.check_whole(len(shards))


def unread(ray: Any, shards: Sequence[Shard], arrivals: Arrivals) -> list[Shard]:
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
