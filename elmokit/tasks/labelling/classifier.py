"""One class for each sentence, from the mean or the maximum of its words' vectors."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from elmokit.config import check_choice, check_number, check_size
from elmokit.tasks.config import Pool
from elmokit.tasks.labelling.pooling import pool_max, pool_mean
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output


class PooledClassifier(nn.Module):
    """Pooled words, a dense layer with relu, dropout, a dense layer.

    There is no layer between input and pooling: ELMo at the output is joined to the input.

    Args:
        sizes: Of the word vectors.
        classes: How many.
        hidden: Size of the first dense layer.
        dropout: Of that layer's outputs.
        pool: `"mean"` or `"max"`, over real words.

    >>> words = WordVectors(torch.ones(2, 3, 8), None, torch.ones(2, 3, dtype=torch.bool))
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

    def forward(self, words: WordVectors) -> Tensor:
        """Logits (sentences, classes)."""
        pooled = self.pool(join_output(words.at_input, words), words.mask)
        return self.output(self.dropout(torch.relu(self.hidden(pooled))))
