"""Prepared text to batches: what each row reads at each step, for both directions.

Which words are in batch n depends on the seed, the rows and n alone: not on the batches made
before it, nor on how many processes share the rows. The number of the next batch is therefore all
that a checkpoint needs to know of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple, TypeVar

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
Number = TypeVar("Number", np.int32, np.bool_)
FORWARD, BACKWARD = 0, 1
LONGEST_SENTENCE = 256
"""In mode `sentence`, gradients pass through whole sentences; longer ones are read in pieces."""
BATCHES_PER_POOL = 64
"""In mode `sentence`, as many batches are sorted by length together, so that few rows wait."""


class Side(NamedTuple):
    """One direction's words, step by step (see `model.packing`)."""

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


class WordReader(NamedTuple):
    """How prepared ids become what a model reads and predicts."""

    corpus: PreparedCorpus
    encoder: EncoderConfig
    target_ids: NDArray[np.int32]  # (types + 1,)
    markers: tuple[int, int]  # softmax ids of <S> and </S>

    @classmethod
    def of(
        cls, corpus: PreparedCorpus, vocabulary: Vocabulary, encoder: EncoderConfig
    ) -> WordReader:
        """The words of a corpus, for a model with this vocabulary and encoder."""
        markers = (vocabulary.id_of(BEGIN), vocabulary.id_of(END))
        return cls(corpus, encoder, corpus.target_ids(vocabulary), markers)

    def batch(self, forward: Rows, backward: Rows, tokens_in_all: int, words_in_all: int) -> Batch:
        """Name each different word once, and pack both directions step by step."""
        packed = [pack(rows.inputs, rows.lengths) for rows in (forward, backward)]
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
            step_sizes=step_sizes(forward.lengths),
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
        """One direction, packed: rows of Batch.words, and what they are to predict."""
        carried = None
        if rows.carried is not None:
            carried = torch.from_numpy(pack(rows.carried, rows.lengths))
        return Side(torch.from_numpy(inputs), self.targets(rows, marker), carried)

    def targets(self, rows: Rows, marker: int) -> Tensor:
        """Softmax ids of the targets, packed; a border is this direction's closing marker."""
        targets = pack(rows.targets, rows.lengths)
        ids = np.where(targets == BORDER, marker, self.target_ids[targets])
        return torch.from_numpy(ids.astype(np.int64))


def pack(rows: NDArray[Number], lengths: NDArray[np.int64]) -> NDArray[Number]:
    """Rows (rows, steps) step by step, without their padding: (tokens,)."""
    mask = np.arange(rows.shape[1])[:, None] < lengths
    return rows.T[mask]


def step_sizes(lengths: NDArray[np.int64]) -> list[int]:
    """How many rows are left at each step, rows sorted by falling length."""
    return [int((lengths > step).sum()) for step in range(int(lengths[0]) if len(lengths) else 0)]


class BatchReader(ABC):
    """Makes the batches of one process.

    Args:
        words: The text, and how it is read.
        config: The run.
        part: Which part of the rows is this process's, and of how many.
    """

    def __init__(
        self, words: WordReader, config: PretrainConfig, part: tuple[int, int] = (0, 1)
    ) -> None:
        self.words = words
        self.corpus = words.corpus
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

    @property
    @abstractmethod
    def batches_per_epoch(self) -> float:
        """How many batches hold the whole text once."""

    @abstractmethod
    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""


class StreamPosition(NamedTuple):
    """Where in its stream a row is."""

    epoch: int
    targets: int  # of the row's share of that epoch that have been read


