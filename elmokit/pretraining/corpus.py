"""Corpus preparation: text files to ids on disk, by all CPUs, resumed where it was cut off.

The vocabulary of a softmax is counted from what is prepared.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import compress, islice, pairwise, repeat
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.config import Count, Within, checked
from elmokit.errors import ElmoError, InputError
from elmokit.io.fetch import Progress, cache_folder
from elmokit.io.files import (
    PARTS,
    check_new_file,
    disk_errors,
    read_object,
    sha256_of,
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
    find_files,
    read_chunks,
)
from elmokit.jobs.progress import Observer
from elmokit.jobs.run_folder import RunFolder
from elmokit.pretraining import prepared as layout
from elmokit.pretraining.prepared import CorpusPart, PreparedCorpus, read_part, write_part
from elmokit.system import check_may_start_processes, counted, usable_cpus, work_in_processes
from elmokit.text.korean import versions
from elmokit.text.tokenizer import sentences_of
from elmokit.text.vocabulary import BEGIN, END, NOT_A_WORD, UNKNOWN, Vocabulary, write_vocabulary

ENTRIES_AT_ONCE = 1 << 18
BYTES_AT_ONCE = 8 << 20
"""Of words in all streams together; as Python objects they take six times that."""
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
        self._ids = _zeros_on_disk(path, layout.TOKEN, int(types.sum()))

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
        return np.concatenate([np.zeros(1, layout.TOKEN), self._ids[first:end]])


def _merge_words(
    parts: Sequence[CorpusPart], ids: _IdsOfParts, folder: Path, progress: Progress
) -> int:
    """Write each distinct word once, sorted by its bytes, and remember its id for the parts."""
    total = sum(part.types for part in parts)
    types, merged, length, last = 0, 0, 0, b""
    stream = _entries(parts)
    with (
        open(folder / layout.LEXICON, "wb") as lexicon,
        open(folder / layout.OFFSETS, "wb") as offsets,
    ):
        # Where the empty word 0 begins and ends.
        offsets.write(np.zeros(2, layout.NUMBER).tobytes())
        while entries := list(islice(stream, ENTRIES_AT_ONCE)):
            words = [word for word, _ in entries]
            is_new = [word != before for before, word in pairwise([last, *words])]
            new = list(compress(words, is_new))
            lexicon.write(b"".join(new))
            ends = length + np.cumsum([0, *map(len, new)], dtype=layout.NUMBER)
            offsets.write(ends[1:].tobytes())
            numbers = types + np.cumsum(is_new, dtype=layout.TOKEN)
            ids.add(np.array([number for _, number in entries]), numbers)
            types, length, last = int(numbers[-1]), int(ends[-1]), words[-1]
            merged += len(entries)
            progress(merged, total)
    return types


def _entries(parts: Sequence[CorpusPart]) -> Iterator[tuple[bytes, int]]:
    """Every word of every part with the part's number, in the order of their bytes."""
    block = max(BYTES_AT_ONCE // len(parts), LEAST_BLOCK_BYTES)
    streams = (zip(part.words(block), repeat(n), strict=False) for n, part in enumerate(parts))
    return heapq.merge(*streams)


def _write_tokens(parts: Sequence[CorpusPart], ids: _IdsOfParts, types: int, folder: Path) -> None:
    """Write all tokens with the corpus's ids, a border first, and count them."""
    counts = _zeros_on_disk(folder / layout.COUNTS, layout.NUMBER, types + 1)
    with open(folder / layout.TOKENS, "wb") as file:
        file.write(np.zeros(1, layout.TOKEN).tobytes())
        for number, part in enumerate(parts):
            tokens, corpus_ids = part.read_tokens(), ids.of(number)
            file.write(corpus_ids[tokens].astype(layout.TOKEN).tobytes())
            counts[corpus_ids] += np.bincount(tokens, minlength=len(corpus_ids))
    counts.flush()


def _zeros_on_disk(path: Path, kind: np.dtype[np.generic], size: int) -> np.memmap:
    """Numbers on disk that can be changed in place."""
    # Written, not reserved: a full disk is an error here, but would end the process later.
    with disk_errors(path, "written"), open(path, "wb") as file:
        for start in range(0, size, ENTRIES_AT_ONCE):
            file.write(np.zeros(min(ENTRIES_AT_ONCE, size - start), kind).tobytes())
    return np.memmap(path, kind, mode="r+", shape=(size,))


SETTLED_SECONDS = 2.0  # a file younger than this may change once more without a new date


def sha256_of_files(files: Sequence[Path], memory: Path, progress: Progress) -> list[str]:
    """SHA-256 of files, from the JSON file `memory` where size and date are the same."""
    remembered = _remembered(memory)
    fresh: dict[str, list[Any]] = {}
    hashes = []
    done = 0
    for path in files:
        name, status = str(path.resolve()), path.stat()
        state = [status.st_size, status.st_mtime_ns]
        *known_state, known = remembered.get(name, [None])
        if known_state != state:
            known = sha256_of(path)
            if status.st_mtime < time.time() - SETTLED_SECONDS:
                fresh[name] = [*state, known]
        hashes.append(known)
        done += status.st_size
        progress(done, None)
    if fresh:
        with write_atomically(memory) as temporary:
            # Read again: another process may have remembered something meanwhile.
            write_object(_remembered(memory) | fresh, temporary)
    return hashes


def size_of(path: Path) -> int:
    """The bytes of a file on disk."""
    with disk_errors(path, "read"):
        return path.stat().st_size


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
    observer: Observer | None = None,
) -> PreparedCorpus:
    """Turn text files into ids on disk, or open what was made of the same files before.

    Several processes may call this at once: one prepares, the others wait for it. What a killed
    preparation has done is used by the next one. Without a `cache`, prepared corpora are stored in
    `corpora` in the package's; without `processes`, one per CPU splits text into words.
    """
    cache = Path(cache or cache_folder() / "corpora")
    with disk_errors(cache, "made"):
        cache.mkdir(parents=True, exist_ok=True)
    observer = observer or Observer()
    with observer.stage("looking at the text", "byte", sum(map(size_of, files))) as progress:
        hashes = sha256_of_files(files, cache / "hashes.json", progress)
    job = _Job(files, hashes, settings, cache, observer)
    if not job.target.exists():
        if processes != 1:
            check_may_start_processes()
        run = RunFolder(job.work, job.target, to_resume="run the same command")
        with run.claimed(wait=True):
            # Another process may have prepared it while this one waited.
            if not job.target.exists():
                run.begin({"corpus": job.key}, resume=True, force=False)
                parts = _make_parts(job, processes or usable_cpus())
                with write_folder_atomically(job.target) as folder:
                    _merge(job, parts, folder)
                run.publish()
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

    files: Sequence[Path]
    hashes: list[str]
    settings: TextSettings
    cache: Path
    observer: Observer

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the result."""
        contents = [
            [compression(file), found] for file, found in zip(self.files, self.hashes, strict=True)
        ]
        decisive = [layout.FORMAT, layout.VERSION, described(self.settings), contents]
        if self.settings.tokenizer == "kiwi":
            decisive.append(versions())
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    @property
    def target(self) -> Path:
        return self.cache / self.key

    @property
    def work(self) -> Path:
        """Where parts wait to be merged; other chunks would make other parts."""
        return self.cache / f"{self.key}{PARTS}-{CHUNK_BYTES}"


def _make_parts(job: _Job, processes: int) -> list[list[CorpusPart]]:
    """Make the part of every chunk, or find it; give the parts of each file in their order."""
    paths: list[list[Path]] = []
    total = sum(map(size_of, job.files))
    # Text is a quarter of its size when compressed; one chunk is soonest done here.
    useful = 1 + 4 * total // CHUNK_BYTES
    work = partial(_make_part, settings=job.settings)
    with job.observer.stage("preparing the text", "byte", total) as progress:
        tasks = _tasks(job, paths, progress)
        with closing(work_in_processes(work, tasks, min(processes, useful))) as results:
            for _ in results:
                pass
    return [[read_part(path) for path in paths_of_file] for paths_of_file in paths]


def _tasks(job: _Job, paths: list[list[Path]], progress: Progress) -> Iterator[tuple[Chunk, Path]]:
    """Read all chunks, note the path of each one's part, and give those that have none yet."""
    done = 0
    for file_number, file in enumerate(job.files):
        paths.append([])
        for number, chunk in enumerate(read_chunks(file, CHUNK_BYTES)):
            path = job.work / f"{file_number:06}-{number:06}.part"
            paths[-1].append(path)
            if not path.exists():
                yield chunk, path
            progress(done + chunk.position, None)
        done += size_of(file)


