"""Vectors of texts by a frozen biLM, each text read once: what Keras and scikit-learn share."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch

from elmokit.adaptors.tensorflow_hub import CHOSEN_MODEL, as_list, is_hub_address, read_spec
from elmokit.bundled import ENGLISH_SMALL, is_bundled
from elmokit.config import Precision, check_choice, check_size
from elmokit.errors import InputError
from elmokit.formats.find import MODEL_OF_RUN, Location, is_published
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Vectors
from elmokit.inference.token_vectors import check_device
from elmokit.text.characters import short

Spec = Location | tuple[Location, Location] | list[Location] | None
Locations = tuple[str, ...]
Split = Literal["spaces", "default"]
Tokenizer = Split | Callable[[str], Sequence[str]]
Progress = Callable[[int, int | None], None]

MODELS_AT_ONCE = 2
READERS_AT_ONCE = 4
"""How many models stay loaded, and how many caches of texts."""
TEXTS_AT_ONCE = 1024
"""How many texts are sorted by length together when they are read ahead."""
MEGABYTE = 1 << 20
MEAN, MAX = range(2)
"""The rows of what `pooled` gives."""


class LoadedModel(NamedTuple):
    """A model that all who name it share, since nobody here trains it."""

    embedder: Embedder
    checksum: str  # of everything that its vectors depend on


def locations_of(spec: Spec) -> Locations:
    """What a spec names, as text: a folder, a name or a URL, or options and weights.

    >>> locations_of(None), locations_of(["options.json", "weights.hdf5"])
    (('english-small',), ('options.json', 'weights.hdf5'))
    """
    if spec is None:
        return (ENGLISH_SMALL,)
    locations = spec if isinstance(spec, tuple | list) else [spec]
    if isinstance(spec, tuple | list) and len(spec) != 2:
        raise InputError(f"model has {len(spec)} entries; give (options, weights)")
    for location in locations:
        if not isinstance(location, str | Path):
            raise InputError(f"model is {short(location)}; give a folder, a name, or two files")
    return tuple(os.fspath(location) for location in locations)


def absolute(spec: Any) -> Any:
    """The same, found from any folder; names, URLs and what cannot be a model stay as they are."""
    if isinstance(spec, tuple | list):
        return [absolute(location) for location in spec]
    there = isinstance(spec, str | Path) and os.path.exists(spec)
    return os.path.abspath(spec) if there else spec


def load_shared(
    spec: Spec, device: str | torch.device | None = None, precision: Precision = "exact"
) -> LoadedModel:
    """Load a model, or give the one that was loaded for the same files before."""
    locations = locations_of(spec)
    where = None if device is None else str(check_device(device))
    return _load(locations, _stamp(locations), where, precision)


def unload_models() -> None:
    """Release all models and what they have read."""
    _load.cache_clear()
    shared_reader.cache_clear()


@lru_cache(maxsize=MODELS_AT_ONCE)
def _load(
    locations: Locations, stamp: object, device: str | None, precision: Precision
) -> LoadedModel:
    del stamp  # a part of the key: files that have changed are loaded again
    check_choice("precision", precision, get_args(Precision))
    embedder = read_spec(locations[0] if len(locations) == 1 else list(locations))
    embedder.precision = precision
    if device is not None:
        embedder.bilm.to(device)
    embedder.bilm.requires_grad_(False)
    return LoadedModel(embedder, embedder.fingerprint())


def _stamp(locations: Locations) -> object:
    """Sizes and times of the files that are named, and what the hub's old URL stands for."""
    chosen = os.environ.get(CHOSEN_MODEL) if any(map(is_hub_address, locations)) else None
    files = []
    for path in map(Path, locations):
        inside = [*path.glob("*"), *(path / MODEL_OF_RUN).glob("*")] if path.is_dir() else [path]
        files += [(str(file), file.stat()) for file in inside if file.is_file()]
    return chosen, tuple(sorted((name, about.st_size, about.st_mtime_ns) for name, about in files))


def check_there(spec: Spec, remedy: str, *, was_there: bool) -> None:
    """Raise for a file or folder that does not exist.

    Where no model `was_there` before, a word may be a misspelt name, which loading has hints for.
    """
    for location in locations_of(spec):
        named = "://" in location or is_published(location) or is_bundled(location)
        missing = not named and not os.path.exists(location)
        if missing and (was_there or os.path.isabs(location)):
            raise InputError(f"{location}: there is no such file or folder; {remedy}")


def check_checksum(loaded: LoadedModel, expected: str | None, spec: Spec, remedy: str) -> None:
    """Raise for a model other than the one that something was trained with."""
    if expected is not None and loaded.checksum != expected:
        name = " ".join(locations_of(spec))
        raise InputError(
            f"{name}: is another model than the one trained with (checksum "
            f"{loaded.checksum[:12]}…, expected {expected[:12]}…); {remedy}"
        )


def checked_texts(texts: object) -> list[str]:
    """A list of the texts, one at least, that a list, an array or a column of a table holds."""
    if isinstance(texts, str | bytes):
        raise InputError(f"expected a list of texts, got one; write [{texts[:40]!r}]")
    found = as_list(texts, "texts")
    if not found:
        raise InputError("there are no texts; give a list of at least one")
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {short(text)}, not a string")
    return found


