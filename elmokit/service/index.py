"""What the service asks an index of occurrences, and the library's own index behind that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.embedder import Embedder
from elmokit.errors import InputError


class Index(Protocol):
    """Occurrences of words in a corpus, each with its contextual vector. Safe from any thread."""

    def query(
        self, words: Sequence[str], position: int, top: int, same_word: bool
    ) -> list[Mapping[str, Any]]:
        """The `top` occurrences nearest to the word at a position of a sentence.

        Plain values for JSON, the nearest first: `words`, `position`, `cosine`.
        """

    def senses(self, word: str, senses: int | None) -> Mapping[str, Any]:
        """The senses of a word, their number found where it is not given.

        Plain values for JSON: `word`; `senses`, each with its `number` from 1, its `typical` words
        and `examples`; and `points`, each with `words`, `position`, `sense`, `x` and `y`.
        """


class CorpusIndex:
    """An index that `elmo neighbours build` made; what it says never tells where it is."""

    def __init__(self, index: NeighbourIndex) -> None:
        self.index = index

    def query(
        self, words: Sequence[str], position: int, top: int, same_word: bool
    ) -> list[Mapping[str, Any]]:
        """As `elmo neighbours query`."""
        with self._unplaced():
            found = self.index.query(words, position, top=top, same_word=same_word)
        return [one.to_dict() for one in found]

    def senses(self, word: str, senses: int | None) -> Mapping[str, Any]:
        """As `elmo senses`."""
        with self._unplaced():
            return self.index.senses(word, senses=senses).to_dict()

    @contextmanager
    def _unplaced(self) -> Iterator[None]:
        """Take the folder's name out of what is wrong with a question."""
        try:
            yield
        except InputError as error:
            raise InputError(str(error).replace(f"{self.index.path}: ", "")) from None


def open_index(location: str | Path, embedder: Embedder, model: str) -> CorpusIndex:
    """The index in a folder, if it was built with this model."""
    return CorpusIndex(NeighbourIndex.open(location, embedder, model=model))
