"""What is kept of the layers of a sentence: which of them, and what of its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import ModelConfig, check_choice
from elmokit.errors import InputError
from elmokit.model.bilm import Layers
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.pieces import Piece

Vectors = NDArray[np.float32]
Mix = ScalarMix | DirectionalMix
Layer = Literal["average", "top"] | int | Mix
Pool = Literal["none", "mean", "max"]
Reduce = Callable[[Layers], Tensor]


@dataclass(frozen=True)
class Reduction:
    """How the layers of a batch become one array for each sentence."""

    reduce: Reduce
    """Layers to (…, batch, words, size)."""
    pool: Pool = "none"
    """Over the words of a sentence: (…, words, size) without, (…, size) with."""
    by_halves: bool = True
    """Whether each half of a vector depends on its own direction and its own word alone, so that a
    sentence can be reduced piece by piece."""

    def __post_init__(self) -> None:
        check_choice("pool", self.pool, get_args(Pool))

    def collection(self, lengths: Sequence[int]) -> WordVectors | PooledWords:
        """What the pieces of sentences of so many words are added to."""
        return WordVectors(lengths) if self.pool == "none" else PooledWords(lengths, self.pool)


def reduction_of(layer: Layer, config: ModelConfig, pool: Pool = "none") -> Reduction:
    """The reduction to one layer, to their average, or to a mix that a task trained."""
    if isinstance(layer, ScalarMix | DirectionalMix):
        if layer.layers != config.layer_count:
            raise InputError(
                f"the mix is of {layer.layers} layers, the model has {config.layer_count}"
            )
        return Reduction(mixture(layer), pool, by_halves=mixes_by_halves(layer))
    if layer == "average":
        return Reduction(lambda layers: layers.vectors.mean(0), pool)
    top = config.lstm_layers
    number = top if layer == "top" else layer
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= top:
        raise InputError(
            f"layer is {layer!r}; use 'average', 'top', 0 to {top}, or a mix; "
            "embed_layers gives all of them"
        )
    return Reduction(lambda layers: layers.vectors[number], pool)


def every_layer(pool: Pool = "none") -> Reduction:
    """The reduction that keeps all layers (layers, batch, words, size) as they are."""
    return Reduction(lambda layers: layers.vectors, pool)


def mixture(mix: Mix) -> Reduce:
    """A mix as a function of layers."""
    return lambda layers: mix(layers.vectors, layers.mask)


def mixture_of_each(mix: Mix) -> Reduce:
    """A mix of each sentence by itself: layer norm then sees the sentence alone, not its batch."""

    def reduce(layers: Layers) -> Tensor:
        rows = [slice(row, row + 1) for row in range(len(layers.mask))]
        return torch.cat([mix(layers.vectors[:, row], layers.mask[row]) for row in rows])

    return reduce


def mixes_by_halves(mix: Mix) -> bool:
    """Whether a mix keeps the directions apart, and looks at one word at a time."""
    return mix.join == "concat" if isinstance(mix, DirectionalMix) else not mix.layer_norm


def reduced_size(layer: Layer, config: ModelConfig) -> int:
    """Size of a word's vector after the reduction."""
    adds = isinstance(layer, DirectionalMix) and layer.join == "add"
    return config.token_size if adds else config.vector_size


class WordVectors:
    """Collects the vectors of every word: an array (…, words, size) for each sentence.

    Args:
        lengths: Words of each sentence, without markers.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths
        self._arrays: list[Vectors] = []

    def add(self, piece: Piece, reduced: Tensor) -> None:
        """Take what a piece (…, batch, words, size) has of words, and of their vectors."""
        if not self._arrays:
            *leading, _, _, size = reduced.shape
            # Arrays of their own: a view of one sentence would keep the whole batch in memory.
            self._arrays = [np.empty((*leading, n, size), np.float32) for n in self.lengths]
        half = half_read(piece, reduced.shape[-1])
        vectors = reduced[..., half].float().cpu().numpy()
        for row, array in enumerate(self._arrays):
            start = piece.starts[row]
            words = slice(max(start, 1), min(piece.ends[row], self.lengths[row] + 1))
            if words.start < words.stop:
                found = vectors[..., row, words.start - start : words.stop - start, :]
                array[..., words.start - 1 : words.stop - 1, half] = found

    def arrays(self) -> list[Vectors]:
        """What was collected, once every piece was added."""
        return self._arrays


class PooledWords:
    """Collects the mean or the largest values over words: an array (…, size) for each sentence.

    It is computed where the layers are. A sentence without words gives zeros.

    Args:
        lengths: Words of each sentence, without markers.
        pool: "mean" or "max".
    """

    def __init__(self, lengths: Sequence[int], pool: Literal["mean", "max"]) -> None:
        self.lengths = lengths
        self.pool = pool
        self._pooled: Tensor | None = None

    def add(self, piece: Piece, reduced: Tensor) -> None:
        """Pool what a piece (…, batch, words, size) has of words with what was there."""
        nothing = 0.0 if self.pool == "mean" else float("-inf")
        *leading, positions, size = reduced.shape
        if self._pooled is None:
            self._pooled = torch.full((*leading, size), nothing, device=reduced.device)
        words = self._words_in(piece, positions).to(reduced.device)
        half = half_read(piece, size)
        vectors = reduced[..., half].float().masked_fill(~words[:, :, None], nothing)
        pooled = self._pooled[..., half]
        if self.pool == "mean":
            pooled += vectors.sum(-2)
        else:
            torch.maximum(pooled, vectors.amax(-2), out=pooled)

    def arrays(self) -> list[Vectors]:
        """What was collected, once every piece was added."""
        assert self._pooled is not None  # every batch has a piece
        counts = torch.tensor(self.lengths, device=self._pooled.device)[:, None]
        if self.pool == "mean":
            pooled = self._pooled / counts.clamp(min=1)
        else:
            pooled = self._pooled.masked_fill(counts == 0, 0.0)
        rows = pooled.cpu().numpy()
        return [rows[..., row, :].copy() for row in range(len(self.lengths))]

    def _words_in(self, piece: Piece, positions: int) -> Tensor:
        """Which of the piece's positions (batch, positions) are words: no marker, no padding."""
        place = torch.tensor(piece.starts)[:, None] + torch.arange(positions)
        ends = torch.minimum(torch.tensor(piece.ends), torch.tensor(self.lengths) + 1)
        return (place >= 1) & (place < ends[:, None])


def half_read(piece: Piece, size: int) -> slice:
    """Which part of a vector of this size the directions of a piece give."""
    if len(piece.directions) == 2:
        return slice(None)
    return slice(0, size // 2) if piece.directions == ("forward",) else slice(size // 2, size)
