"""Text files to a prepared corpus: once, by all processors, going on where it was cut off."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.formats.fetch import Progress, cache_folder
from elmokit.formats.files import disk_errors, one_at_a_time, write_folder_atomically
from elmokit.formats.json_files import write_object
from elmokit.pretraining.hashes import sha256_of_files, size_of
from elmokit.pretraining.merging import merge_parts
from elmokit.pretraining.parts import Part, read_part, write_part
from elmokit.pretraining.prepared import (
    COUNT,
    COUNTS,
    DESCRIPTION,
    FORMAT,
    POSITION,
    SHARDS,
    VERSION,
    PreparedCorpus,
)
from elmokit.pretraining.processes import check_may_start_processes, work_in_processes
from elmokit.text.corpus import (
    CHUNK_BYTES,
    Chunk,
    CorpusSettings,
    Errors,
    compression,
    read_chunks,
    sentences_of,
)
from elmokit.threads import usable_cpus


def prepare_corpus(
    files: Sequence[Path],
    *,
    tokenizer: str,
    one_sentence_per_line: bool = False,
    errors: Errors = "strict",
    cache: Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Turn text files into ids on disk, or open what was made of the same files before.

    Several processes may call this at once: one prepares, the others wait for it. What a killed
    preparation has done is used by the next one.

    Args:
        files: Plain text, `.gz`, `.xz` or `.zst`; see `elmokit.text.corpus.find_files`.
        tokenizer: "default" for raw text, "whitespace" for a tokenized sentence on each line.
        one_sentence_per_line: With "default": a line is a sentence, and not a paragraph.
        errors: "strict" refuses what is not UTF-8, "replace" reads it as U+FFFD.
        cache: Where prepared corpora are kept. Without it: `corpora` in the package's cache.
        processes: How many split text into words. Without it: one per processor.
        progress: Told the bytes of the files that are done, in three passes: hashing, splitting
            and merging.
    """
    settings = CorpusSettings(tokenizer, one_sentence_per_line, errors)
    if not files:
        raise InputError("there are no files to prepare; name at least one")
    if processes is not None:
        check_size("processes", processes)
    cache = Path(cache or cache_folder() / "corpora")
    with disk_errors(cache, "made"):
        cache.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda done, total: None)
    hashes = sha256_of_files(files, cache / "hashes.json", report)
    job = _Job(list(files), hashes, settings, cache, report)
    if not job.target.exists():
        if processes != 1:
            check_may_start_processes()
        with one_at_a_time(cache / f"{job.key}.lock"):
            # Another process may have prepared it while this one waited.
            if not job.target.exists():
                _prepare(job, processes or usable_cpus())
    return PreparedCorpus.open(job.target)


class _Job(NamedTuple):
    """What is to be prepared, and where."""

    files: list[Path]
    hashes: list[str]
    settings: CorpusSettings
    cache: Path
    progress: Progress

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the result."""
        contents = [[compression(file), found] for file, found in self.described_files]
        decisive = [FORMAT, VERSION, self.settings.to_dict(), contents]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def described_files(self) -> list[tuple[Path, str]]:
        return list(zip(self.files, self.hashes, strict=True))

    @property
    def target(self) -> Path:
        return self.cache / self.key

    @property
    def work(self) -> Path:
        """Where parts wait to be merged; other chunks would make other parts."""
        return self.cache / f"{self.key}.parts-{CHUNK_BYTES}"


class _Task(NamedTuple):
    """A chunk to make a part of."""

    chunk: Chunk
    path: Path


def _prepare(job: _Job, processes: int) -> None:
    """Make the parts that are not there yet, merge them, and forget them."""
    _remove_leftovers(job)
    with disk_errors(job.work, "made"):
        job.work.mkdir(exist_ok=True)
    parts = _make_parts(job, processes)
    with write_folder_atomically(job.target) as folder:
        _merge(job, parts, folder)
    shutil.rmtree(job.work, ignore_errors=True)


def _remove_leftovers(job: _Job) -> None:
    """Remove what a killed process was writing: a folder without a name is of no use."""
    for folder in job.cache.glob(f".tmp-*-{job.key}"):
        shutil.rmtree(folder, ignore_errors=True)


def _make_parts(job: _Job, processes: int) -> list[list[Part]]:
    """Make the part of every chunk, or find it; give the parts of each file in their order."""
    paths: list[list[Path]] = []
    total = sum(map(size_of, job.files))
    # Text is a quarter of its size when compressed; one chunk is soonest done here.
    useful = 1 + 4 * total // CHUNK_BYTES
    work = partial(_make_part, settings=job.settings)
    tasks = _tasks(job, paths, total)
    with closing(work_in_processes(work, tasks, min(processes, useful))) as results:
        for _ in results:
            pass
    job.progress(total, total)
    return [[read_part(path) for path in paths_of_file] for paths_of_file in paths]


def _tasks(job: _Job, paths: list[list[Path]], total: int) -> Iterator[_Task]:
    """Read all chunks, note the path of each one's part, and give those that have none yet."""
    done = 0
    for file_number, file in enumerate(job.files):
        paths.append([])
        for number, chunk in enumerate(read_chunks(file, CHUNK_BYTES)):
            path = job.work / f"{file_number:06}-{number:06}.part"
            paths[-1].append(path)
            if not path.exists():
                yield _Task(chunk, path)
            job.progress(done + chunk.position, total)
        done += size_of(file)


def _make_part(task: _Task, settings: CorpusSettings) -> None:
    write_part(sentences_of(task.chunk, settings), task.path)


def _merge(job: _Job, parts: list[list[Part]], folder: Path) -> None:
    """Fill the folder of the corpus."""
    total = sum(map(size_of, job.files))
    all_parts = [part for parts_of_file in parts for part in parts_of_file]
    if not any(part.types for part in all_parts):
        raise InputError(f"{_named(job.files)}: there are no words in it; give text with words")
    types = merge_parts(
        all_parts,
        folder,
        job.work,
        lambda merged, entries: job.progress(total * merged // (entries or 1), total),
    )
    tokens = np.array([sum(part.tokens for part in parts_of_file) for parts_of_file in parts])
    shards = np.concatenate([[0], np.cumsum(tokens)]).astype(POSITION)
    shards.tofile(folder / SHARDS)
    sentences = int(np.fromfile(folder / COUNTS, COUNT, 1)[0])
    description = {
        "format": FORMAT,
        "version": VERSION,
        "key": job.key,
        "settings": job.settings.to_dict(),
        "sentences": sentences,
        "words": int(shards[-1]) - sentences,
        "types": types,
        "files": [{"name": file.name, "sha256": found} for file, found in job.described_files],
    }
    write_object(description, folder / DESCRIPTION)


def _named(files: Sequence[Path]) -> str:
    """The files for an error message, in few words."""
    return f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
