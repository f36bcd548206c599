"""Floating-point operations of one step of pretraining, counted from the shapes.

Only matrix products count: they are what a CPU's peak is measured with. A product of
(rows, inputs) by (inputs, outputs) takes 2 * rows * inputs * outputs; going back takes two more of
the same size, one for the gradient of the rows and one for that of the weight. So a step takes
three times what its way forward takes:

    encoder   each encoded word, for each (width, number) of the filters:
                  (positions - width + 1) windows of width * character_size, by number
              each highway: twice filters by filters
              filters by token_size
    lstm      each token, direction and layer:
                  2 * token_size by 4 * cell_size, the input and the output before
                  cell_size by token_size
    softmax   each target, full: token_size by words

Left out, as no product or next to nothing: gates, activations, dropout, the largest of the windows,
the loss itself, gathering rows, clipping and the optimiser. Counted though nobody computes it: the
gradient of the state that a batch begins with, 1 / (3 * unroll) of the product with the output
before. Where the gradient of a maximum is sent to the winning windows alone, less is done than is
counted for the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from elmokit.config import CharacterEncoderConfig, EncoderConfig, ModelConfig
from elmokit.errors import ConfigError

DIRECTIONS = 2
FORWARD_AND_BACKWARD = 3
"""The way back takes twice the way forward."""


class Product(NamedTuple):
    """(rows, inputs) by (inputs, outputs), forward."""

    rows: float  # of an average batch, so not always whole
    inputs: int
    outputs: int

    @property
    def flops(self) -> float:
        """A multiplication and an addition for each pair."""
        return 2 * self.rows * self.inputs * self.outputs


@dataclass(frozen=True)
class StepFlops:
    """Operations of one step, forward and backward, part by part."""

    encoder: int
    lstm: int
    softmax: int

    @property
    def total(self) -> int:
        """All three."""
        return self.encoder + self.lstm + self.softmax


def pretraining_flops(
    config: ModelConfig,
    rows: int,
    unroll: int,
    *,
    distinct_words: float,
    positions_per_word: float,
    softmax: Iterable[Product] | None = None,
) -> StepFlops:
    """Operations of one step on `rows` streams of `unroll` tokens in each direction.

    Args:
        config: The shape of the model.
        rows: Streams per direction.
        unroll: Tokens of each stream.
        distinct_words: Words that the encoder is run on, both directions together.
        positions_per_word: Characters that are convolved of each of them, padding that is seen
            included; the average over words.
        softmax: Its products on the way forward, both directions together; None for the full one.

    Half the words distinct, trimmed to 16 of 50 positions, and a sampled softmax:

    >>> encoder = CharacterEncoderConfig(((1, 32), (2, 64)), highways=1)
    >>> config = ModelConfig(encoder, 128, 1024, softmax_words=30_000)
    >>> sampled = sampled_softmax(config, rows=128, unroll=20, samples=8192)
    >>> pretraining_flops(
    ...     config, 128, 20, distinct_words=2560, positions_per_word=16, softmax=sampled
    ... )
    StepFlops(encoder=1069547520, lstm=72477573120, softmax=32212254720)

    An adaptive softmax is a list of products too: a head of 2,000 words and one cluster on all
    targets, then the cluster's own 28,000 words in 32 dimensions on the fifth that falls into it.

    >>> targets = 2 * 128 * 20
    >>> adaptive = [Product(targets, 128, 2001)]
    >>> adaptive += [Product(targets / 5, 128, 32), Product(targets / 5, 32, 28_000)]
    >>> pretraining_flops(
    ...     config, 128, 20, distinct_words=2560, positions_per_word=16, softmax=adaptive
    ... ).softmax
    13398441984
    """
    products = full_softmax(config, rows, unroll) if softmax is None else softmax
    encoder = distinct_words * encoder_flops(config.encoder, config.token_size, positions_per_word)
    lstm = DIRECTIONS * rows * unroll * config.lstm_layers * lstm_flops(config)
    forward = encoder, lstm, sum(product.flops for product in products)
    return StepFlops(*(round(FORWARD_AND_BACKWARD * part) for part in forward))


def plain_flops(config: ModelConfig, rows: int, unroll: int) -> StepFlops:
    """Operations of one step of `PlainBiLM`: every word, every position, every target's all words.

    >>> encoder = CharacterEncoderConfig(((1, 32), (2, 64)), highways=1)
    >>> plain_flops(ModelConfig(encoder, 128, 1024, softmax_words=30_000), 128, 20)
    StepFlops(encoder=4812963840, lstm=72477573120, softmax=117964800000)
    """
    if not isinstance(config.encoder, CharacterEncoderConfig):
        raise ConfigError("the encoder is a table of words; the plain biLM reads characters")
    return pretraining_flops(
        config,
        rows,
        unroll,
        distinct_words=DIRECTIONS * rows * unroll,
        positions_per_word=config.encoder.max_characters,
    )


def encoder_flops(encoder: EncoderConfig, token_size: int, positions: float) -> float:
    """Forward operations for one word of so many positions; looking up in a table takes none.

    >>> encoder_flops(CharacterEncoderConfig(((3, 10),), character_size=4, highways=1), 5, 8)
    1940
    """
    if not isinstance(encoder, CharacterEncoderConfig):
        return 0
    filters = encoder.filter_count
    products = [
        Product(positions - width + 1, width * encoder.character_size, number)
        for width, number in encoder.filters
    ]
    products += [Product(2, filters, filters)] * encoder.highways
    if filters != token_size:
        products.append(Product(1, filters, token_size))
    return sum(product.flops for product in products)


def lstm_flops(config: ModelConfig) -> float:
    """Forward operations for one token in one layer of one direction.

    >>> lstm_flops(ModelConfig(CharacterEncoderConfig(((1, 8),)), token_size=3, cell_size=5))
    270
    """
    gates = Product(1, 2 * config.token_size, 4 * config.cell_size)
    projection = Product(1, config.cell_size, config.token_size)
    return gates.flops + (projection.flops if config.has_projection else 0)


def full_softmax(config: ModelConfig, rows: int, unroll: int) -> list[Product]:
    """Every target of both directions against the whole vocabulary."""
    if config.softmax_words is None:
        raise ConfigError("softmax_words is None; say how many words are to be predicted")
    return [Product(DIRECTIONS * rows * unroll, config.token_size, config.softmax_words)]


def sampled_softmax(config: ModelConfig, rows: int, unroll: int, samples: int) -> list[Product]:
    """Every target against its direction's samples; its own score is no matrix product."""
    return [Product(rows * unroll, config.token_size, samples)] * DIRECTIONS
