"""One vector for each sentence out of those of its words; zeros for a sentence without words."""

from __future__ import annotations

import torch
from torch import Tensor


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
