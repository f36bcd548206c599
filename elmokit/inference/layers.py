"""The choice of layers and pooling, and the pieces that long sentences are read in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import ModelConfig, check_choice
from elmokit.errors import InputError
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BOTH, DirectionName, Layers
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.text.characters import Sentence

WORDS_PER_PIECE = 512
"""Enough steps that their inputs are multiplied at full speed, few enough that long sentences are
read side by side within the memory of one batch."""


class Piece(NamedTuple):
    """A part of each sentence of a batch, and the directions that read it.

    Positions count the markers: 0 is the one that begins the sentence, 1 its first word.
    """

    starts: list[int]
    ends: list[int]
    directions: tuple[DirectionName, ...] = BOTH

    def of(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The words of this piece, markers among them."""
        parts = zip(sentences, self.starts, self.ends, strict=True)
        return [sentence[start:end] for sentence, start, end in parts]


def many_pieces(lengths: Sequence[int], size: int = WORDS_PER_PIECE) -> Iterator[Piece]:
    """Sentences of so many words, markers counted, in pieces from the left, then from the right.

    A direction reads them from each side. A sentence that has ended has empty pieces while longer
    ones continue.

    >>> for piece in many_pieces([3, 5], size=4): print(*piece)
    [0, 0] [3, 4] ('forward',)
    [3, 4] [3, 5] ('forward',)
    [0, 1] [3, 5] ('backward',)
    [0, 0] [0, 1] ('backward',)
    """
    distances = range(0, max(lengths, default=0), size)
    for read in distances:
        starts = [min(read, length) for length in lengths]
        ends = [min(read + size, length) for length in lengths]
        yield Piece(starts, ends, ("forward",))
    for read in distances:
        starts = [max(length - read - size, 0) for length in lengths]
        ends = [max(length - read, 0) for length in lengths]
        yield Piece(starts, ends, ("backward",))


Vectors = NDArray[np.float32]
Mix = ScalarMix | DirectionalMix
Pool = Literal["none", "mean", "max"] | None
AnyArray = TypeVar("AnyArray", Tensor, NDArray[Any])


class LayerChoice:
    """Which layers of a sentence are kept, and what of its words: `layers=` and `pool=` everywhere.

    >>> LayerChoice("top", 3).name, LayerChoice(0, 3).name, LayerChoice("all", 3).name
    ('2', '0', 'all')

    Args:
        layers: "average", "sum", "top", "all", a number (0 is the token layer), or a mix that a
            task trained. A mix with layer norm is of each sentence by itself, so that its vectors
            do not depend on the sentences around it.
        count: How many layers there are.
        pool: "mean" or "max" over the words of a sentence, zeros where it has none; None or "none"
            keeps the words.

    Attributes:
        name: "average", "sum", "all", "mix", or the number of a layer.
        by_halves: Whether each half of a vector depends on its own direction and its own word
            alone, so that a sentence can be read in pieces.
    """

    def __init__(self, layers: str | int | Mix, count: int, pool: Pool = None) -> None:
        check_choice("pool", pool, (None, "none", "mean", "max"))
        self.pool = None if pool == "none" else pool
        self.mix = layers if isinstance(layers, ScalarMix | DirectionalMix) else None
        if isinstance(self.mix, DirectionalMix):
            self.by_halves = self.mix.join == "concat"
        else:
            self.by_halves = self.mix is None or not self.mix.layer_norm
        if self.mix is not None and self.mix.layers != count:
            raise InputError(f"the mix is of {self.mix.layers} layers, the model has {count}")
        names = {"average": "average", "sum": "sum", "all": "all", "top": str(count - 1)}
        names |= {str(number): str(number) for number in range(count)}
        named = isinstance(layers, str | Integral) and not isinstance(layers, bool)
        if self.mix is None and (not named or str(layers) not in names):
            raise InputError(
                f"layers is {layers!r}; use 'average', 'sum', 'top', 'all', 0 to {count - 1}, "
                "or a mix"
            )
        self.name = "mix" if self.mix is not None else names[str(layers)]
        self._rows = count if self.name == "all" else 1

    def of(self, vectors: AnyArray) -> AnyArray:
        """What is kept of (layers, …): one layer, average or sum without that dimension; no mix."""
        if self.name == "all":
            return vectors
        if self.name == "sum":
            return vectors.sum(0)
        return vectors.mean(0) if self.name == "average" else vectors[int(self.name)]

    def reduce(self, layers: Layers) -> Tensor:
        """What is kept of a batch: (…, batch, words, size)."""
        if self.mix is None:
            return self.of(layers.vectors)
        device = self.mix.gamma.device
        vectors, mask = layers.vectors.to(device), layers.mask.to(device)
        if self.by_halves:
            return self.mix(vectors, mask)
        rows = [slice(row, row + 1) for row in range(len(mask))]
        return torch.cat([self.mix(vectors[:, row], mask[row]) for row in rows])

    def size(self, config: ModelConfig) -> int:
        """Size of a vector."""
        adds = isinstance(self.mix, DirectionalMix) and self.mix.join == "add"
        return config.token_size if adds else config.vector_size

    def values(self, config: ModelConfig) -> int:
        """How many numbers are kept of a word, or of a sentence where words are pooled."""
        return self._rows * self.size(config)

    def collection(self, lengths: Sequence[int]) -> CollectedVectors | PooledWords:
        """What the pieces of sentences of so many words are added to."""
        return CollectedVectors(lengths) if self.pool is None else PooledWords(lengths, self.pool)

    def of_texts(
        self,
        texts: Sequence[Sequence[Sentence]],
        pooled: Iterable[Vectors],
        config: ModelConfig,
        progress: Progress | None = None,
    ) -> Vectors:
        """Pool the words of texts (texts, size) out of the pooled vectors of their sentences."""
        vectors = iter(pooled)
        found = np.zeros((len(texts), self.size(config)), np.float32)
        for number, text in enumerate(texts):
            rows, counts = [next(vectors) for _ in text], list(map(len, text))
            if any(counts):
                most = self.pool == "max"
                found[number] = np.max(rows, 0) if most else np.average(rows, 0, counts)
            if progress is not None:
                progress(number + 1, len(texts))
        return found


class CollectedVectors:
    """Collects an array (…, words, size) for each sentence; its length is without markers."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths
        self._arrays: list[Vectors] = []

    def add(self, piece: Piece, reduced: Tensor) -> None:
        """Take what a piece (…, batch, words, size) has of words, and of their vectors."""
        if not self._arrays:
            *leading, _, _, size = reduced.shape
            # Arrays of their own: a view of one sentence would keep the complete batch in memory.
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

    It is computed where the layers are. A sentence without words gives zeros. The lengths of
    sentences are without markers.
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