class Stream:
    """One direction of one row: blocks of sentences, one after the other, without end."""

    def __init__(
        self, reader: StreamReader, direction: int, row: int, place: StreamPosition
    ) -> None:
        self.reader = reader
        self.direction = direction
        self.row = row
        self.epoch = place.epoch
        self._blocks = reader.share(direction, row, place.epoch)
        ends = lengths_of(self._blocks).cumsum()
        self._next = int(np.searchsorted(ends, place.targets, side="right"))
        before = int(ends[self._next - 1]) if self._next else 0
        self._text = np.empty(0, dtype=np.int32)  # what is left of the current block
        self.open_block()
        self._text = self._text[place.targets - before :]

    def next_epoch(self) -> None:
        """Turn to the row's share of the next reading of the text."""
        self.epoch += 1
        self._blocks = self.reader.share(self.direction, self.row, self.epoch)
        self._next = 0

    def open_block(self) -> None:
        """Read the next block: sentences between borders, backwards for the backward direction."""
        if self._next == len(self._blocks):
            self.next_epoch()
        start, end = self._blocks[self._next]
        text = np.asarray(self.reader.corpus.tokens[start : end + 1])
        self._text = text if self.direction == FORWARD else text[::-1]
        self._next += 1

    def read(self, inputs: Ids, targets: Ids) -> None:
        """Fill one row of inputs and targets (steps,)."""
        filled = 0
        while filled < len(inputs):
            if len(self._text) < 2:
                self.open_block()
            count = min(len(inputs) - filled, len(self._text) - 1)
            inputs[filled : filled + count] = self._text[:count]
            targets[filled : filled + count] = self._text[1 : count + 1]
            self._text = self._text[count:]
            filled += count


