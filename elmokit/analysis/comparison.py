"""One word in several sentences: how far its vectors are apart, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from elmokit.analysis.occurrence import BRACKETS, with_mark
from elmokit.analysis.occurrence import Occurrence as Occurrence
from elmokit.embedder import Embedder, Vectors
from elmokit.errors import InputError
from elmokit.static.angles import cosine as cosine
from elmokit.static.vectors import StaticVectors

NARROWEST = 18


@dataclass(frozen=True)
class Comparison:
    """Cosines between the occurrences of a word."""

    word: str
    occurrences: tuple[Occurrence, ...]
    pairs: tuple[tuple[int, int], ...]
    cosines: dict[str, tuple[float | None, ...]]
    """For each layer by name, the cosine of each pair; None where a word has no static vector."""

    def table(self) -> str:
        """As text: the sentences, then a row per layer."""
        marked = [with_mark(*one, BRACKETS) for one in self.occurrences]
        lines = [f"{number}: {text}" for number, text in enumerate(marked, start=1)]
        width = max(NARROWEST, *(len(layer) + 1 for layer in self.cosines))
        header = "".join(f"{f'{first + 1}-{second + 1}':>9}" for first, second in self.pairs)
        lines += ["", f"{'cosine':<{width}}{header}"]
        for layer, cosines in self.cosines.items():
            cells = ("-" if cosine is None else f"{cosine:.3f}" for cosine in cosines)
            lines.append(f"{layer:<{width}}" + "".join(f"{cell:>9}" for cell in cells))
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


def compare_occurrences(
    embedder: Embedder | StaticVectors,
    word: str,
    sentences: Sequence[str],
    static: StaticVectors | None = None,
) -> Comparison:
    """Compare the first occurrence of `word` in each raw sentence with that in every other.

    With `static`, a row of these vectors comes first: a word has one wherever it stands, so the
    same spelling gives 1.
    """
    if len(sentences) < 2:
        raise InputError("give at least two sentences to compare the word in")
    occurrences = tuple(
        find_occurrence(word, embedder.tokenize(sentence), number)
        for number, sentence in enumerate(sentences, start=1)
    )
    embedded = embedder.embed_layers([one.words for one in occurrences])
    vectors = [layers[:, one.position] for layers, one in zip(embedded, occurrences, strict=True)]
    pairs = tuple(combinations(range(len(occurrences)), 2))
    cosines: dict[str, tuple[float | None, ...]] = {}
    if static is not None:
        cosines |= static_cosines(static, occurrences, pairs)
    for layer, of_layer in layers_of(embedder):
        values = [of_layer(one) for one in vectors]
        cosines[layer] = tuple(cosine(values[first], values[second]) for first, second in pairs)
    return Comparison(word, occurrences, pairs, cosines)


def layers_of(embedder: Embedder | StaticVectors) -> list[tuple[str, Callable[..., Vectors]]]:
    """Each row of the comparison: its name, and its vectors (…, size) from (layers, …, size)."""
    rows: list[tuple[str, Callable[..., Vectors]]]
    if isinstance(embedder, StaticVectors):
        return [(static_row(embedder), lambda layers: layers[0])]
    top = embedder.config.lstm_layers
    rows = [("layer 0 (static)", lambda layers: layers[0])]
    for number in range(1, top + 1):
        name = f"layer {number} (top)" if number == top else f"layer {number}"
        rows.append((name, lambda layers, number=number: layers[number]))
    return [*rows, ("average", lambda layers: layers.mean(0))]


def static_row(static: StaticVectors) -> str:
    """What the row of static vectors is called."""
    return f"{static.name} (static)"


def static_cosines(
    static: StaticVectors, occurrences: Sequence[Occurrence], pairs: Sequence[tuple[int, int]]
) -> dict[str, tuple[float | None, ...]]:
    """The row of some static vectors, by name; None where a word of a pair has no vector."""
    found = [static.find(one.word) for one in occurrences]
    both = ((found[first], found[second]) for first, second in pairs)
    cosines = tuple(None if a is None or b is None else cosine(a, b) for a, b in both)
    return {static_row(static): cosines}


def find_occurrence(word: str, words: Sequence[str], number: int) -> Occurrence:
    """The first place of `word`, in any case if it does not stand there as written."""
    for fold in (str, str.casefold):
        folded = [fold(other) for other in words]
        if fold(word) in folded:
            return Occurrence(tuple(words), folded.index(fold(word)))
    raise InputError(f"{word!r} is not a word of sentence {number}: {' '.join(words)}")
