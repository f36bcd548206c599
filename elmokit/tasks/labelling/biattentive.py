"""The biattentive classification network of McCann et al. (2017), for one sentence at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import torch
from torch import Tensor, nn

from elmokit.config import check_choice, check_number, check_size
from elmokit.tasks.config import Dense
from elmokit.tasks.labelling.pooling import attend, pool_max, pool_mean, pool_min
from elmokit.tasks.recurrent import BidirectionalLSTM
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output

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

    def forward(self, words: WordVectors) -> Tensor:
        """Logits (sentences, classes)."""
        encoded = self.encode(words)
        attended = attend(encoded @ encoded.transpose(1, 2), encoded, words.mask)
        compared = torch.cat([encoded, encoded - attended, encoded * attended], dim=-1)
        integrated = self.integrator(compared, words.mask)
        sentence = self.pool(join_output(integrated, words), words.mask)
        for layer in self.dense:
            sentence = layer(self.dropout(sentence))
        return self.output(self.dropout(sentence))

    def encode(self, words: WordVectors) -> Tensor:
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
