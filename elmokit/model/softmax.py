"""The language model's output layer, shared by both directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Softmax(nn.Module):
    """Log probabilities of every word of the vocabulary."""

    def __init__(self, words: int, token_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, token_size))
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.weight, std=1 / math.sqrt(token_size))

    def forward(self, outputs: Tensor) -> Tensor:
        """From one direction's outputs (tokens, token_size) to (tokens, words)."""
        return functional.log_softmax(functional.linear(outputs, self.weight, self.bias), dim=-1)
