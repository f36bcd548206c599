"""Store of the layers of a frozen biLM, computed once: in memory, or in one file mapped into it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import CountOrZero, checked
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder
from elmokit.io.fetch import Progress
from elmokit.io.files import claim, disk_errors
from elmokit.jobs.checkpoints import fingerprint
from elmokit.model.bilm import Layers
from elmokit.tasks.examples import Words
from elmokit.text.characters import Sentence, check_sentences, windows

Array = NDArray[np.float32]

VERSION = 2
VALUES, SENTENCES, LOCK = "values.float32", "sentences.jsonl", "lock"
STORED = np.dtype("<f4")
COMPUTED_BYTES = 64 << 20  # layers that are computed at once, before they are stored
MEMORY_BYTES = 1 << 30


class LayerStore:
    """Gives the layers of sentences, those that were added without computing them again.

    The sentence itself is the key, as a tuple of words: unlike a hash or a joined text it is never
    that of another sentence, and it shares its words with the examples. Sentences that were not
    added are computed when asked for, and not stored.

    Without a folder, layers are in memory up to `memory_bytes`; what is added beyond is in a
    temporary folder, which goes with the store. With a folder all of them are there, and whoever
    opens it again has them at once. Its file is mapped into memory, so the system holds as much of
    it as it has room for, and what it holds it can give up at any time.

    Several processes may use one folder: whoever adds to it has it to itself meanwhile. Values are
    appended first, then the sentences that they are of, so that a kill loses no more than what was
    being written.

    What the model gives must depend on the sentence alone, which it does not in state `carry`. The
    layers are "mix" for all, "top", or the number of one; `numbers` are those that are stored, and
    `size` is that of a word's vector in each. `folder_name` names a folder for other runs of the
    same model and layers.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        layers: str | int = "mix",
        memory_bytes: int = MEMORY_BYTES,
        folder: str | Path | None = None,
    ) -> None:
        checked("memory_bytes", memory_bytes, CountOrZero)
        if embedder.state == "carry":
            raise InputError(
                "in state 'carry' layers depend on what was read before, and cannot be stored; "
                "load the model with state='zero'"
            )
        self.embedder = embedder
        self.numbers = layer_numbers(layers, embedder.config.layer_count)
        self.size = embedder.vector_size
        self.memory_bytes = memory_bytes
        self._arrays: dict[Words, Array] = {}
        self._bytes_in_memory = 0
        self._folder = None if folder is None else Path(folder)
        self._read_bytes = self._read_words = 0  # of the folder's sentences
        self._remove_temporary: Callable[[], object] = lambda: None
        if self._folder is not None:
            with self._claimed():
                self._read_folder(self._folder)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, sentence: Sentence) -> bool:
        return tuple(sentence) in self._arrays

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Forget all layers, and remove the temporary folder; one that was given stays."""
        self._arrays.clear()
        self._remove_temporary()
        self._folder, self._read_bytes, self._read_words, self._bytes_in_memory = None, 0, 0, 0

    def __call__(self, sentences: Sequence[Sentence]) -> Layers:
        """The layers of any sentences as a padded batch (layers, sentences, words, size)."""
        lengths = [len(sentence) for sentence in sentences]
        missing = self._missing(sentences)
        computed: dict[Words, Array] = {}
        if missing:
            check_sentences(sentences)
            computed |= zip(missing, self._computed(missing), strict=True)
        # Made on the CPU, where the arrays are; whoever wants it elsewhere moves the batch.
        vectors = torch.zeros(len(self.numbers), len(lengths), max(lengths, default=0), self.size)
        batch = vectors.numpy()
        for row, sentence in enumerate(sentences):
            if sentence:
                words = tuple(sentence)
                found = computed[words] if words in computed else self._arrays[words]
                batch[:, row, : len(words)] = found
        mask = torch.arange(vectors.shape[2]) < torch.tensor(lengths, dtype=torch.long)[:, None]
        return Layers(vectors, mask)

    def add(self, sentences: Sequence[Sentence], progress: Progress | None = None) -> None:
        """Compute and store the layers of sentences that are not there yet; tell of their words."""
        sentences = check_sentences(sentences)
        if not self._missing(sentences):
            return
        with self._claimed():
            if self._folder is not None:
                self._read_folder(self._folder)  # another process may have been here
            missing = self._missing(sentences)
            # Longest first: what is too much for the memory is so at once.
            missing.sort(key=len, reverse=True)
            done, total = 0, sum(map(len, missing))
            self._make_room(total)
            words_at_once = max(1, COMPUTED_BYTES // self._bytes_per_word)
            for some in windows(missing, words_at_once, len(missing) or 1):
                self._store(some)
                done += sum(map(len, some))
                if progress is not None:
                    progress(done, total)
            if self._folder is not None:
                self._read_folder(self._folder)

    def _claimed(self) -> AbstractContextManager[None]:
        if self._folder is None:
            return nullcontext()
        with disk_errors(self._folder, "made"):
            self._folder.mkdir(parents=True, exist_ok=True)
        return claim(self._folder / LOCK, wait=True)

    def _missing(self, sentences: Iterable[Sentence]) -> list[Words]:
        """The distinct sentences that have words and are not stored, in their order."""
        distinct = dict.fromkeys(map(tuple, sentences))
        return [words for words in distinct if words and words not in self._arrays]

    def _make_room(self, words: int) -> None:
        """Use a temporary folder from now on where so many words are too much for the memory."""
        self._bytes_in_memory += words * self._bytes_per_word
        if self._folder is None and self._bytes_in_memory > self.memory_bytes:
            self._folder = Path(tempfile.mkdtemp(prefix="elmokit-layers-"))
            self._remove_temporary = weakref.finalize(
                self, shutil.rmtree, self._folder, ignore_errors=True
            )

    def _store(self, sentences: Sequence[Sentence]) -> None:
        """Compute the layers of sentences, and store them in the folder, or else in memory."""
        if self._folder is None:
            for words, array in zip(sentences, self._computed(sentences), strict=True):
                self._arrays[tuple(words)] = np.array(array)  # not a part of its batch
            return
        # Not through the memory map: there, a full disk kills the process without a word.
        with disk_errors(self._folder, "written"):
            with open(self._folder / VALUES, "ab") as file:
                for array in self._computed(sentences):
                    file.write(np.ascontiguousarray(array, dtype=STORED).data)
                file.flush()
                os.fsync(file.fileno())
            with open(self._folder / SENTENCES, "ab") as file:
                file.writelines(f"{json.dumps(words)}\n".encode() for words in sentences)

    def _read_folder(self, folder: Path) -> None:
        """Map what was added to the folder since it was read, and cut off what is incomplete."""
        values, sentences = folder / VALUES, folder / SENTENCES
        with (
            disk_errors(folder, "read"),
            open(sentences, "ab+") as lines,
            open(values, "ab") as file,
        ):
            left = file.tell() // self._bytes_per_word - self._read_words
            start, found = self._read_words, []
            lines.seek(self._read_bytes)
            for line in lines:
                words = _words_of(line)
                if words is None or len(words) > left:
                    break
                left -= len(words)
                found.append(words)
                self._read_bytes += len(line)
                self._read_words += len(words)
            lines.truncate(self._read_bytes)
            file.truncate(self._read_words * self._bytes_per_word)
        if found:
            offset = start * self._bytes_per_word
            mapped = np.asarray(np.memmap(values, dtype=STORED, mode="r", offset=offset))
            self._take_up(found, mapped)

    def _take_up(self, sentences: Iterable[Words], values: Array) -> None:
        start = 0
        for words in sentences:
            shape = len(self.numbers), len(words), self.size
            end = start + len(words) * self._bytes_per_word // STORED.itemsize
            self._arrays[words] = values[start:end].reshape(shape)
            start = end

    def _computed(self, sentences: Sequence[Sentence]) -> list[Array]:
        """The layers (layers, words, size) of each sentence."""
        alone = len(self.numbers) == 1
        self.embedder.unusual.note_all(sentences)
        choice = self.embedder.choose(self.numbers[0] if alone else "all")
        arrays = self.embedder.embed_as(sentences, choice)
        return [array[None] for array in arrays] if alone else arrays

    @property
    def _bytes_per_word(self) -> int:
        return STORED.itemsize * len(self.numbers) * self.size


def _words_of(line: bytes) -> Words | None:
    """The sentence of a line; None where the line is damaged, or cut off."""
    try:
        # Every word is in memory once, however often it occurs.
        return tuple(map(sys.intern, json.loads(line))) if line.endswith(b"\n") else None
    except (ValueError, TypeError):
        return None


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


def identity_of_bilm(embedder: Embedder) -> dict[str, Any]:
    """What the layers of a sentence depend on."""
    return {
        "model": embedder.fingerprint(),
        "state": [embedder.state, embedder.warm_runs if embedder.state == "warm" else 1],
        "precision": embedder.precision,
    }


def folder_name(embedder: Embedder, layers: str | int) -> str:
    """The name of a folder for layers, which other models and other layers do not share."""
    numbers = layer_numbers(layers, embedder.config.layer_count)
    identity = identity_of_bilm(embedder) | {"layers": numbers, "version": VERSION}
    return f"{fingerprint(identity)[:16]}-{layers}"