class TextReader:
    """Reads texts with a model, and caches their vectors up to a number of megabytes.

    When there is no room for more, the texts that were asked for longest ago are dropped.

    Args:
        embedder: The model; it must not be trained meanwhile.
        split: "spaces": a text is one sentence, its words between spaces, as TF-Hub's module has
            it. "default": sentences and words are those of the model's own tokenizer, and each
            sentence is read by itself. Or a function that gives the words of a text.
        words: Read no more than this many words of a text; None for all.
        megabytes: Size of the cache; 0 for none.
    """

    def __init__(
        self,
        embedder: Embedder,
        split: Tokenizer = "default",
        *,
        words: int | None = None,
        megabytes: int = 512,
    ) -> None:
        if not callable(split):
            check_choice("tokenizer", split, get_args(Split))
        if words is not None:
            check_size("words", words)
        check_size("megabytes", megabytes, least=0)
        self.embedder = embedder
        self.split = split
        self.words = words
        room = megabytes * MEGABYTE
        self._layers = TextCache(self._read, room)
        self._pooled = TextCache(lambda texts: map(pool_words, self._read(texts)), room)

    def layers(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each text's words in all layers, as (layers, words, size)."""
        return self._layers.get(texts)

    def pooled(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each text as (2, layers + 1, size): mean and maximum over its words.

        The row after the layers is their average. A text without words is zeros.
        """
        return self._pooled.get(texts)

    def read_ahead(
        self, texts: Sequence[str], *, pooled: bool, progress: Progress | None = None
    ) -> None:
        """Read texts for `layers` or `pooled`, many at once, as far as they can be cached."""
        cache = self._pooled if pooled else self._layers
        distinct = list(dict.fromkeys(texts))
        for start in range(0, len(distinct), TEXTS_AT_ONCE):
            cache.get(distinct[start : start + TEXTS_AT_ONCE])
            if progress is not None:
                progress(min(start + TEXTS_AT_ONCE, len(distinct)), len(distinct))
            if distinct[0] not in cache:  # from here on, what is read would push out these
                return

    def forget(self) -> None:
        """Empty the cache."""
        self._layers.clear()
        self._pooled.clear()

    def sentences(self, text: str) -> list[list[str]]:
        """The sentences of a text as lists of words, none of them empty."""
        if callable(self.split):
            sentences = [list(self.split(text))]
        elif self.split == "spaces":
            sentences = [[word for word in text.split(" ") if word]]
        else:
            sentences = self.embedder.split(text)
        left = sum(map(len, sentences)) if self.words is None else self.words
        found = []
        for sentence in sentences:
            found.append(sentence[:left])
            left -= len(found[-1])
        return [sentence for sentence in found if sentence]

    def _read(self, texts: Sequence[str]) -> Iterator[Vectors]:
        """Read texts without the cache."""
        split = [self.sentences(text) for text in texts]
        config = self.embedder.config
        nothing = np.zeros((config.layer_count, 0, config.vector_size), np.float32)
        vectors = self.embedder.embed_stream((words for text in split for words in text), "all")
        for text in split:
            found = [next(vectors) for _ in text]
            yield np.concatenate(found, axis=1) if found else nothing


@lru_cache(maxsize=READERS_AT_ONCE)
def shared_reader(embedder: Embedder, split: Tokenizer, megabytes: int) -> TextReader:
    """The reader, and its cache, that all with these settings share."""
    return TextReader(embedder, split, megabytes=megabytes)


def pool_words(layers: Vectors) -> Vectors:
    """Mean and maximum over words of (layers, words, size): (2, layers + 1, size)."""
    pooled = np.zeros((2, len(layers) + 1, layers.shape[2]), np.float32)
    if layers.shape[1]:
        rows = np.concatenate([layers, layers.mean(0, keepdims=True)])
        pooled[MEAN], pooled[MAX] = rows.mean(1), rows.max(1)
    return pooled


class TextCache:
    """Arrays of texts up to a number of bytes; safe from several threads.

    >>> cache = TextCache(lambda texts: (np.zeros(len(text)) for text in texts), 150)
    >>> [len(array) for array in cache.get(["ab", "c", "ab"])], len(cache)
    ([2, 1, 2], 2)
    """

    def __init__(self, compute: Callable[[Sequence[str]], Iterable[Vectors]], room: int) -> None:
        self._compute = compute
        self._room = room
        self._bytes = 0
        self._arrays: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, text: str) -> bool:
        return text in self._arrays

    def get(self, texts: Sequence[str]) -> list[Vectors]:
        """The array of each text; those that are not there are computed together."""
        with self._lock:
            found = {text: self._arrays[text] for text in texts if text in self._arrays}
            for text in found:
                self._arrays.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        computed = self._compute(missing) if missing else ()
        for text, array in zip(missing, computed, strict=True):
            found[text] = array
            self._store(text, array)
        return [found[text] for text in texts]

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._arrays.clear()
            self._bytes = 0

    def _store(self, text: str, array: Vectors) -> None:
        with self._lock:
            if text in self._arrays or bytes_of(text, array) > self._room:
                return
            self._arrays[text] = array
            self._bytes += bytes_of(text, array)
            while self._bytes > self._room:
                self._bytes -= bytes_of(*self._arrays.popitem(last=False))


def bytes_of(text: str, array: Vectors) -> int:
    """What it takes to store a text: of a long one, more than its vectors do."""
    return sys.getsizeof(text) + array.nbytes
