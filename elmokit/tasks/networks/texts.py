"""Classifiers of texts and pairs: pooled words, biattention (McCann et al. 2017), ESIM."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout


def pool_mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean over real words of (sentences, words, size): (sentences, size)."""
    total = vectors.masked_fill(~mask.unsqueeze(-1), 0).sum(1)
    return total / mask.sum(1, keepdim=True)


def pool_max(vectors: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension over real words: (sentences, size)."""
    return vectors.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)


def softmax_where(scores: Tensor, allowed: Tensor) -> Tensor:
    """Shares (sentences, queries, words) of what is allowed; none where nothing is."""
    # The smallest number, and not -inf: where nothing is allowed, there would be no number at all.
    shares = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
    return shares.masked_fill(~allowed, 0)


def attend(scores: Tensor, vectors: Tensor, allowed: Tensor) -> Tensor:
    """Sum (sentences, words, size) by softmax(scores) (sentences, queries, words) of the allowed.

    Where none is, as for a text of one word that looks for others, the sum is 0.
    """
    return softmax_where(scores, allowed) @ vectors


MAXOUT_POOL = 4  # of how many values a maxout layer keeps the largest


class BiattentiveClassifier(nn.Module):
    """Relu layer, encoder, attention of the sentence to itself, integrator, pooling, dense layers.

    The biattention of a sentence with itself is one attention. ELMo at the output is joined to the
    integrator's outputs, before the pooling, where the paper's authors have it in AllenNLP. Nothing
    is normalised over the batch: a sentence's logits depend on the sentence alone.

    `config.hidden` is the size of the relu layer, and cells of each direction of both LSTMs: 300 in
    the paper. Dropout is of the relu layer, the pooled vector and both dense layers; the first of
    these has 4 times `hidden` outputs, the second 2 times.
    """

    def __init__(self, sizes: Sizes, classes: int, config: NetworkConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.before_encoder = nn.Linear(sizes.at_input, hidden)
        self.encoder = BidirectionalLSTM(hidden, hidden=hidden)
        self.integrator = BidirectionalLSTM(3 * self.encoder.output_size, hidden=hidden)
        pooled_size = self.integrator.output_size + sizes.at_output
        # Without a bias: a softmax does not notice what is added to all its scores.
        self.word_score = nn.Linear(pooled_size, 1, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        sizes_of_dense = [4 * pooled_size, 4 * hidden, 2 * hidden]
        self.dense = nn.ModuleList(
            DenseLayer(size, outputs, maxout=config.dense == "maxout")
            for size, outputs in pairwise(sizes_of_dense)
        )
        self.output = nn.Linear(sizes_of_dense[-1], classes)

    def forward(self, words: BatchVectors) -> Tensor:
        """Logits (sentences, classes)."""
        encoded = self.encode(words)
        attended = attend(encoded @ encoded.transpose(1, 2), encoded, words.mask.unsqueeze(1))
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
        weighted = attend(scores, integrated, mask.unsqueeze(1)).squeeze(1)
        highest, lowest = pool_max(integrated, mask), -pool_max(-integrated, mask)
        return torch.cat([highest, pool_mean(integrated, mask), lowest, weighted], dim=-1)


class DenseLayer(nn.Module):
    """A dense layer with relu; or maxout, of which each output is the largest of several."""

    def __init__(self, size: int, outputs: int, *, maxout: bool) -> None:
        super().__init__()
        self.maxout = maxout
        self.linear = nn.Linear(size, outputs * MAXOUT_POOL if maxout else outputs)

    def forward(self, vectors: Tensor) -> Tensor:
        """From (sentences, size) to (sentences, outputs)."""
        values = self.linear(vectors)
        if not self.maxout:
            return torch.relu(values)
        return values.unflatten(-1, (-1, MAXOUT_POOL)).amax(-1)


class PooledClassifier(nn.Module):
    """Pooled words, a dense layer with relu, dropout, a dense layer.

    There is no layer between input and pooling: ELMo at the output is joined to the input. Only
    real words are pooled. `config.hidden` is the size of the first dense layer, whose outputs
    dropout is of.

    >>> words = BatchVectors(torch.ones(2, 3, 8), None, torch.ones(2, 3, dtype=torch.bool))
    >>> PooledClassifier(Sizes(8, 0), 2, NetworkConfig(hidden=4))(words).shape
    torch.Size([2, 2])
    """

    def __init__(self, sizes: Sizes, classes: int, config: NetworkConfig) -> None:
        super().__init__()
        self.pool = pool_mean if config.pool == "mean" else pool_max
        self.hidden = nn.Linear(sum(sizes), config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, classes)

    def forward(self, words: BatchVectors) -> Tensor:
        """Logits (sentences, classes)."""
        pooled = self.pool(join_output(words.at_input, words), words.mask)
        return self.output(self.dropout(torch.relu(self.hidden(pooled))))


class PairNetwork(nn.Module):
    """Encoder, soft alignment of the two sentences, comparison, composition, pooling, dense layers.

    ELMo at the output is joined to the encoder's outputs, before the alignment: the paper adds it
    to the input and to the output of the first LSTM.

    `config.hidden` is that of both LSTMs, the projection and the dense layer: 300 in the paper.
    Dropout is variational before the composition; plain before both dense layers.
    """

    def __init__(self, sizes: Sizes, classes: int, config: NetworkConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.encoder = BidirectionalLSTM(sizes.at_input, hidden=hidden)
        self.projection = nn.Linear(4 * (self.encoder.output_size + sizes.at_output), hidden)
        self.composition_dropout = VariationalDropout(config.dropout)
        self.composition = BidirectionalLSTM(hidden, hidden=hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.hidden = nn.Linear(4 * self.composition.output_size, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, first: BatchVectors, second: BatchVectors) -> Tensor:
        """Logits (pairs, classes) of the first sentence of each pair beside the second."""
        masks = first.mask, second.mask
        encoded = read_both(self.encoder, (first.at_input, second.at_input), masks)
        one, other = join_output(encoded[0], first), join_output(encoded[1], second)
        similarity = one @ other.transpose(1, 2)
        one_aligned = attend(similarity, other, second.mask.unsqueeze(1))
        other_aligned = attend(similarity.transpose(1, 2), one, first.mask.unsqueeze(1))
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
