"""Token vectors of words already seen: the encoder depends on the word alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import torch
from torch import Tensor

from elmokit.config import check_size


class WordCache:
    """A bounded memory of token vectors. Safe from several threads.

    When it is full it starts afresh: in running text the frequent words are back at once, and that
    costs less than keeping account of every use.

    Args:
        encode: Gives token vectors (words, size) of distinct words.
        capacity: The most words kept.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        check_size("cache_words", capacity, least=0)
        self.encode = encode
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._rows: dict[str, int] = {}
        self._table: Tensor | None = None
        self._lock = Lock()

    def vectors(self, words: Sequence[str]) -> Tensor:
        """Token vectors (words, size), computing only those of words not yet known."""
        with self._lock:
            distinct = list(dict.fromkeys(words))
            rows, table = self._known(distinct)
            return table[torch.tensor([rows[word] for word in words], device=table.device)]

    def clear(self) -> None:
        """Forget every word: the encoder has changed."""
        with self._lock:
            self._rows.clear()
            self._table = None

    def _known(self, distinct: list[str]) -> tuple[dict[str, int], Tensor]:
        """A table that has a row for each of the words, and which row."""
        missing = [word for word in distinct if word not in self._rows]
        self.misses += len(missing)
        self.hits += len(distinct) - len(missing)
        if len(distinct) > self.capacity:
            return {word: row for row, word in enumerate(distinct)}, self.encode(distinct)
        if len(self._rows) + len(missing) > self.capacity:
            self._rows.clear()
            missing = distinct
        if missing:
            self._add(missing)
        assert self._table is not None
        return self._rows, self._table

    def _add(self, words: list[str]) -> None:
        vectors = self.encode(words)
        if self._table is None:
            self._table = vectors.new_empty(self.capacity, vectors.shape[1])
        start = len(self._rows)
        self._table[start : start + len(words)] = vectors
        self._rows.update(zip(words, range(start, start + len(words)), strict=True))
