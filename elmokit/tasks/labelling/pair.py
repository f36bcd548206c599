"""ESIM of Chen et al. (2017): one class for each pair of sentences."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import check_number, check_size
from elmokit.tasks.labelling.pooling import attend, pool_max, pool_mean
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output


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

    def forward(self, first: WordVectors, second: WordVectors) -> Tensor:
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
