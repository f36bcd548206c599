"""Comparison of words in context: cosines of their vectors, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.senses import BRACKETS, Occurrence, with_mark
from elmokit.bundled import BUNDLED_MODELS
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.layers import LayerChoice
from elmokit.io.pictures import new_figure, write_figure
from elmokit.static.vectors import StaticVectors, unit
from elmokit.static.vectors import cosine as cosine

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
        marked = [with_mark(one.words, one.position, BRACKETS) for one in self.occurrences]
        lines = [f"{number}: {text}" for number, text in enumerate(marked, start=1)]
        if others := {one.word: None for one in self.occurrences if one.word != self.word}:
            lines.append(f"{self.word} is not written so everywhere; compared: {', '.join(others)}")
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
        find_occurrence(word, embedder.tokenize(sentence), number, embedder.tokenizer.name)
        for number, sentence in enumerate(sentences, start=1)
    )
    embedded = embedder.embed_layers([one.words for one in occurrences])
    pairs = tuple(combinations(range(len(occurrences)), 2))
    cosines = cosines_of(embedder, occurrences, embedded, pairs, static)
    return Comparison(word, occurrences, pairs, cosines)


def cosines_of(
    embedder: Embedder | StaticVectors,
    occurrences: Sequence[Occurrence],
    embedded: Sequence[Vectors],
    pairs: Sequence[tuple[int, int]],
    static: StaticVectors | None = None,
) -> dict[str, tuple[float | None, ...]]:
    """For each layer by name the cosine of each pair; static vectors, if there are any, first.

    `embedded` are (layers, words, size) for each occurrence. None where a word has no vector.
    """
    cosines: dict[str, tuple[float | None, ...]] = {}
    if static is not None:
        found = [static.find(one.word) for one in occurrences]
        both = ((found[first], found[second]) for first, second in pairs)
        values = (None if a is None or b is None else cosine(a, b) for a, b in both)
        cosines[static_row(static)] = tuple(values)
    vectors = [layers[:, one.position] for layers, one in zip(embedded, occurrences, strict=True)]
    for layer, of_layer in layers_of(embedder):
        ends = [of_layer(one) for one in vectors]
        cosines[layer] = tuple(cosine(ends[first], ends[second]) for first, second in pairs)
    return cosines


def layers_of(embedder: Embedder | StaticVectors) -> list[tuple[str, Callable[..., Vectors]]]:
    """Each row of the comparison: its name, and its vectors (…, size) from (layers, …, size)."""
    if isinstance(embedder, StaticVectors):
        return [(static_row(embedder), LayerChoice(0, 1).of)]
    count = embedder.config.layer_count
    suffixes = {0: " (static)", count - 1: " (top)"}
    rows = [
        (f"layer {number}{suffixes.get(number, '')}", LayerChoice(number, count).of)
        for number in range(count)
    ]
    return [*rows, ("average", LayerChoice("average", count).of)]


def static_row(static: StaticVectors) -> str:
    """What the row of static vectors is called."""
    return f"{static.name} (static)"


def find_occurrence(word: str, words: Sequence[str], number: int, tokenizer: str) -> Occurrence:
    """The first place of `word`, in any case if it does not stand there as written."""
    for fold in (str, str.casefold):
        folded = [fold(other) for other in words]
        if fold(word) in folded:
            return Occurrence(tuple(words), folded.index(fold(word)))
    longer = next((one for one in words if HANGUL.match(one) and one.startswith(word)), None)
    parts = next((pair for pair in pairwise(words) if "".join(pair) == word), None)
    why = f"; the model reads {' '.join(parts)}: give {parts[0]}" if parts else ""
    if longer:
        hint = "" if tokenizer == "kiwi" else f": {MORPHEMES.format(word=word)}"
        why = f"; it has {longer}{hint}"
    raise InputError(f"{word!r} is not a word of sentence {number}: {' '.join(words)}{why}")


HANGUL = re.compile("[가-힣]")
KOREAN = "korean-small" if "korean-small" in BUNDLED_MODELS else "tokenizer kiwi"
MORPHEMES = f"with a model of morphemes ({KOREAN}) {{word}} is a word of its own"
INCHES_PER_WORD = 0.24
MOST_WORDS = 200  # beyond these a heat map shows nothing: its words are smaller than a dot
PANELS_PER_ROW = 3


@dataclass(frozen=True)
class HeatMap:
    """Cosines between all words of some sentences."""

    sentences: tuple[tuple[str, ...], ...]
    cosines: dict[str, NDArray[np.float32]]
    """For each layer by name: (words, words), NaN where a word has no static vector."""

    @property
    def words(self) -> list[str]:
        """The words of all sentences, one after another."""
        return [word for sentence in self.sentences for word in sentence]

    @property
    def borders(self) -> list[int]:
        """Where a sentence begins among the words, but for the first one."""
        return list(accumulate(len(sentence) for sentence in self.sentences))[:-1]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; what is not known is None."""
        return {
            "sentences": [list(sentence) for sentence in self.sentences],
            "cosines": {
                layer: [[None if np.isnan(one) else float(one) for one in row] for row in matrix]
                for layer, matrix in self.cosines.items()
            },
        }


