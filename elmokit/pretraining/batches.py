"""Batches of prepared text: what each row reads at each step, for both directions.

Which words are in batch n depends on the seed, the rows and n alone: not on the batches made
before it, nor on how many processes share the rows. The number of the next batch is therefore all
that a checkpoint needs to know of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count, product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import CharacterEncoderConfig, EncoderConfig
from elmokit.errors import InputError
from elmokit.pretraining.config import PretrainConfig
from elmokit.pretraining.prepared import BORDER, PreparedCorpus
from elmokit.text.characters import character_ids
from elmokit.text.vocabulary import BEGIN, END, Vocabulary

Ids = NDArray[np.int32]
FORWARD, BACKWARD = 0, 1
LONGEST_SENTENCE = 256
"""In mode `sentence`, gradients pass through all of a sentence; longer ones are cut."""
BATCHES_PER_POOL = 64
"""In mode `sentence`, as many batches are sorted by length together, so that few rows wait."""


class Side(NamedTuple):
    """One direction's words, step by step (see `model.lstm.pack`)."""

    inputs: Tensor  # (tokens,) rows of Batch.words
    targets: Tensor  # (tokens,) ids of the softmax
    carried: Tensor | None = None  # (tokens,) False where it is read from zeros; None: nowhere


class Batch(NamedTuple):
    """What one part of the rows reads in one step of training."""

    words: Tensor  # (distinct, characters) or (distinct,): each different word once
    forward: Side
    backward: Side
    step_sizes: list[int]
    tokens_in_all: int  # targets per direction of all rows, other parts and processes included
    words_in_all: int  # those that are words, no markers


class Rows(NamedTuple):
    """The same before words are told apart: prepared ids, one row each, padded at the end."""

    inputs: Ids  # (rows, steps), BORDER for a sentence's marker
    targets: Ids  # (rows, steps)
    lengths: NDArray[np.int64]  # (rows,), never rising
    carried: NDArray[np.bool_] | None = None  # (rows, steps)

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """Where they are not padding, (steps, rows): what it picks is packed step by step."""
        return np.arange(self.inputs.shape[1])[:, None] < self.lengths


class WordReader:
    """How prepared ids become what a model of this vocabulary and encoder reads and predicts."""

    def __init__(
        self, corpus: PreparedCorpus, vocabulary: Vocabulary, encoder: EncoderConfig
    ) -> None:
        self.corpus = corpus
        self.encoder = encoder
        self.target_ids = corpus.target_ids(vocabulary)  # (types + 1,)
        self.markers = vocabulary.id_of(BEGIN), vocabulary.id_of(END)

    def batch(self, forward: Rows, backward: Rows, tokens_in_all: int, words_in_all: int) -> Batch:
        """Name each different word once, and pack both directions step by step."""
        packed = [rows.inputs.T[rows.is_read] for rows in (forward, backward)]
        distinct, occurrences = np.unique(np.concatenate(packed), return_inverse=True)
        # The two markers come first; a border is the one or the other by direction.
        distinct_words = distinct[distinct != BORDER]
        offset = 2 - (len(distinct) - len(distinct_words))
        forward_rows, backward_rows = np.split(occurrences + offset, [len(packed[0])])
        forward_rows[packed[0] == BORDER] = 0
        backward_rows[packed[1] == BORDER] = 1
        begin, end = self.markers
        return Batch(
            words=torch.from_numpy(self.model_ids(distinct_words)),
            forward=self.side(forward, forward_rows, end),
            backward=self.side(backward, backward_rows, begin),
            step_sizes=np.count_nonzero(forward.is_read, axis=1).tolist(),
            tokens_in_all=tokens_in_all,
            words_in_all=words_in_all,
        )

    def model_ids(self, words: Ids) -> NDArray[np.int16] | NDArray[np.int64]:
        """What the encoder reads: <S>, </S>, and then each word."""
        if isinstance(self.encoder, CharacterEncoderConfig):
            longest = self.encoder.max_characters
            markers = character_ids([BEGIN, END], longest)
            return np.concatenate([markers, self.corpus.character_ids(words, longest)])
        # Row 0 of a word-input model's table is padding.
        return np.concatenate([self.markers, self.target_ids[words]]).astype(np.int64) + 1

    def side(self, rows: Rows, inputs: NDArray[np.int64], marker: int) -> Side:
        """One direction, packed: rows of Batch.words, and targets; borders are closing markers."""
        carried = None
        if rows.carried is not None:
            carried = torch.from_numpy(rows.carried.T[rows.is_read])
        targets = rows.targets.T[rows.is_read]
        ids = np.where(targets == BORDER, marker, self.target_ids[targets]).astype(np.int64)
        return Side(torch.from_numpy(inputs), torch.from_numpy(ids), carried)


