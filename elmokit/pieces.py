"""Which part of each sentence of a batch is read at once: the whole, or piece after piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elmokit.model.bilm import BOTH, DirectionName
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


def one_piece(lengths: Sequence[int]) -> Iterator[Piece]:
    """Sentences of so many words, markers counted, read whole by both directions."""
    yield Piece([0] * len(lengths), list(lengths))


def many_pieces(lengths: Sequence[int], size: int = WORDS_PER_PIECE) -> Iterator[Piece]:
    """The same sentences read from the left by one direction, then from the right by the other.

    A sentence that has ended has empty pieces while longer ones go on.

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