def _make_part(task: tuple[Chunk, Path], settings: TextSettings) -> None:
    chunk, path = task
    write_part(sentences_of(chunk, settings), path)


def _merge(job: _Job, parts: list[list[CorpusPart]], folder: Path) -> None:
    """Fill the folder of the corpus."""
    all_parts = [part for parts_of_file in parts for part in parts_of_file]
    if not any(part.types for part in all_parts):
        more = f" and {len(job.files) - 1} more" if len(job.files) > 1 else ""
        raise InputError(f"{job.files[0]}{more}: there are no words in it; give text with words")
    with job.observer.stage("merging the words", "word") as progress:
        types = merge_parts(all_parts, folder, job.work, progress)
    tokens = np.array([sum(part.tokens for part in parts_of_file) for parts_of_file in parts])
    shards = np.concatenate([[0], np.cumsum(tokens)]).astype(layout.NUMBER)
    shards.tofile(folder / layout.SHARDS)
    sentences = int(np.fromfile(folder / layout.COUNTS, layout.NUMBER, 1)[0])
    description = {
        "format": layout.FORMAT,
        "version": layout.VERSION,
        "key": job.key,
        "settings": described(job.settings),
        "sentences": sentences,
        "words": int(shards[-1]) - sentences,
        "types": types,
        "files": [
            {"name": file.name, "sha256": found}
            for file, found in zip(job.files, job.hashes, strict=True)
        ],
    }
    write_object(description, folder / layout.DESCRIPTION)