def heat_map(
    embedder: Embedder | StaticVectors,
    sentences: Sequence[str],
    static: StaticVectors | None = None,
) -> HeatMap:
    """Compare all words of raw sentences; with `static`, a map of these vectors comes first."""
    split = [embedder.tokenize(sentence) for sentence in sentences]
    count = sum(map(len, split))
    if not count or not all(split):
        raise InputError("give sentences with words in them to draw a heat map of")
    if count > MOST_WORDS:
        raise InputError(
            f"the sentences have {count} words; a heat map is of {MOST_WORDS} at most, so give "
            "shorter ones"
        )
    vectors = np.concatenate(embedder.embed_layers(split), axis=1)  # (layers, words, size)
    cosines: dict[str, NDArray[np.float32]] = {}
    if static is not None:
        cosines[static_row(static)] = static_matrix(static, split)
    for layer, of_layer in layers_of(embedder):
        cosines[layer] = matrix_of(of_layer(vectors))
    return HeatMap(tuple(map(tuple, split)), cosines)


def matrix_of(vectors: Vectors) -> Vectors:
    """The cosines (words, words) between vectors (words, size)."""
    units = unit(vectors)
    return np.clip(units @ units.T, -1, 1)  # rounding may lead a little above 1


def static_matrix(static: StaticVectors, sentences: Sequence[Sequence[str]]) -> Vectors:
    """The cosines (words, words) of static vectors; NaN where a word has none."""
    matrix = matrix_of(np.concatenate(static.embed(sentences)))
    unknown = [static.find(word) is None for sentence in sentences for word in sentence]
    matrix[unknown] = matrix[:, unknown] = np.nan
    return matrix


def draw_heat_map(found: HeatMap, path: str | Path) -> None:
    """Draw a panel for each layer, blue where words are opposed and red where they are alike."""
    panels = len(found.cosines)
    rows = -(-panels // PANELS_PER_ROW)
    columns = -(-panels // rows)
    side = max(2.6, INCHES_PER_WORD * len(found.words) + 1.2)
    figure = new_figure(side * columns + 0.8, side * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False).flat
    places = np.arange(len(found.words))
    for axes, (layer, matrix) in zip(grid, found.cosines.items(), strict=False):
        image = axes.imshow(np.ma.masked_invalid(matrix), cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_facecolor("#dddddd")
        axes.set_xticks(places, found.words, rotation=90, fontsize=8)
        axes.set_yticks(places, found.words, fontsize=8)
        axes.tick_params(length=0)
        axes.set_title(layer, fontsize=10, fontweight="bold")
        for border in found.borders:
            axes.axhline(border - 0.5, color="#2b2b2b", linewidth=0.8)
            axes.axvline(border - 0.5, color="#2b2b2b", linewidth=0.8)
    for axes in figure.axes[panels:]:
        axes.set_axis_off()
    figure.colorbar(image, ax=figure.axes, shrink=0.6, label="cosine")
    write_figure(figure, path)
