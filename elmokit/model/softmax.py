"""Softmaxes over the vocabulary: full, adaptive, sampled; their loss in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.model.products import MixedProduct

PROBABILITIES_AT_ONCE = 2**23
"""Numbers of one chunk: large enough for fast products, small enough to stay near the CPU."""


def chunks(tokens: int, words: int) -> Iterator[slice]:
    """Runs of tokens whose probabilities fit into one chunk."""
    size = max(1, PROBABILITIES_AT_ONCE // words)
    return (slice(start, start + size) for start in range(0, tokens, size))


class CrossEntropyFunction(torch.autograd.Function):
    """Loss and gradient in one pass: sums -log p(target) over tokens.

    The gradient is computed along with the loss, chunk by chunk, while a chunk's probabilities are
    at hand; it could not be if each token's loss could be weighted differently afterwards.
    """

    @staticmethod
    def forward(
        ctx: Any, outputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Sum the loss; keep its gradients for a factor of one."""
        product = MixedProduct(outputs.dtype, dtype)
        rows, columns = product.prepare(weight), product.prepare(weight.t())
        d_outputs = torch.empty_like(outputs)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        total = outputs.new_zeros(())
        for chunk in chunks(len(outputs), len(weight)):
            logits = product.add(bias, outputs[chunk], columns)
            log_probabilities = functional.log_softmax(logits, dim=1)
            target = targets[chunk, None]
            total -= log_probabilities.gather(1, target).sum()
            d_logits = log_probabilities.exp_()
            d_logits.scatter_add_(1, target, -torch.ones_like(target, dtype=d_logits.dtype))
            product.write_to(d_outputs[chunk], d_logits, rows)
            product.add_to(d_weight, d_logits.t(), outputs[chunk])
            d_bias += d_logits.sum(0)
        ctx.save_for_backward(d_outputs, d_weight, d_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> Any:
        """Scale the gradients that are there already."""
        d_outputs, d_weight, d_bias = ctx.saved_tensors
        return d_outputs * factor, d_weight * factor, d_bias * factor, None, None


class Softmax(nn.Module):
    """One row of weights for every word of the vocabulary."""

    def __init__(self, words: int, token_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(words, token_size))
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.weight, std=1 / math.sqrt(token_size))

    def forward(self, outputs: Tensor) -> Tensor:
        """Log probabilities (tokens, words) from one direction's outputs (tokens, token_size)."""
        return functional.log_softmax(functional.linear(outputs, self.weight, self.bias), dim=-1)

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Log probability of each token's target, (tokens,)."""
        parts = [
            self(outputs[chunk]).gather(1, targets[chunk, None]).squeeze(1)
            for chunk in chunks(len(outputs), len(self.bias))
        ]
        return torch.cat(parts) if parts else outputs.new_empty(0)

    def loss(self, outputs: Tensor, targets: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Sum of -log p(target) over tokens, (); matrix products in `dtype`."""
        dtype = dtype or outputs.dtype
        return CrossEntropyFunction.apply(outputs, self.weight, self.bias, targets, dtype)  # type: ignore[no-untyped-call]

    def expect(self, probabilities: Tensor) -> None:
        """Start from the words' own probabilities (words,) instead of equal ones."""
        with torch.no_grad():
            self.bias.copy_(probabilities.log())


class AdaptiveSoftmax(nn.Module):
    """Frequent words in a head; rarer ones in clusters of smaller vectors, one entry each there.

    Words are numbered by falling frequency. The first `cutoffs[0]` are the head's own, the next up
    to `cutoffs[1]` the first cluster's, and so on (Grave et al. 2017).
    """

    def __init__(
        self, words: int, token_size: int, cutoffs: tuple[int, ...], division: int
    ) -> None:
        super().__init__()
        self.bounds = (0, *cutoffs, words)
        self.head = Softmax(cutoffs[0] + len(cutoffs), token_size)
        self.clusters: Iterable[SoftmaxCluster]
        self.clusters = nn.ModuleList(  # type: ignore[assignment]
            SoftmaxCluster(end - start, token_size, max(1, token_size // division**depth))
            for depth, (start, end) in enumerate(pairwise(self.bounds[1:]), start=1)
        )

    def forward(self, outputs: Tensor) -> Tensor:
        """Log probabilities (tokens, words) from one direction's outputs (tokens, token_size)."""
        head = self.head(outputs)
        own = self.bounds[1]
        parts = [head[:, :own]]
        for number, cluster in enumerate(self.clusters):
            parts.append(head[:, own + number, None] + cluster.softmax(cluster.project(outputs)))
        return torch.cat(parts, dim=1)

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Log probability of each token's target, (tokens,)."""
        likelihood = outputs.new_zeros(len(outputs))
        for softmax, rows, vectors, choices in self.decisions(outputs, targets):
            likelihood = likelihood.index_add(0, rows, softmax.log_likelihood(vectors, choices))
        return likelihood

    def loss(self, outputs: Tensor, targets: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Sum of -log p(target) over tokens, (); matrix products in `dtype`."""
        losses = [
            softmax.loss(vectors, choices, dtype)
            for softmax, _, vectors, choices in self.decisions(outputs, targets)
        ]
        return reduce(torch.add, losses)

    def decisions(
        self, outputs: Tensor, targets: Tensor
    ) -> Iterator[tuple[Softmax, Tensor, Tensor, Tensor]]:
        """Each softmax, the rows of the tokens it decides on, its vectors of them, its targets.

        The head chooses for every token: the word itself, or the entry of its cluster.
        """
        depths = torch.bucketize(targets, targets.new_tensor(self.bounds[1:-1]), right=True)
        every_row = torch.arange(len(targets), device=targets.device)
        choices = torch.where(depths == 0, targets, self.bounds[1] + depths - 1)
        yield self.head, every_row, outputs, choices
        for depth, cluster in enumerate(self.clusters, start=1):
            rows = (depths == depth).nonzero()[:, 0]
            choices = targets[rows] - self.bounds[depth]
            yield cluster.softmax, rows, cluster.project(outputs[rows]), choices

    def expect(self, probabilities: Tensor) -> None:
        """Start from the words' own probabilities (words,) instead of equal ones."""
        groups = [probabilities[start:end] for start, end in pairwise(self.bounds)]
        sums = torch.stack([group.sum() for group in groups[1:]])
        self.head.expect(torch.cat([groups[0], sums]))
        for cluster, group in zip(self.clusters, groups[1:], strict=True):
            cluster.softmax.expect(group)


class SoftmaxCluster(nn.Module):
    """Rarer words, chosen among by a smaller vector."""

    def __init__(self, words: int, token_size: int, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(token_size, size, bias=False)
        self.softmax = Softmax(words, size)
        nn.init.xavier_uniform_(self.project.weight)


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
    """Sum over tokens of -log p(target) among target and candidates, (); products in `dtype`."""
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