class BatchReader(ABC):
    """Makes the batches of one process, whose part of the rows is the n-th of so many: `part`.

    `parts` has the rows of this process, in as many parts as its batches have.
    """

    batches_per_epoch: float  # that hold the complete text once

    def __init__(
        self, words: WordReader, config: PretrainConfig, part: tuple[int, int] = (0, 1)
    ) -> None:
        self.words = words
        self.corpus = words.corpus
        self.config = config
        self.training = config.training
        number, processes = part
        rows, micro_batches = self.training.rows, processes * self.training.accumulate
        if rows % micro_batches:
            raise InputError(
                f"{rows} rows cannot be shared by {processes} processes "
                f"in {self.training.accumulate} parts each; choose training.rows to fit"
            )
        size = rows // micro_batches
        first = number * self.training.accumulate
        self.parts = [
            range(size * micro, size * (micro + 1))
            for micro in range(first, first + self.training.accumulate)
        ]
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Find what the rows are made of; raise where the text is too short for them."""

    @abstractmethod
    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""


def read_steps(texts: Iterator[Ids], steps: int) -> Iterator[Ids]:
    """One direction of one row: the inputs and targets (2, steps) of each batch, without end."""
    left = np.empty((2, 0), dtype=np.int32)
    for text in texts:
        left = np.concatenate([left, [text[:-1], text[1:]]], axis=1)
        while left.shape[1] >= steps:
            yield left[:, :steps]
            left = left[:, steps:]


class StreamReader(BatchReader):
    """Endless rows: each reads its share of the shuffled blocks, in each direction its own."""

    def open(self) -> None:
        """Cut the text into blocks; a short one finer, so that each row has something to read."""
        corpus, rows = self.corpus, self.training.rows
        targets = corpus.words_in_all + corpus.sentences
        length = max(1, min(self.config.corpus.block_words, targets // (4 * rows)))
        self.blocks = corpus.blocks(length)
        self.batches_per_epoch = targets / (rows * self.training.unroll)
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}
        own_rows = [row for part in self.parts for row in part]
        self._epochs = dict.fromkeys(product((FORWARD, BACKWARD), own_rows), 0)
        if self.batches_per_epoch < 1 or len(self.blocks) < rows:
            raise InputError(
                f"the corpus has {corpus.sentences:,} sentences and {corpus.words_in_all:,} words, "
                f"too few for a batch of {rows} rows of {self.training.unroll}; "
                "give more text, or fewer rows: training.rows"
            )

    def share(self, direction: int, row: int, epoch: int) -> NDArray[np.int64]:
        """The blocks (n, 2) that a row reads in an epoch, in their order there."""
        if (direction, epoch) not in self._orders:
            generator = np.random.default_rng([self.training.seed, direction, epoch])
            self._orders[direction, epoch] = generator.permutation(len(self.blocks))
        # Where blocks are left over, other rows get one more in every epoch.
        first = (row + epoch) % self.training.rows
        return self.blocks[self._orders[direction, epoch][first :: self.training.rows]]

    def texts(self, direction: int, row: int, skipped: int) -> Iterator[Ids]:
        """What a row reads after so many targets: blocks from border to border, without end."""
        for epoch in count():
            blocks = self.share(direction, row, epoch)
            self._epochs[direction, row] = epoch
            # Rows come to their next epoch in different batches: an order is needed until the
            # slowest row has left it. All are forgotten then, or memory would grow with each.
            slowest = min(self._epochs.values())
            self._orders = {at: order for at, order in self._orders.items() if at[1] >= slowest}
            ends = lengths_of(blocks).cumsum()
            first = int(np.searchsorted(ends, skipped, side="right"))
            skipped -= int(ends[first - 1]) if first else 0
            for start, end in blocks[first:]:
                text = np.asarray(self.corpus.tokens[start : end + 1])
                yield (text if direction == FORWARD else text[::-1])[skipped:]
                skipped = 0

    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""
        unroll = self.training.unroll
        streams = [
            [
                [read_steps(self.texts(direction, row, start * unroll), unroll) for row in part]
                for part in self.parts
            ]
            for direction in (FORWARD, BACKWARD)
        ]
        tokens = self.training.rows * unroll
        for number in count(start):
            resets = self.resets(number)
            batch = []
            for part, forward, backward in zip(self.parts, *streams, strict=True):
                lengths = np.full(len(part), unroll)
                rows = []
                for side in (forward, backward):
                    inputs, targets = np.stack([next(stream) for stream in side], axis=1)
                    rows.append(Rows(inputs, targets, lengths))
                if self.training.reset_state:
                    rows = [
                        side._replace(carried=(side.inputs != BORDER) | ~chosen[part])
                        for side, chosen in zip(rows, resets, strict=True)
                    ]
                words = int((rows[FORWARD].targets != BORDER).sum())
                # Parts read alike: what all read is estimated from one of them.
                in_all = words * self.training.rows // len(part)
                batch.append(self.words.batch(rows[FORWARD], rows[BACKWARD], tokens, in_all))
            yield batch

    def resets(self, number: int) -> NDArray[np.bool_]:
        """Where batch `number` reads from zeros if a sentence begins: (directions, rows, steps)."""
        shape = (2, self.training.rows, self.training.unroll)
        drawn = np.random.default_rng([self.training.seed, number]).random(shape)
        return drawn < self.training.reset_state


def lengths_of(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many targets each block or sentence has, by its bounds (n, 2)."""
    return bounds[:, 1] - bounds[:, 0]


