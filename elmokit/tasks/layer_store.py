"""Layers of a frozen biLM, computed once: in memory, and on disk what memory has no room for."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import check_size
from elmokit.errors import FormatError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.io.fetch import Progress
from elmokit.io.files import (
    LEFTOVER,
    disk_errors,
    one_at_a_time,
    read_object,
    remove_leftovers,
    write_atomically,
    write_folder_atomically,
    write_object,
)
from elmokit.model.bilm import Layers
from elmokit.tasks.examples import Words
from elmokit.text.batching import windows
from elmokit.text.characters import Sentence, check_sentences

Array = NDArray[np.float32]

FORMAT, VERSION = "elmokit-layers", 1
RECORD, LOCK = "store.json", "lock"
CHUNK = "layers-"
VALUES, SENTENCES = "values.float32", "sentences.json"
STORED = np.dtype("<f4")


class LayerChunk(NamedTuple):
    """Sentences whose layers are kept together."""

    sentences: Sequence[Sentence]
    values: Array  # (values,): sentence after sentence, each (layers, words, size)


class ChunkFolder:
    """A folder of chunks, and a record of what they are layers of.

    Several processes may use one folder: a chunk never changes once it has its name, and whoever
    adds some has the folder to itself meanwhile. A killed process loses the chunk it was at.

    Args:
        folder: Its name.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._read: set[str] = set()
        self._words: dict[str, str] = {}

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the folder to oneself for the time of a block; wait for whoever has it now."""
        with disk_errors(self.folder, "made"):
            self.folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(self.folder / LOCK):
            yield

    def begin(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """What the folder says its layers are of, once it has said `identity` if it is new."""
        record = self.folder / RECORD
        if not record.exists():
            self._check_empty()
            contents = {"format": FORMAT, "version": VERSION, "facts": identity}
            with write_atomically(record) as temporary:
                write_object(contents, temporary)
            return json.loads(json.dumps(identity))  # as it will be read back: tuples as lists
        found = read_object(record)
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            raise FormatError(f"{record}: is of another version; choose another folder")
        return found.get("facts", {})

    def unread(self, values_per_word: int) -> Iterator[LayerChunk]:
        """The chunks that were added since the last call; the folder must be claimed.

        What is not whole, a killed process left or somebody has damaged: it is removed, and its
        sentences are computed again.
        """
        remove_leftovers(self.folder)
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(CHUNK) and path.name not in self._read:
                chunk = self._whole_chunk(path, values_per_word)
                if chunk is None:
                    shutil.rmtree(path, ignore_errors=True)
                    continue
                self._read.add(path.name)
                yield chunk

    def write(self, sentences: Sequence[Sentence], layers: Iterable[Array]) -> LayerChunk:
        """Keep sentences with their layers, each (layers, words, size); the folder is claimed."""
        numbers = (self.folder / f"{CHUNK}{number:08d}" for number in count())
        path = next(path for path in numbers if not path.exists())
        with write_folder_atomically(path) as temporary:
            # Not through a memory map: there, a full disk kills the process without a word.
            with open(temporary / VALUES, "wb") as file:
                for array in layers:
                    file.write(np.ascontiguousarray(array, dtype=STORED).data)
            write_object({"sentences": sentences}, temporary / SENTENCES, indent=None)
        self._read.add(path.name)
        return LayerChunk(sentences, mapped(path / VALUES))

    def _whole_chunk(self, path: Path, values_per_word: int) -> LayerChunk | None:
        try:
            stored = read_object(path / SENTENCES)["sentences"]
            # Every word is in memory once, however often it occurs.
            sentences = [tuple(map(self._words.setdefault, words, words)) for words in stored]
            values = mapped(path / VALUES)
        except (FormatError, OSError, KeyError, TypeError, ValueError):
            return None
        whole = len(values) == values_per_word * sum(map(len, sentences))
        return LayerChunk(sentences, values) if whole else None

    def _check_empty(self) -> None:
        others = [path.name for path in self.folder.iterdir() if path.name != LOCK]
        if any(not name.startswith(LEFTOVER) for name in others):
            raise InputError(
                f"{self.folder}: holds files that are no stored layers; choose another folder"
            )


def mapped(path: Path) -> Array:
    """A file of numbers, read where they are used; the system keeps what it has memory for."""
    return np.asarray(np.memmap(path, dtype=STORED, mode="r"))


VALUE_BYTES = 4
CHUNK_BYTES = 256 << 20
"""What is kept together: each chunk on disk costs an open file, and at worst is computed again."""
COMPUTED_BYTES = 64 << 20
"""Layers that are in memory on their way to the disk."""
MEMORY_BYTES = 1 << 30


class LayerPlace(NamedTuple):
    """Where the layers of a sentence begin."""

    values: Array  # those of its chunk
    start: int


class LayerStore:
    """Gives the layers of sentences, those that were added without computing them again.

    The sentence itself is the key, as a tuple of words: unlike a hash or a joined text it is never
    that of another sentence, and it shares its words with the examples. Sentences that were not
    added are computed when asked for, and not kept.

    Without a folder, layers are kept in memory up to `memory_bytes`; from there on in a temporary
    folder, which goes with the store. With a folder all of them are kept there, and whoever opens
    it again with the same model has them at once. Files are mapped into memory, so the system
    holds as much of them as it has room for, and what it holds it can give up at any time.

    Args:
        embedder: The model. What it gives must depend on the sentence alone: state `carry` is
            refused.
        layers: "mix" for all, "top", or the number of one: what else there is, is not kept.
        memory_bytes: The most that layers take in memory. The sentences themselves come on top.
        folder: Where to keep them for other runs.

    Attributes:
        numbers: The layers that are kept. A folder may have more than was asked for.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        layers: str | int = "mix",
        memory_bytes: int = MEMORY_BYTES,
        folder: str | Path | None = None,
    ) -> None:
        check_size("memory_bytes", memory_bytes, least=0)
        if embedder.state == "carry":
            raise InputError(
                "in state 'carry' layers depend on what was read before, and cannot be kept; "
                "load the model with state='zero'"
            )
        self.embedder = embedder
        self.numbers = layer_numbers(layers, embedder.config.layer_count)
        self.memory_bytes = memory_bytes
        self._places: dict[Words, LayerPlace] = {}
        self._bytes_in_memory = 0
        self._shared = None if folder is None else ChunkFolder(folder)
        self._temporary: ChunkFolder | None = None
        self._remove_temporary: Callable[[], object] = lambda: None
        if self._shared is not None:
            self._open(self._shared)

    @property
    def size(self) -> int:
        """Size of a word's vector in each layer."""
        return self.embedder.vector_size

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, sentence: Sentence) -> bool:
        return tuple(sentence) in self._places

    def __repr__(self) -> str:
        return f"LayerStore({len(self)} sentences, layers {', '.join(map(str, self.numbers))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all layers, and remove the temporary folder; one that was given stays."""
        self._places.clear()
        self._bytes_in_memory = 0
        self._temporary = None
        self._remove_temporary()

    def check_kept(self, numbers: Iterable[int]) -> None:
        """Refuse layers that are not kept."""
        for number in numbers:
            if number not in self.numbers:
                kept = ", ".join(map(str, self.numbers))
                raise InputError(f"layer {number} is not in the store, which keeps {kept}")

    def add(self, sentences: Sequence[Sentence], progress: Progress | None = None) -> None:
        """Compute and keep the layers of sentences that are not there yet.

        `progress` is called with the words that are computed so far, and with all that are to be.
        """
        check_sentences(sentences)
        if not self._missing(sentences):
            return
        with self._claimed():
            self._take_up_chunks()  # another process may have been here
            missing = self._missing(sentences)
            report = WordsDone(sum(map(len, missing)), progress)
            # Longest first: what is too much for the memory is so at once.
            missing.sort(key=len, reverse=True)
            for chunk in windows(missing, self._words_in(CHUNK_BYTES), len(missing) or 1):
                self._keep(chunk, report)

    def layers(self, sentences: Sequence[Sentence], numbers: Sequence[int] | None = None) -> Layers:
        """The layers of sentences as a padded batch (layers, sentences, words, size), and its mask.

        Args:
            sentences: Any, whether they were added or not.
            numbers: Which of the layers that are kept, in this order; None for all of them.
        """
        numbers = self.numbers if numbers is None else numbers
        self.check_kept(numbers)
        rows = [self.numbers.index(number) for number in numbers]
        lengths = [len(sentence) for sentence in sentences]
        computed = self._compute_missing(sentences)
        # Made on the CPU, where the arrays are; whoever wants it elsewhere moves the batch.
        vectors = torch.zeros(len(rows), len(lengths), max(lengths, default=0), self.size)
        batch = vectors.numpy()
        for row, sentence in enumerate(sentences):
            if sentence:
                words = tuple(sentence)
                found = computed[words] if words in computed else self._kept(words)
                for layer, number in enumerate(rows):
                    batch[layer, row, : len(words)] = found[number]
        mask = torch.arange(vectors.shape[2]) < torch.tensor(lengths, dtype=torch.long)[:, None]
        return Layers(vectors, mask)

    def _open(self, folder: ChunkFolder) -> None:
        """Take up what a folder has, if it is of the same model."""
        with folder.claimed():
            identity = identity_of_layers(self.embedder, self.numbers)
            found = folder.begin(identity)
            check_identity(found, identity, folder.folder)
            self.numbers = tuple(found["layers"])
            self._take_up_chunks()

    def _claimed(self) -> AbstractContextManager[None]:
        return nullcontext() if self._shared is None else self._shared.claimed()

    def _take_up_chunks(self) -> None:
        if self._shared is not None:
            for chunk in self._shared.unread(self._values_per_word):
                self._take_up(chunk)

    def _take_up(self, chunk: LayerChunk) -> None:
        start = 0
        for sentence in chunk.sentences:
            self._places[tuple(sentence)] = LayerPlace(chunk.values, start)
            start += self._values_per_word * len(sentence)

    def _missing(self, sentences: Iterable[Sentence]) -> list[Words]:
        """The distinct sentences that have words and no place, in their order."""
        distinct = dict.fromkeys(map(tuple, sentences))
        return [words for words in distinct if words and words not in self._places]

    def _keep(self, sentences: Sequence[Sentence], report: WordsDone) -> None:
        """Compute the layers of a chunk, and keep them where there is room."""
        values = self._values_per_word * sum(map(len, sentences))
        layers = self._computed(sentences, report)
        room = self.memory_bytes - self._bytes_in_memory
        if self._shared is not None:
            chunk = self._shared.write(sentences, layers)
        elif VALUE_BYTES * values > room:
            chunk = self._temporary_folder().write(sentences, layers)
        else:
            chunk = LayerChunk(sentences, joined(layers, values))
            self._bytes_in_memory += VALUE_BYTES * values
        self._take_up(chunk)

    def _temporary_folder(self) -> ChunkFolder:
        if self._temporary is None:
            folder = tempfile.mkdtemp(prefix="elmokit-layers-")
            self._temporary = ChunkFolder(folder)
            self._remove_temporary = weakref.finalize(
                self, shutil.rmtree, folder, ignore_errors=True
            )
        return self._temporary

    def _compute_missing(self, sentences: Sequence[Sentence]) -> dict[Words, Array]:
        missing = self._missing(sentences)
        if missing:
            check_sentences(sentences)
        return dict(zip(missing, self._computed(missing), strict=True))

    def _computed(
        self, sentences: Sequence[Sentence], report: WordsDone | None = None
    ) -> Iterator[Array]:
        """The layers (layers, words, size) of each sentence, some of them at once."""
        for some in windows(sentences, self._words_in(COMPUTED_BYTES), len(sentences) or 1):
            self.embedder.note_words(some)
            alone = len(self.numbers) == 1
            choice = self.embedder.choose(self.numbers[0] if alone else "all")
            arrays = self.embedder.embed_as(some, choice)
            yield from (array[None] for array in arrays) if alone else arrays
            if report is not None:
                report.add(sum(map(len, some)))

    def _kept(self, words: Words) -> Array:
        values, start = self._places[words]
        end = start + self._values_per_word * len(words)
        return values[start:end].reshape(len(self.numbers), len(words), self.size)

    @property
    def _values_per_word(self) -> int:
        return len(self.numbers) * self.size

    def _words_in(self, some_bytes: int) -> int:
        return max(1, some_bytes // (VALUE_BYTES * self._values_per_word))


class WordsDone:
    """Counts words, and tells whoever wants to know."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.done = 0
        self.total = total
        self.progress = progress

    def add(self, words: int) -> None:
        """So many more are done."""
        self.done += words
        if self.progress is not None:
            self.progress(self.done, self.total)


def layer_numbers(layers: str | int, layer_count: int) -> tuple[int, ...]:
    """The numbers of the layers that are asked for; 0 is the token layer.

    >>> layer_numbers("mix", 3), layer_numbers("top", 3), layer_numbers(1, 3)
    ((0, 1, 2), (2,), (1,))
    """
    if layers == "mix":
        return tuple(range(layer_count))
    number = layer_count - 1 if layers == "top" else layers
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < layer_count:
        raise InputError(f"layers is {layers!r}; use 'mix', 'top', or 0 to {layer_count - 1}")
    return (number,)


def joined(layers: Iterable[Array], values: int) -> Array:
    """The arrays of sentences behind one another, (values,)."""
    row = np.empty(values, dtype=np.float32)
    start = 0
    for array in layers:
        row[start : start + array.size] = array.reshape(-1)
        start += array.size
    return row


def identity_of_bilm(embedder: Embedder) -> dict[str, Any]:
    """What the layers of a sentence depend on."""
    return {
        "model": embedder.fingerprint(),
        "state": [embedder.state, embedder.warm_runs if embedder.state == "warm" else 1],
        "precision": embedder.precision,
    }


def identity_of_layers(embedder: Embedder, numbers: Sequence[int]) -> dict[str, Any]:
    """What stored layers depend on, apart from the sentence."""
    return identity_of_bilm(embedder) | {"layers": list(numbers)}


def check_identity(found: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path) -> None:
    """Refuse a folder of another model, or one that lacks layers."""
    advice = "choose another folder, or remove this one"
    for name in ("model", "state", "precision"):
        if found.get(name) != wanted[name]:
            raise InputError(f"{folder}: holds layers of another {name}; {advice}")
    missing = [number for number in wanted["layers"] if number not in found.get("layers", ())]
    if missing:
        raise InputError(f"{folder}: does not hold layer {missing[0]}; {advice}")
