"""All words of some sentences with each other: their cosines, layer by layer, as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.comparison import layers_of, static_row
from elmokit.embedder import Embedder, Vectors
from elmokit.errors import InputError
from elmokit.formats.pictures import check_picture_name, new_figure, write_figure
from elmokit.static.angles import unit
from elmokit.static.vectors import StaticVectors

INCHES_PER_WORD = 0.24
MOST_WORDS = 200
"""Beyond these a heat map shows nothing: its words are smaller than a dot."""
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
    """Compare every word of some raw sentences with every other.

    With `static`, a map of these vectors comes first: it is 1 wherever a word is repeated.
    """
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
    check_picture_name(path)
    panels = len(found.cosines)
    columns = min(panels, PANELS_PER_ROW)
    rows = -(-panels // columns)
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
