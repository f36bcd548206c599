"""A corpus to an index of its occurrences, in constant memory, losing nothing when it is cut short.

The tables grow in `INDEX.parts`, part by part; behind each part a record says what is in them.
Killed at any moment, the same run forgets what came after the last record and goes on. In the end
the tables are indexed, and their folder gets its name.
"""

from __future__ import annotations

from pathlib import Path

from elmokit import __version__
from elmokit.analysis.neighbours.description import (
    Description,
    as_stored,
    is_index,
    layer_names,
    read_description,
)
from elmokit.analysis.neighbours.lance import import_lancedb, is_address
from elmokit.analysis.neighbours.run import TABLES, Build
from elmokit.analysis.neighbours.settings import IndexSettings
from elmokit.analysis.neighbours.store import Note
from elmokit.analysis.neighbours.summary import BuildSummary
from elmokit.bulk.inputs import Input
from elmokit.bulk.outputs import (
    appeared,
    check_not_input,
    check_unchanged,
    how_to_go_on,
    target_of,
)
from elmokit.bulk.spool import Spool, check_unfinished, parts_of
from elmokit.bulk.summary import Report
from elmokit.embedder import Embedder
from elmokit.errors import DiskError, InputError, StoppedError
from elmokit.formats.files import (
    check_replaceable,
    disk_errors,
    publish_folder,
)


def build_index(
    embedder: Embedder,
    source: Input,
    output: str | Path,
    settings: IndexSettings | None = None,
    *,
    model: str = "",
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    note: Note | None = None,
) -> BuildSummary:
    """Keep every occurrence of every word of an input in an index, with its vectors.

    Args:
        embedder: The model.
        source: The sentences; `bulk.inputs.open_input` makes it.
        output: The folder. It appears when it is whole; until then, what is done is beside it.
        settings: What is kept.
        model: What to call the model.
        resume: Go on with a run of the same input, model and settings that was cut short.
        force: Replace an index, or what is left of another run.
        report: Told how far the work is.
        note: Told what is done after the last sentence is read.
    """
    settings = settings or IndexSettings()
    check_embedder(embedder)
    check_target(output, resume=resume, force=force)
    check_not_input(output, source)
    import_lancedb()
    description = description_of(embedder, settings, source, model)
    target = target_of(output)
    spool = Spool(target, description.run, pooled=False)
    try:
        with spool.claimed():
            if resume and not force:
                before = finished_before(spool, output, description, streamed=source.streamed)
                if before is not None:
                    return before
            spool.begin(resume=resume, force=force)
            build = Build(embedder, source, spool, settings, description, report)
            build.read()
            check_unchanged(source, description.run["input"], spool.folder)
            finished = build.finish(note)
            if is_taken(target) and not spool.replaces():
                raise appeared(output, spool.folder)
            publish(spool, target)
    except KeyboardInterrupt:
        raise StoppedError(f"stopped; {how_to_go_on(spool.folder)}") from None
    except DiskError as error:
        if spool.folder.exists():
            raise DiskError(f"{error}; {how_to_go_on(spool.folder)}") from error
        raise
    return build.summary(output, finished)


def check_embedder(embedder: Embedder) -> None:
    """Refuse a state in which a sentence's vectors are not its own."""
    if embedder.state == "carry":
        raise InputError(
            "in state 'carry' the vectors of a sentence depend on those before it, which a "
            "question has not; use 'zero' or 'warm'"
        )


def is_taken(target: Path) -> bool:
    """Whether something is where an index is to be; an empty folder is nothing."""
    return target.exists() and (not target.is_dir() or any(target.iterdir()))


def check_target(output: str | Path, *, resume: bool, force: bool) -> None:
    """Refuse a place that cannot become an index, before anything is computed for it."""
    if is_address(output):
        raise InputError(
            f"{output}: is an address of object storage; build the index in a folder, then copy "
            "it there"
        )
    target = target_of(output)
    with disk_errors(Path(output), "written"):
        taken = is_taken(target)
        if not taken:
            check_unfinished(parts_of(target), resume=resume, force=force)
            return
    if not is_index(target):
        raise InputError(f"{output}: is there, and no index; choose another name")
    if force:
        check_replaceable(target.resolve(), output, force)
    elif not resume:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")


def finished_before(
    spool: Spool, output: str | Path, description: Description, *, streamed: bool
) -> BuildSummary | None:
    """What is to be told of an index that this run has finished before.

    None where there is something left to do; an index of another run is refused.
    """
    target = target_of(output)
    if not is_index(target) or (spool.folder / TABLES).exists():
        return None
    found = read_description(target)
    if streamed or as_stored(found.run) != as_stored(description.run):
        why = "nothing can tell whether from the same text" if streamed else "of another run"
        raise InputError(
            f"{output}: is whole already, and {why}; choose another name, or force it (--force)"
        )
    if spool.holds_work():  # a kill came after the index got its name
        spool.remove()
    return BuildSummary(
        str(output),
        found.sentences,
        found.occurrences,
        found.forms,
        vector_index=found.vector_index,
        already_finished=True,
    )


def description_of(
    embedder: Embedder, settings: IndexSettings, source: Input, model: str
) -> Description:
    """What the index is to say of itself, before anything is counted."""
    lancedb = import_lancedb()
    layers = layer_names(settings.layers, embedder.config)
    fingerprint = embedder.fingerprint()
    run = {
        "engine": "neighbours",
        "input": source.identity(),
        "model": fingerprint,
        "state": [embedder.state, embedder.warm_runs],
        "precision": embedder.precision,
        "settings": settings.to_dict() | {"layers": layers},
    }
    return Description(
        model=model,
        fingerprint=fingerprint,
        state=embedder.state,
        tokenizer=embedder.tokenizer.name,
        layers=layers,
        vector_size=embedder.vector_size,
        versions={"elmokit": __version__, "lancedb": lancedb.__version__},
        run=as_stored(run),
    )


def publish(spool: Spool, target: Path) -> None:
    """Give the folder of tables its name; then the rest of the work goes."""
    with disk_errors(target, "written"):
        publish_folder(spool.folder / TABLES, target)
    spool.remove()
