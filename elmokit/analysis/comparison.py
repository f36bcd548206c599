"""One word in several sentences: how far its vectors are apart, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from elmokit.embedder import Embedder, Vectors
from elmokit.errors import InputError


@dataclass(frozen=True)
class Occurrence:
    """A word at a position of a sentence."""

    words: tuple[str, ...]
    position: int

    def __str__(self) -> str:
        before, after = self.words[: self.position], self.words[self.position + 1 :]
        return " ".join([*before, f"[{self.words[self.position]}]", *after])


@dataclass(frozen=True)
class Comparison:
    """Cosines between the occurrences of a word."""

    word: str
    occurrences: tuple[Occurrence, ...]
    pairs: tuple[tuple[int, int], ...]
    cosines: dict[str, tuple[float, ...]]
    """For each layer by name, the cosine of each pair."""

    def table(self) -> str:
        """As text: the sentences, then a row per layer."""
        lines = [f"{number}: {one}" for number, one in enumerate(self.occurrences, start=1)]
        header = "".join(f"{f'{first + 1}-{second + 1}':>9}" for first, second in self.pairs)
        lines += ["", f"{'cosine':<18}{header}"]
        for layer, cosines in self.cosines.items():
            lines.append(f"{layer:<18}" + "".join(f"{cosine:9.3f}" for cosine in cosines))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; sentences are numbered from 0."""
        return {
            "word": self.word,
            "sentences": [list(one.words) for one in self.occurrences],
            "positions": [one.position for one in self.occurrences],
            "pairs": [list(pair) for pair in self.pairs],
            "cosines": {layer: list(cosines) for layer, cosines in self.cosines.items()},
        }


def compare_occurrences(embedder: Embedder, word: str, sentences: Sequence[str]) -> Comparison:
    """Compare the first occurrence of `word` in each raw sentence with that in every other."""
    if len(sentences) < 2:
        raise InputError("give at least two sentences to compare the word in")
    occurrences = tuple(
        find_occurrence(word, embedder.tokenize(sentence), number)
        for number, sentence in enumerate(sentences, start=1)
    )
    embedded = embedder.embed_layers([one.words for one in occurrences])
    vectors = [layers[:, one.position] for layers, one in zip(embedded, occurrences, strict=True)]
    pairs = tuple(combinations(range(len(occurrences)), 2))
    named = {layer: [of_layer(one) for one in vectors] for layer, of_layer in layers_of(embedder)}
    cosines = {
        layer: tuple(cosine(values[first], values[second]) for first, second in pairs)
        for layer, values in named.items()
    }
    return Comparison(word, occurrences, pairs, cosines)


def layers_of(embedder: Embedder) -> list[tuple[str, Any]]:
    """Each row of the comparison: its name, and its vector (size,) from (layers, size)."""
    top = embedder.config.lstm_layers
    rows: list[tuple[str, Any]] = [("layer 0 (static)", lambda layers: layers[0])]
    for number in range(1, top + 1):
        name = f"layer {number} (top)" if number == top else f"layer {number}"
        rows.append((name, lambda layers, number=number: layers[number]))
    return [*rows, ("average", lambda layers: layers.mean(0))]


def find_occurrence(word: str, words: Sequence[str], number: int) -> Occurrence:
    """The first place of `word`, in any case if it does not stand there as written."""
    for fold in (str, str.casefold):
        folded = [fold(other) for other in words]
        if fold(word) in folded:
            return Occurrence(tuple(words), folded.index(fold(word)))
    raise InputError(f"{word!r} is not a word of sentence {number}: {' '.join(words)}")


def cosine(first: Vectors, second: Vectors) -> float:
    """Cosine of the angle between two vectors (size,); 0 where one of them is zero."""
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths else 0.0
