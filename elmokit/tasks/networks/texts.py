"""The biattentive classification network of McCann et al. (2017), for one sentence at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import check_choice, check_number, check_size
from elmokit.tasks.config import Dense, Pool
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout


def pool_mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean over real words of (sentences, words, size): (sentences, size)."""
    total = vectors.masked_fill(~mask.unsqueeze(-1), 0).sum(1)
    return total / mask.sum(1, keepdim=True).clamp(min=1)


def pool_max(vectors: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension over real words: (sentences, size)."""
    if not vectors.shape[1]:
        return vectors.sum(1)
    largest = vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)
    return largest.masked_fill(~mask.any(1, keepdim=True), 0)


def pool_min(vectors: Tensor, mask: Tensor) -> Tensor:
    """The smallest value of each dimension over real words: (sentences, size)."""
    return -pool_max(-vectors, mask)


def attend(scores: Tensor, vectors: Tensor, mask: Tensor) -> Tensor:
    """Sum (sentences, words, size) by softmax(scores) (sentences, queries, words) of real words."""
    padding = ~mask.unsqueeze(1)
    # The smallest number, and not -inf: a sentence without words would give no number at all.
    shares = scores.masked_fill(padding, torch.finfo(scores.dtype).min).softmax(-1)
    return shares.masked_fill(padding, 0) @ vectors


MAXOUT_POOL = 4
"""Of how many values a maxout layer keeps the largest."""


class BiattentiveClassifier(nn.Module):
    """Relu layer, encoder, attention of the sentence to itself, integrator, pooling, dense layers.

    The biattention of a sentence with itself is one attention. ELMo at the output is joined to the
    integrator's outputs, before the pooling, where the paper's authors have it in AllenNLP. Nothing
    is normalised over the batch: a sentence's logits depend on the sentence alone.

    Args:
        sizes: Of the word vectors.
        classes: How many.
        hidden: Size of the relu layer, and cells of each direction of both LSTMs: 300 in the paper.
        dropout: Of the relu layer, the pooled vector and both dense layers.
        dense: `"maxout"`, or `"relu"` as in the ELMo paper. The first of the two layers has 4 times
            `hidden` outputs, the second 2 times.
    """

    def __init__(
        self,
        sizes: Sizes,
        classes: int,
        *,
        hidden: int,
        dropout: float,
        dense: Dense = "maxout",
    ) -> None:
        super().__init__()
        check_size("size of the word vectors", sizes.at_input)
        check_size("classes", classes)
        check_size("hidden", hidden)
        check_number("dropout", dropout, below=1.0)
        check_choice("dense", dense, get_args(Dense))
        self.before_encoder = nn.Linear(sizes.at_input, hidden)
        self.encoder = BidirectionalLSTM(hidden, hidden=hidden)
        self.integrator = BidirectionalLSTM(3 * self.encoder.output_size, hidden=hidden)
        pooled_size = self.integrator.output_size + sizes.at_output
        # Without a bias: a softmax does not notice what is added to all its scores.
        self.word_score = nn.Linear(pooled_size, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        sizes_of_dense = [4 * pooled_size, 4 * hidden, 2 * hidden]
        self.dense = nn.ModuleList(
            Maxout(size, outputs, MAXOUT_POOL) if dense == "maxout" else Relu(size, outputs)
            for size, outputs in pairwise(sizes_of_dense)
        )
        self.output = nn.Linear(sizes_of_dense[-1], classes)

    def forward(self, words: BatchVectors) -> Tensor:
        """Logits (sentences, classes)."""
        encoded = self.encode(words)
        attended = attend(encoded @ encoded.transpose(1, 2), encoded, words.mask)
        compared = torch.cat([encoded, encoded - attended, encoded * attended], dim=-1)
        integrated = self.integrator(compared, words.mask)
        sentence = self.pool(join_output(integrated, words), words.mask)
        for layer in self.dense:
            sentence = layer(self.dropout(sentence))
        return self.output(self.dropout(sentence))

    def encode(self, words: BatchVectors) -> Tensor:
        """The words in their sentence, (sentences, words, 2 * hidden)."""
        narrowed = self.dropout(torch.relu(self.before_encoder(words.at_input)))
        return self.encoder(narrowed, words.mask)

    def pool(self, integrated: Tensor, mask: Tensor) -> Tensor:
        """Maximum, mean, minimum and weighted mean of (sentences, words, size), side by side."""
        scores = self.word_score(integrated).transpose(1, 2)
        weighted = attend(scores, integrated, mask).squeeze(1)
        plain = [pool(integrated, mask) for pool in (pool_max, pool_mean, pool_min)]
        return torch.cat([*plain, weighted], dim=-1)


class Maxout(nn.Module):
    """A dense layer of which each output is the largest of several."""

    def __init__(self, size: int, outputs: int, pool: int) -> None:
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(size, outputs * pool)

    def forward(self, vectors: Tensor) -> Tensor:
        """From (sentences, size) to (sentences, outputs)."""
        return self.linear(vectors).unflatten(-1, (-1, self.pool)).amax(-1)


class Relu(nn.Module):
    """A dense layer of which no output is below 0."""

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, outputs)

    def forward(self, vectors: Tensor) -> Tensor:
        """From (sentences, size) to (sentences, outputs)."""
        return torch.relu(self.linear(vectors))


class PooledClassifier(nn.Module):
    """Pooled words, a dense layer with relu, dropout, a dense layer.

    There is no layer between input and pooling: ELMo at the output is joined to the input.

    Args:
        sizes: Of the word vectors.
        classes: How many.
        hidden: Size of the first dense layer.
        dropout: Of that layer's outputs.
        pool: `"mean"` or `"max"`, over real words.

    >>> words = BatchVectors(torch.ones(2, 3, 8), None, torch.ones(2, 3, dtype=torch.bool))
    >>> PooledClassifier(Sizes(8, 0), 2, hidden=4, dropout=0.5)(words).shape
    torch.Size([2, 2])
    """

    def __init__(
        self, sizes: Sizes, classes: int, *, hidden: int, dropout: float, pool: Pool = "mean"
    ) -> None:
        super().__init__()
        check_size("size of the word vectors", sum(sizes))
        check_size("classes", classes)
        check_size("hidden", hidden)
        check_number("dropout", dropout, below=1.0)
        check_choice("pool", pool, get_args(Pool))
        self.pool = pool_mean if pool == "mean" else pool_max
        self.hidden = nn.Linear(sum(sizes), hidden)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, classes)

    def forward(self, words: BatchVectors) -> Tensor:
        """Logits (sentences, classes)."""
        pooled = self.pool(join_output(words.at_input, words), words.mask)
        return self.output(self.dropout(torch.relu(self.hidden(pooled))))


class PairNetwork(nn.Module):
    """Encoder, soft alignment of the two sentences, comparison, composition, pooling, dense layers.

    ELMo at the output is joined to the encoder's outputs, before the alignment: the paper adds it
    to the input and to the output of the first LSTM.

    Args:
        sizes: Of the word vectors, the same for both sentences.
        classes: How many.
        hidden: Of both LSTMs, the projection and the dense layer: 300 in the paper.
        dropout: Variational before the composition; plain before both dense layers.
    """

    def __init__(self, sizes: Sizes, classes: int, *, hidden: int, dropout: float) -> None:
        super().__init__()
        check_size("classes", classes)
        check_size("hidden", hidden)
        check_number("dropout", dropout, below=1.0)
        self.encoder = BidirectionalLSTM(sizes.at_input, hidden=hidden)
        self.projection = nn.Linear(4 * (self.encoder.output_size + sizes.at_output), hidden)
        self.composition_dropout = VariationalDropout(dropout)
        self.composition = BidirectionalLSTM(hidden, hidden=hidden)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(4 * self.composition.output_size, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, first: BatchVectors, second: BatchVectors) -> Tensor:
        """Logits (pairs, classes) of the first sentence of each pair beside the second."""
        masks = first.mask, second.mask
        encoded = read_both(self.encoder, (first.at_input, second.at_input), masks)
        one, other = join_output(encoded[0], first), join_output(encoded[1], second)
        similarity = one @ other.transpose(1, 2)
        one_aligned = attend(similarity, other, second.mask)
        other_aligned = attend(similarity.transpose(1, 2), one, first.mask)
        compared = self.compare(one, one_aligned), self.compare(other, other_aligned)
        composed = read_both(self.composition, compared, masks)
        pooled = [
            pool(vectors, mask)
            for vectors, mask in zip(composed, masks, strict=True)
            for pool in (pool_mean, pool_max)
        ]
        hidden = torch.relu(self.hidden(self.dropout(torch.cat(pooled, dim=-1))))
        return self.output(self.dropout(hidden))

    def compare(self, words: Tensor, aligned: Tensor) -> Tensor:
        """What (pairs, words, size) says beside what it is aligned to: (pairs, words, hidden)."""
        beside = torch.cat([words, aligned, words - aligned, words * aligned], dim=-1)
        return self.composition_dropout(torch.relu(self.projection(beside)))


def read_both(
    reader: BidirectionalLSTM, vectors: tuple[Tensor, Tensor], masks: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Read (pairs, words, size) of both sentences as one batch: half the steps, twice the rows."""
    first_words, second_words = (mask.shape[1] for mask in masks)
    words = max(first_words, second_words)
    together = [functional.pad(each, (0, 0, 0, words - each.shape[1])) for each in vectors]
    mask = [functional.pad(each, (0, words - each.shape[1])) for each in masks]
    first, second = reader(torch.cat(together), torch.cat(mask)).chunk(2)
    return first[:, :first_words], second[:, :second_words]
