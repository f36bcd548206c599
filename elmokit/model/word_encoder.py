"""Word encoder: a table of word vectors, the other input that the paper's code allows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmokit.config import WordEncoderConfig
from elmokit.model.weights import watch_optimisers


class WordEncoder(nn.Module):
    """Token vectors from a table. Id 0 is padding, word i of the vocabulary is id i + 1."""

    def __init__(self, config: WordEncoderConfig, token_size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(config.words + 1, token_size, padding_idx=0)
        self.config = config
        with torch.no_grad():  # as the original starts
            self.words.weight.uniform_(-1.0, 1.0)
            self.words.weight[0].zero_()

    @property
    def begin_marker(self) -> Tensor:
        """The word that begins a sentence, ()."""
        return torch.tensor(self.config.begin_id)

    @property
    def end_marker(self) -> Tensor:
        """The word that ends a sentence, ()."""
        return torch.tensor(self.config.end_id)

    def forward(self, word_ids: Tensor) -> Tensor:
        """Look up word ids (words,) as token vectors (words, token_size)."""
        vectors: Tensor = self.words(word_ids)
        if vectors.requires_grad:
            watch_optimisers()
        return vectors
