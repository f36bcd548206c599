"""Text files to a prepared corpus: once, by all CPUs, going on where it was cut off."""

from __future__ import annotations

import hashlib
import heapq
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_size
from elmokit.errors import ElmoError, InputError
from elmokit.io.fetch import Progress, cache_folder
from elmokit.io.files import (
    PARTS,
    disk_errors,
    read_object,
    write_atomically,
    write_folder_atomically,
    write_object,
)
from elmokit.io.text_files import (
    CHUNK_BYTES,
    ENCODING,
    Chunk,
    TextSettings,
    compression,
    read_chunks,
)
from elmokit.jobs.run_folder import RunFolder
from elmokit.pretraining.prepared import (
    COUNT,
    COUNTS,
    DESCRIPTION,
    FORMAT,
    LEXICON,
    OFFSET,
    OFFSETS,
    POSITION,
    SHARDS,
    TOKEN,
    TOKENS,
    VERSION,
    CorpusPart,
    PreparedCorpus,
    read_part,
    write_part,
)
from elmokit.system import check_may_start_processes, usable_cpus, work_in_processes
from elmokit.text.tokenizer import sentences_of

ENTRIES_AT_ONCE = 1 << 18
BYTES_AT_ONCE = (
    8 << 20
)  # of words in all streams together; as Python objects they take six times that
LEAST_BLOCK_BYTES = 1 << 12


def merge_parts(parts: Sequence[CorpusPart], folder: Path, work: Path, progress: Progress) -> int:
    """Write the lexicon, the tokens and the counts of a corpus; give the number of its types."""
    ids = _IdsOfParts(parts, work / "ids")
    types = _merge_words(parts, ids, folder, progress)
    _write_tokens(parts, ids, types, folder)
    return types