class SentenceReader(BatchReader):
    """Sentences of similar length, each read from zeros, both directions the same ones."""

    def open(self) -> None:
        """Find the sentences, and cut the long ones."""
        self.sentences = cut_long(self.corpus.sentence_bounds())
        if len(self.sentences) < self.training.rows:
            raise InputError(
                f"the corpus has {len(self.sentences):,} sentences, too few for a batch of "
                f"{self.training.rows}; give more text, or fewer rows: training.rows"
            )
        # What is left over after the last full batch is other sentences in every epoch.
        self._full_batches = len(self.sentences) // self.training.rows
        self.batches_per_epoch = float(self._full_batches)

    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""
        epoch, first = divmod(start, self._full_batches)
        while True:
            yield from map(self.parts_of, self.epoch_batches(epoch)[first:])
            epoch, first = epoch + 1, 0

    def epoch_batches(self, epoch: int) -> NDArray[np.int64]:
        """Sentence numbers (batches, rows) of an epoch, longest sentence first in each batch."""
        rows = self.training.rows
        generator = np.random.default_rng([self.training.seed, epoch])
        order = generator.permutation(len(self.sentences))[: self._full_batches * rows]
        lengths = lengths_of(self.sentences)
        batches = []
        pool_rows = BATCHES_PER_POOL * rows
        for pool in np.split(order, range(pool_rows, len(order), pool_rows)):
            by_length = pool[np.argsort(-lengths[pool], kind="stable")].reshape(-1, rows)
            batches.append(generator.permutation(by_length))
        return np.concatenate(batches)

    def parts_of(self, sentences: NDArray[np.int64]) -> list[Batch]:
        """This process's parts of a batch of sentences (rows,)."""
        bounds = self.sentences[sentences]
        tokens = int(lengths_of(bounds).sum())
        parts = []
        for part in self.parts:
            # Every n-th sentence, so that parts are of like length.
            own = bounds[part.start // len(part) :: self.training.rows // len(part)]
            forward, backward = (self.read(own, direction) for direction in (FORWARD, BACKWARD))
            parts.append(self.words.batch(forward, backward, tokens, tokens - len(sentences)))
        return parts

    def read(self, bounds: NDArray[np.int64], direction: int) -> Rows:
        """Sentences as padded rows, border to border."""
        lengths = lengths_of(bounds)
        inputs = np.zeros((len(bounds), int(lengths[0])), dtype=np.int32)
        targets = np.zeros_like(inputs)
        for row, (start, end) in enumerate(bounds):
            text = np.array(self.corpus.tokens[start : end + 1])
            text[[0, -1]] = BORDER  # a piece of a long sentence is read as a sentence
            text = text if direction == FORWARD else text[::-1]
            inputs[row, : len(text) - 1] = text[:-1]
            targets[row, : len(text) - 1] = text[1:]
        return Rows(inputs, targets, lengths)


def cut_long(sentences: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds (n, 2) of sentences, those of too long ones replaced by those of their pieces."""
    lengths = lengths_of(sentences)
    # A border stands in the place of the word before a piece, and of the one after it: neighbours
    # overlap by that much, so that each word is read in one of them.
    pieces = [
        (piece, min(piece + LONGEST_SENTENCE, end))
        for start, end in sentences[lengths > LONGEST_SENTENCE]
        for piece in range(start, end - 1, LONGEST_SENTENCE - 1)
    ]
    kept = sentences[lengths <= LONGEST_SENTENCE]
    return np.concatenate([kept, np.array(pieces, dtype=np.int64).reshape(-1, 2)])
