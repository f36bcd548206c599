"""The original's training loss: the target against a sample of the vocabulary.

Its value is no cross entropy of the vocabulary, so it must not be shown as a perplexity. Words have
to be numbered by falling frequency: candidates are drawn by rank.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmokit.model.mixed_precision import MixedProduct
from elmokit.model.softmax import Softmax


class Candidates(NamedTuple):
    """Different words drawn at random, and how many draws it took to find them."""

    ids: NDArray[np.int64]  # (candidates,)
    tries: int


def draw_candidates(generator: np.random.Generator, candidates: int, words: int) -> Candidates:
    """Draw ranks from a log-uniform distribution until `candidates` different ones are found."""
    drawn = np.empty(0, dtype=np.int64)
    first = np.empty(0, dtype=np.int64)
    while len(first) < candidates:
        uniform = generator.random(2 * candidates)
        # The inverse of the distribution function log(k + 1) / log(words + 1).
        ranks = np.expm1(uniform * math.log(words + 1)).astype(np.int64).clip(0, words - 1)
        drawn = np.concatenate([drawn, ranks])
        first = np.sort(np.unique(drawn, return_index=True)[1])
    first = first[:candidates]
    return Candidates(ids=drawn[first], tries=int(first[-1]) + 1)


def log_expected_counts(ids: Tensor, tries: int, words: int) -> Tensor:
    """Log of how often each word is expected among the candidates of so many tries."""
    ranks = ids.to(torch.float32 if ids.device.type == "mps" else torch.float64)
    probabilities = torch.log1p(1 / (ranks + 1)) / math.log(words + 1)
    return torch.log(-torch.expm1(tries * torch.log1p(-probabilities)))


def sampled_loss(
    softmax: Softmax,
    outputs: Tensor,
    targets: Tensor,
    candidates: Candidates,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum over tokens of -log p(target) among the target and the candidates, ().

    The product with the candidates is in `dtype`.
    """
    words = len(softmax.bias)
    ids = torch.from_numpy(candidates.ids).to(targets.device)
    target_logits = (outputs * functional.embedding(targets, softmax.weight)).sum(1)
    target_logits = target_logits + softmax.bias[targets]
    target_logits = target_logits - log_expected_counts(targets, candidates.tries, words).to(
        outputs
    )
    corrections = softmax.bias[ids] - log_expected_counts(ids, candidates.tries, words).to(outputs)
    product = MixedProduct(outputs.dtype, dtype or outputs.dtype)
    logits = product.add(corrections, outputs, functional.embedding(ids, softmax.weight).t())
    remove_hits(logits, targets, ids)
    return (torch.logaddexp(target_logits, logits.logsumexp(1)) - target_logits).sum()


@torch.no_grad()
def remove_hits(logits: Tensor, targets: Tensor, ids: Tensor) -> None:
    """Take each target out of its own candidates (tokens, candidates), in place.

    Autograd need not know: what has probability zero gets no gradient in any case.
    """
    sorted_ids, columns = ids.sort()
    places = torch.searchsorted(sorted_ids, targets).clamp_max_(len(ids) - 1)
    rows = (sorted_ids[places] == targets).nonzero()[:, 0]
    # Not infinity: where no other candidate is left, its gradient would be no number.
    logits[rows, columns[places[rows]]] = torch.finfo(logits.dtype).min