SPECIAL = (BEGIN, END, UNKNOWN)


def build_vocabulary(
    corpus: PreparedCorpus, *, max_size: int | None = None, min_count: int = 1
) -> Vocabulary:
    """The words of a corpus by falling count, after `<S>`, `</S>` and `<UNK>`, with their counts.

    Words of the same count are in the order of their bytes. `<UNK>` counts every word left out,
    and with them special words that stand literally in the text. With `max_size` the vocabulary is
    of the most frequent words, and has that size at most, special words counted.
    """
    checked("min_count", min_count, Count)
    if max_size is not None:
        checked("max_size", max_size, Annotated[int, Within(least=len(SPECIAL) + 1)])
    # The last is not a word to whoever reads the file: it would shift the ids of all after it.
    reserved = [corpus.id_of(word) or 0 for word in (*SPECIAL, NOT_A_WORD)]
    ids = np.argsort(-corpus.counts, kind="stable")  # those of the same count by rising id
    ids = ids[(corpus.counts[ids] >= min_count) & ~np.isin(ids, [0, *reserved])]
    ids = ids[: None if max_size is None else max_size - len(SPECIAL)]
    if not len(ids):
        raise InputError(f"no word comes {min_count} times in the text; lower min_count")
    counts = corpus.counts[ids].tolist()
    left_out = corpus.words_in_all - sum(counts)
    return Vocabulary(
        (*SPECIAL, *map(corpus.word, ids.tolist())),
        (corpus.sentences, corpus.sentences, left_out, *counts),
    )


def check_falling(vocabulary: Vocabulary, corpus: PreparedCorpus, name: str) -> None:
    """Raise for a vocabulary that a sampled or adaptive softmax cannot be trained with.

    Such a softmax takes a word's id for its rank: `<S>`, `</S>` and `<UNK>` must come first, and
    the words after them by falling count. Counts that the vocabulary does not have are taken from
    the corpus. `name` is what an error calls the vocabulary.
    """
    if vocabulary.words[: len(SPECIAL)] != SPECIAL:
        found = " ".join(vocabulary.words[: len(SPECIAL)])
        raise InputError(
            f"{name}: begins with {found}, not with {' '.join(SPECIAL)}, as a sampled or adaptive "
            "softmax needs it; build one: elmo vocabulary"
        )
    counts = np.array(vocabulary.counts or np.zeros(len(vocabulary)), np.int64)
    if vocabulary.counts is None:
        np.add.at(counts, corpus.target_ids(vocabulary)[1:], corpus.counts[1:])
    counts = counts[len(SPECIAL) :]
    rising = np.flatnonzero(counts[1:] > counts[:-1])
    if len(rising):
        number = int(rising[0]) + 1
        word = vocabulary.word_of(number + len(SPECIAL))
        raise InputError(
            f"{name}, line {number + len(SPECIAL) + 1}: {word!r} comes {counts[number]:,} times, "
            f"the word before it {counts[number - 1]:,} times; a sampled or adaptive softmax takes "
            "the id for the rank, and words out of order give a tiny training and a huge test "
            "perplexity; build one: elmo vocabulary"
        )


class VocabularySummary(NamedTuple):
    """What was counted, and what is in the vocabulary."""

    output: str
    sentences: int
    words: int
    types: int
    kept: int
    coverage: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict()

    def describe(self) -> str:
        """A few lines."""
        return (
            f"{self.output}: {self.kept:,} words, {', '.join(SPECIAL)} among them\n"
            f"The text has {self.words:,} words in {counted(self.sentences, 'sentence')}, "
            f"{self.types:,} of them different.\n"
            f"The vocabulary covers {100 * self.coverage:.2f} % of them."
        )


def write_corpus_vocabulary(
    patterns: Sequence[str | Path],
    output: str | Path,
    text: TextSettings | None = None,
    *,
    max_size: int | None = None,
    min_count: int = 1,
    cache: Path | None = None,
    processes: int | None = None,
    force: bool = False,
    observer: Observer | None = None,
) -> VocabularySummary:
    """Count the words of text files, and write the vocabulary of a softmax.

    `patterns` are as in `find_files`, and `text` says how they are read: None for raw text.
    `max_size` and `min_count` are as in `build_vocabulary`, the rest as in `prepare_corpus`. An
    `output` that is there is replaced only by `force`.
    """
    files = find_files(patterns)
    check_new_file(output, force, files)
    with disk_errors(Path(output).parent, "made"):
        Path(output).parent.mkdir(parents=True, exist_ok=True)
    corpus = prepare_corpus(
        files, text or TextSettings(split=True), cache=cache, processes=processes, observer=observer
    )
    vocabulary = build_vocabulary(corpus, max_size=max_size, min_count=min_count)
    write_vocabulary(vocabulary, output)
    counts = vocabulary.counts or ()
    return VocabularySummary(
        output=str(output),
        sentences=corpus.sentences,
        words=corpus.words_in_all,
        types=corpus.types,
        kept=len(vocabulary),
        coverage=sum(counts[len(SPECIAL) :]) / corpus.words_in_all,
    )