class _IdsOfParts:
    """The corpus id of every word of every part, on disk, filled in the order of the lexicon."""

    def __init__(self, parts: Sequence[CorpusPart], path: Path) -> None:
        types = np.array([part.types for part in parts], np.int64)
        self._first = np.cumsum(types) - types
        self._filled = self._first.copy()
        self._ids = _zeros_on_disk(path, TOKEN, int(types.sum()))

    def add(self, parts: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
        """Append ids (entries) to the parts (entries) that they belong to."""
        order = np.argsort(parts, kind="stable")
        occurrences = np.bincount(parts, minlength=len(self._first))
        starts = np.cumsum(occurrences) - occurrences
        sorted_parts = parts[order]
        rank = np.arange(len(parts)) - starts[sorted_parts]
        self._ids[self._filled[sorted_parts] + rank] = ids[order]
        self._filled += occurrences

    def of(self, number: int) -> NDArray[np.int32]:
        """The corpus ids (types + 1) of a part's own ids; its border stays 0."""
        first, end = self._first[number], self._filled[number]
        return np.concatenate([np.zeros(1, TOKEN), self._ids[first:end]])


def _merge_words(
    parts: Sequence[CorpusPart], ids: _IdsOfParts, folder: Path, progress: Progress
) -> int:
    """Write each distinct word once, sorted by its bytes, and remember its id for the parts."""
    total = sum(part.types for part in parts)
    merged = 0
    with open(folder / LEXICON, "wb") as lexicon, open(folder / OFFSETS, "wb") as offsets:
        words = _NewWords(lexicon, offsets)
        for entries in _batches(_entries(parts)):
            ids.add(
                np.array([number for _, number in entries], np.int64),
                np.array([words.id_of(word) for word, _ in entries], TOKEN),
            )
            words.write()
            merged += len(entries)
            progress(merged, total)
    return words.types


class _NewWords:
    """Numbers words that come in their order, and writes them with the places where they end."""

    def __init__(self, lexicon: BinaryIO, offsets: BinaryIO) -> None:
        self._lexicon, self._offsets = lexicon, offsets
        self._last = b""
        self._new: list[bytes] = []
        self._end = 0
        self.types = 0
        offsets.write(np.zeros(2, OFFSET).tobytes())  # where the empty word 0 begins and ends

    def id_of(self, word: bytes) -> int:
        """The id of a word that is the last one or comes after it."""
        if word != self._last:
            self._last = word
            self._new.append(word)
            self.types += 1
        return self.types

    def write(self) -> None:
        """Write the words that came since the last time."""
        lengths = np.fromiter(map(len, self._new), OFFSET, len(self._new))
        ends = self._end + np.cumsum(lengths)
        self._lexicon.write(b"".join(self._new))
        self._offsets.write(ends.astype(OFFSET).tobytes())
        self._end += int(lengths.sum())
        self._new.clear()


def _entries(parts: Sequence[CorpusPart]) -> Iterator[tuple[bytes, int]]:
    """Every word of every part with the part's number, in the order of their bytes."""
    block = max(BYTES_AT_ONCE // len(parts), LEAST_BLOCK_BYTES)
    streams = (zip(part.words(block), repeat(n), strict=False) for n, part in enumerate(parts))
    return heapq.merge(*streams)


def _batches(entries: Iterable[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    entries = iter(entries)
    while batch := list(islice(entries, ENTRIES_AT_ONCE)):
        yield batch


def _write_tokens(parts: Sequence[CorpusPart], ids: _IdsOfParts, types: int, folder: Path) -> None:
    """Write all tokens with the corpus's ids, a border first, and count them."""
    counts = _zeros_on_disk(folder / COUNTS, COUNT, types + 1)
    with open(folder / TOKENS, "wb") as file:
        file.write(np.zeros(1, TOKEN).tobytes())
        for number, part in enumerate(parts):
            tokens, corpus_ids = part.read_tokens(), ids.of(number)
            file.write(corpus_ids[tokens].astype(TOKEN).tobytes())
            counts[corpus_ids] += np.bincount(tokens, minlength=len(corpus_ids))
    counts.flush()


def _zeros_on_disk(path: Path, kind: np.dtype[np.generic], size: int) -> np.memmap:
    """Numbers on disk that can be changed in place."""
    # Written, not reserved: a full disk is an error here, but would end the process later.
    with disk_errors(path, "written"), open(path, "wb") as file:
        for start in range(0, size, ENTRIES_AT_ONCE):
            file.write(np.zeros(min(ENTRIES_AT_ONCE, size - start), kind).tobytes())
    return np.memmap(path, kind, mode="r+", shape=(size,))


BLOCK_BYTES = 1 << 22
SETTLED_SECONDS = 2.0
"""A file younger than this may change once more without a new date."""


def sha256_of_files(files: Sequence[Path], memory: Path, progress: Progress) -> list[str]:
    """The SHA-256 of each file's contents, remembered in the JSON file `memory`.

    A file with the size and the date that it had before is taken to hold what it held.
    """
    remembered = _remembered(memory)
    fresh: dict[str, list[Any]] = {}
    hashes = []
    total = sum(map(size_of, files))
    done = 0
    for path in files:
        name, state = str(path.resolve()), _state(path)
        *known_state, known = remembered.get(name, [None])
        if known_state != state:
            known = _sha256(path, done, total, progress)
            if _settled(state):
                fresh[name] = [*state, known]
        hashes.append(known)
        done += size_of(path)
        progress(done, total)
    if fresh:
        with write_atomically(memory) as temporary:
            # Read again: another process may have remembered something meanwhile.
            write_object(_remembered(memory) | fresh, temporary)
    return hashes


def size_of(path: Path) -> int:
    """The bytes of a file on disk."""
    return _state(path)[0]


def _state(path: Path) -> list[int]:
    """What a file must keep to count as unchanged: its size and its date."""
    with disk_errors(path, "read"):
        status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _settled(state: list[int]) -> bool:
    return state[1] < (time.time() - SETTLED_SECONDS) * 1e9


def _sha256(path: Path, done: int, total: int, progress: Progress) -> str:
    digest = hashlib.sha256()
    with disk_errors(path, "read"), open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            progress(done, total)
    return digest.hexdigest()


def _remembered(memory: Path) -> dict[str, list[Any]]:
    try:
        return {name: list(state) for name, state in read_object(memory).items()}
    except (ElmoError, TypeError):
        return {}  # it can always be found out again


def prepare_corpus(
    files: Sequence[Path],
    settings: TextSettings,
    *,
    cache: Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Turn text files into ids on disk, or open what was made of the same files before.

    Several processes may call this at once: one prepares, the others wait for it. What a killed
    preparation has done is used by the next one.

    Args:
        files: Plain text, `.gz`, `.xz` or `.zst`; see `elmokit.io.text_files.find_files`.
        settings: How it is read.
        cache: Where prepared corpora are kept. Without it: `corpora` in the package's cache.
        processes: How many split text into words. Without it: one per CPU.
        progress: Told the bytes of the files that are done, in three passes: hashing, splitting
            and merging.
    """
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
        run = RunFolder(job.work, job.target, to_resume="run the same command")
        with run.claimed(wait=True):
            # Another process may have prepared it while this one waited.
            if not job.target.exists():
                _prepare(job, run, processes or usable_cpus())
    return PreparedCorpus.open(job.target)


def described(settings: TextSettings) -> dict[str, Any]:
    """What `TextSettings.of_corpus` makes the settings of; those that read alike are alike."""
    values = {
        "tokenizer": settings.tokenizer if settings.raw else "whitespace",
        "one_sentence_per_line": not settings.split,
        "errors": settings.errors,
    }
    return values if settings.encoding == ENCODING else values | {"encoding": settings.encoding}


class _Job(NamedTuple):
    """What is to be prepared, and where."""

    files: list[Path]
    hashes: list[str]
    settings: TextSettings
    cache: Path
    progress: Progress

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the result."""
        contents = [[compression(file), found] for file, found in self.described_files]
        decisive = [FORMAT, VERSION, described(self.settings), contents]
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
        return self.cache / f"{self.key}{PARTS}-{CHUNK_BYTES}"


class _Task(NamedTuple):
    """A chunk to make a part of."""

    chunk: Chunk
    path: Path


def _prepare(job: _Job, run: RunFolder, processes: int) -> None:
    """Make the parts that are not there yet, merge them, and forget them."""
    run.begin({"corpus": job.key}, resume=True, force=False)
    parts = _make_parts(job, processes)
    with write_folder_atomically(job.target) as folder:
        _merge(job, parts, folder)
    run.publish()


def _make_parts(job: _Job, processes: int) -> list[list[CorpusPart]]:
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


def _make_part(task: _Task, settings: TextSettings) -> None:
    write_part(sentences_of(task.chunk, settings), task.path)


def _merge(job: _Job, parts: list[list[CorpusPart]], folder: Path) -> None:
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
        "settings": described(job.settings),
        "sentences": sentences,
        "words": int(shards[-1]) - sentences,
        "types": types,
        "files": [{"name": file.name, "sha256": found} for file, found in job.described_files],
    }
    write_object(description, folder / DESCRIPTION)


def _named(files: Sequence[Path]) -> str:
    """The files for an error message, in few words."""
    return f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