class StreamReader(BatchReader):
    """Endless rows: each reads its share of the shuffled blocks, in each direction its own."""

    def __init__(
        self, words: WordReader, config: PretrainConfig, part: tuple[int, int] = (0, 1)
    ) -> None:
        super().__init__(words, config, part)
        corpus = words.corpus
        self.targets = corpus.words_in_all + corpus.sentences
        # A short text is cut finer, so that each row has something to read.
        length = max(1, min(config.corpus.block_words, self.targets // (4 * self.training.rows)))
        self.blocks = corpus.blocks(length)
        batch = self.training.rows * self.training.unroll
        if self.targets < batch or len(self.blocks) < self.training.rows:
            raise InputError(
                f"the corpus has {corpus.sentences:,} sentences and {corpus.words_in_all:,} words, "
                f"too few for a batch of {self.training.rows} rows of {self.training.unroll}; "
                "give more text, or fewer rows: training.rows"
            )
        self._orders: dict[tuple[int, int], NDArray[np.int64]] = {}

    @property
    def batches_per_epoch(self) -> float:
        """How many batches hold the whole text once."""
        return self.targets / (self.training.rows * self.training.unroll)

    def share(self, direction: int, row: int, epoch: int) -> NDArray[np.int64]:
        """The blocks (n, 2) that a row reads in an epoch, in their order there."""
        order = self._orders.get((direction, epoch))
        if order is None:
            generator = np.random.default_rng([self.training.seed, direction, epoch])
            order = generator.permutation(len(self.blocks))
            # Rows change epoch one by one: the one before is still asked for.
            self._orders = {k: v for k, v in self._orders.items() if k[1] >= epoch - 1}
            self._orders[direction, epoch] = order
        # Where blocks are left over, other rows get one more in every epoch.
        first = (row + epoch) % self.training.rows
        return self.blocks[order[first :: self.training.rows]]

    def places(self, direction: int, targets: int) -> dict[int, StreamPosition]:
        """Where each of this process's rows is after so many targets."""
        left = dict.fromkeys((row for part in self.parts for row in part), targets)
        places: dict[int, StreamPosition] = {}
        epoch = 0
        while left:
            for row in list(left):
                length = int(lengths_of(self.share(direction, row, epoch)).sum())
                if left[row] < length:
                    places[row] = StreamPosition(epoch, left.pop(row))
                else:
                    left[row] -= length
            epoch += 1
        return places

    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""
        unroll = self.training.unroll
        streams = []
        for direction in (FORWARD, BACKWARD):
            places = self.places(direction, start * unroll)
            streams.append(
                [[Stream(self, direction, row, places[row]) for row in p] for p in self.parts]
            )
        tokens = self.training.rows * unroll
        for number in count(start):
            resets = self.resets(number)
            batch = []
            for part, forward, backward in zip(self.parts, *streams, strict=True):
                rows = [read_rows(side, unroll) for side in (forward, backward)]
                if self.training.reset_state:
                    rows = [
                        side._replace(carried=(side.inputs != BORDER) | ~chosen[part])
                        for side, chosen in zip(rows, resets, strict=True)
                    ]
                words = int((rows[FORWARD].targets != BORDER).sum())
                # Parts read alike: the whole is estimated from one of them.
                in_all = words * self.training.rows // len(forward)
                batch.append(self.words.batch(rows[FORWARD], rows[BACKWARD], tokens, in_all))
            yield batch

    def resets(self, number: int) -> NDArray[np.bool_]:
        """Where batch `number` reads from zeros if a sentence begins: (directions, rows, steps)."""
        shape = (2, self.training.rows, self.training.unroll)
        drawn = np.random.default_rng([self.training.seed, number]).random(shape)
        return drawn < self.training.reset_state


def lengths_of(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many targets each block (n, 2) has."""
    return blocks[:, 1] - blocks[:, 0]


def read_rows(streams: list[Stream], steps: int) -> Rows:
    """The next steps of some streams."""
    inputs = np.empty((len(streams), steps), dtype=np.int32)
    targets = np.empty_like(inputs)
    for row, stream in enumerate(streams):
        stream.read(inputs[row], targets[row])
    return Rows(inputs, targets, np.full(len(streams), steps))


class SentenceReader(BatchReader):
    """Whole sentences of similar length, each read from zeros, both directions the same ones."""

    def __init__(
        self, words: WordReader, config: PretrainConfig, part: tuple[int, int] = (0, 1)
    ) -> None:
        super().__init__(words, config, part)
        self.sentences = cut_long(words.corpus.sentence_bounds())
        if len(self.sentences) < self.training.rows:
            raise InputError(
                f"the corpus has {len(self.sentences):,} sentences, too few for a batch of "
                f"{self.training.rows}; give more text, or fewer rows: training.rows"
            )
        # What is left over after the last whole batch is other sentences in every epoch.
        self._whole_batches = len(self.sentences) // self.training.rows

    @property
    def batches_per_epoch(self) -> float:
        """How many batches hold the whole text once."""
        return float(self._whole_batches)

    def batches(self, start: int) -> Iterator[list[Batch]]:
        """Batches from number `start` on, without end, each in this process's parts."""
        epoch, first = divmod(start, self._whole_batches)
        while True:
            yield from map(self.parts_of, self.epoch_batches(epoch)[first:])
            epoch, first = epoch + 1, 0

    def epoch_batches(self, epoch: int) -> NDArray[np.int64]:
        """Sentence numbers (batches, rows) of an epoch, longest sentence first in each batch."""
        rows = self.training.rows
        generator = np.random.default_rng([self.training.seed, epoch])
        order = generator.permutation(len(self.sentences))[: self._whole_batches * rows]
        lengths = self.sentences[:, 1] - self.sentences[:, 0]
        batches = []
        for pool in np.split(
            order, range(BATCHES_PER_POOL * rows, len(order), BATCHES_PER_POOL * rows)
        ):
            by_length = pool[np.argsort(-lengths[pool], kind="stable")].reshape(-1, rows)
            batches.append(generator.permutation(by_length))
        return np.concatenate(batches)

    def parts_of(self, sentences: NDArray[np.int64]) -> list[Batch]:
        """This process's parts of a batch of sentences (rows,)."""
        bounds = self.sentences[sentences]
        tokens = int((bounds[:, 1] - bounds[:, 0]).sum())
        parts = []
        for part in self.parts:
            # Every n-th sentence, so that parts are of like length.
            own = bounds[part.start // len(part) :: self.training.rows // len(part)]
            forward, backward = (self.read(own, direction) for direction in (FORWARD, BACKWARD))
            parts.append(self.words.batch(forward, backward, tokens, tokens - len(sentences)))
        return parts

    def read(self, bounds: NDArray[np.int64], direction: int) -> Rows:
        """Sentences as padded rows, border to border."""
        lengths = bounds[:, 1] - bounds[:, 0]
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
    lengths = sentences[:, 1] - sentences[:, 0]
    # A border stands in the place of the word before a piece, and of the one after it: neighbours
    # overlap by that much, so that each word is read in one of them.
    pieces = [
        (piece, min(piece + LONGEST_SENTENCE, end))
        for start, end in sentences[lengths > LONGEST_SENTENCE]
        for piece in range(start, end - 1, LONGEST_SENTENCE - 1)
    ]
    kept = sentences[lengths <= LONGEST_SENTENCE]
    return np.concatenate([kept, np.array(pieces, dtype=np.int64).reshape(-1, 2)])
