"""Vectors of texts by a frozen biLM, each text read once: what the adaptors share."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from elmokit.adaptors.tensorflow_hub import (
    CHOSEN_MODEL,
    HUB_URL,
    Spec,
    list_of_texts,
    load_model,
    locations_of,
)
from elmokit.bundled import is_bundled, version_of
from elmokit.config import Count, CountOrZero, Precision, checked
from elmokit.errors import InputError, MissingFileError
from elmokit.formats.find import FOLDERS_OF_CHECKPOINTS, MODEL_OF_RUN, is_published
from elmokit.formats.published import check_fetched
from elmokit.formats.tf_checkpoint import is_checkpoint, prefix_of
from elmokit.inference.embedder import Embedder
from elmokit.inference.layers import Vectors
from elmokit.io.fetch import Progress

Split = Literal["spaces", "default"]
Tokenizer = Split | Callable[[str], Sequence[str]]

MODELS_AT_ONCE = 2
READERS_AT_ONCE = 4
"""How many models stay loaded, and how many caches of texts."""
TEXTS_AT_ONCE = 1024  # how many texts are sorted by length together when they are read ahead
MEGABYTE = 1 << 20
MEAN, MAX = range(2)  # the rows of pooled vectors


class LoadedModel(NamedTuple):
    """A model that all who name it share, since nobody here trains it."""

    embedder: Embedder
    checksum: str  # of everything that its vectors depend on


def absolute(spec: Any) -> Any:
    """The same, found from any folder; names, URLs and what cannot be a model stay as they are."""
    if isinstance(spec, tuple | list):
        return [absolute(location) for location in spec]
    there = isinstance(spec, str | Path) and os.path.exists(spec)
    return os.path.abspath(spec) if there else spec


def fetched(spec: Any) -> Any:
    """What a file of anybody's names, unless it would be fetched now, unasked."""
    locations = [each for each in locations_of(spec) if not HUB_URL.fullmatch(each)]
    for each in locations:
        check_fetched(each, "the model", f"if you trust it: elmo info {' '.join(locations)}")
    return spec


def load_shared(
    spec: Spec,
    device: str | torch.device | None = None,
    precision: Precision = "exact",
    *,
    expected: str | None = None,
    remedy: str = "",
) -> LoadedModel:
    """Load a model, or give the one that was loaded for the same files before.

    A model of another checksum than `expected`, that of the one that something was trained with, is
    an error. `remedy` says what to do where the model is gone, or another.
    """
    locations = locations_of(spec)
    for location in locations:
        named = "://" in location or is_published(location) or is_bundled(location)
        # A word that nothing was trained with may be a misspelt name, which loading has hints for.
        is_path = expected is not None or os.path.isabs(location)
        if is_path and not (named or os.path.exists(location) or is_checkpoint(location)):
            raise MissingFileError(f"{location}: there is no such file or folder; {remedy}")
    loaded = _load(locations, _stamp(locations), device, precision)
    if expected not in (None, loaded.checksum):
        here, was = (
            version_of(checksum) or f"checksum {checksum[:12]}…"
            for checksum in (loaded.checksum, expected)
        )
        raise InputError(
            f"{' '.join(locations)}: is another model ({here}) than the one trained with ({was}); "
            f"train again, or {remedy}"
        )
    return loaded


def unload_models() -> None:
    """Release all models and what they have read."""
    _load.cache_clear()
    shared_reader.cache_clear()


@lru_cache(maxsize=MODELS_AT_ONCE)
def _load(
    locations: tuple[str, ...],
    stamp: object,
    device: str | torch.device | None,
    precision: Precision,
) -> LoadedModel:
    del stamp  # a part of the key: files that have changed are loaded again
    embedder = load_model(locations, device=device, precision=precision)
    embedder.bilm.requires_grad_(False)
    return LoadedModel(embedder, embedder.fingerprint())


def _stamp(locations: tuple[str, ...]) -> object:
    """Sizes and times of the files that are named, and what the hub's old URL stands for."""
    chosen = os.environ.get(CHOSEN_MODEL) if any(map(HUB_URL.fullmatch, locations)) else None
    files = []
    for path in map(Path, locations):
        if path.is_dir():
            folders = (".", MODEL_OF_RUN, *FOLDERS_OF_CHECKPOINTS)
            inside = [file for folder in folders for file in (path / folder).glob("*")]
        else:
            of_checkpoint = f"{prefix_of(path).name}.*"
            inside = [path, *(path.parent.glob(of_checkpoint) if is_checkpoint(path) else ())]
        files += [(str(file), file.stat()) for file in inside if file.is_file()]
    return chosen, tuple(sorted((name, about.st_size, about.st_mtime_ns) for name, about in files))


def checked_texts(texts: object) -> list[str]:
    """A list of the texts, one at least, that a list, an array or a column of a table holds."""
    found = list_of_texts(texts)
    if not found:
        raise InputError("there are no texts; give a list of at least one")
    return found


class TextReader:
    """Reads texts with a model, and caches their vectors up to a number of megabytes.

    When there is no room for more, the texts that were asked for longest ago are dropped. Calls
    from several threads are safe.

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
            checked("tokenizer", split, Split)
        if words is not None:
            checked("words", words, Count)
        checked("megabytes", megabytes, CountOrZero)
        self.embedder = embedder
        self.split = split
        self.words = words
        self._room = megabytes * MEGABYTE
        self._bytes = 0
        self._cache: OrderedDict[tuple[str, bool], Vectors] = OrderedDict()  # by text and pooling
        self._lock = Lock()

    def read(self, texts: Sequence[str], *, pooled: bool) -> list[Vectors]:
        """The vectors of each text's words in all layers, as (layers, words, size).

        Or `pooled` (2, layers + 1, size): mean and maximum over the words, zeros for a text without
        any; the row after the layers is their average. Texts that are not in the cache are read
        together.
        """
        with self._lock:
            cached = [text for text in dict.fromkeys(texts) if (text, pooled) in self._cache]
            found = {text: self._cache[text, pooled] for text in cached}
            for text in cached:
                self._cache.move_to_end((text, pooled))
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for text, layers in zip(missing, self._read(missing), strict=False):
            found[text] = pool_words(layers) if pooled else layers
            self._store((text, pooled), found[text])
        return [found[text] for text in texts]

    def read_ahead(
        self, texts: Sequence[str], *, pooled: bool, progress: Progress | None = None
    ) -> None:
        """Read texts, many at once, as far as they can be cached."""
        distinct = list(dict.fromkeys(texts))
        for start in range(0, len(distinct), TEXTS_AT_ONCE):
            self.read(distinct[start : start + TEXTS_AT_ONCE], pooled=pooled)
            if progress is not None:
                progress(min(start + TEXTS_AT_ONCE, len(distinct)), len(distinct))
            if (distinct[0], pooled) not in self._cache:  # what is read now would push out these
                return

    def forget(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._cache.clear()
            self._bytes = 0

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

    def _store(self, key: tuple[str, bool], array: Vectors) -> None:
        with self._lock:
            if key in self._cache or bytes_of(key, array) > self._room:
                return
            self._cache[key] = array
            self._bytes += bytes_of(key, array)
            while self._bytes > self._room:
                self._bytes -= bytes_of(*self._cache.popitem(last=False))

    def _read(self, texts: Sequence[str]) -> Iterator[Vectors]:
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


def bytes_of(key: tuple[str, bool], array: Vectors) -> int:
    """What it takes to store a text: of a long one, more than its vectors do."""
    return sys.getsizeof(key[0]) + array.nbytes
