"""What is kept of a corpus in an index."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from elmokit.analysis.neighbours.rows import form_of
from elmokit.analysis.neighbours.store import ROWS_WITHOUT_VECTOR_INDEX
from elmokit.errors import InputError


@dataclass(frozen=True)
class IndexSettings:
    """What is kept of a corpus.

    Attributes:
        layers: Whose vectors: "all", or some of "top", "average", 0, 1, … with commas between.
        words: Only these words, in capitals or not; None for all.
        skip_punctuation: Leave out words without a letter or a digit.
        index_above: Vectors are indexed where there are more; else all of them are compared.
    """

    layers: str = "top"
    words: frozenset[str] | None = None
    skip_punctuation: bool = False
    index_above: int = ROWS_WITHOUT_VECTOR_INDEX

    def __post_init__(self) -> None:
        if self.words is not None:
            object.__setattr__(self, "words", frozenset(map(form_of, self.words)))
            if not self.words:
                raise InputError("there is no word to index; name some, or leave the list out")

    def keeps(self, word: str) -> bool:
        """Whether occurrences of a word are kept."""
        if self.words is not None:
            return form_of(word) in self.words
        return not self.skip_punctuation or any(character.isalnum() for character in word)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; a list of words by its checksum."""
        words = None if self.words is None else digest_of_words(self.words)
        return asdict(self) | {"words": words}


def digest_of_words(words: frozenset[str]) -> str:
    """What tells a set of words from others."""
    return hashlib.sha256("\n".join(sorted(words)).encode("utf-8", "surrogatepass")).hexdigest()
