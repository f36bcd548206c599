"""The language model's output layer, shared by both directions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.model.cross_entropy import cross_entropy, log_likelihood


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
        return log_likelihood(outputs, self.weight, self.bias, targets)

    def loss(self, outputs: Tensor, targets: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Sum of -log p(target) over tokens, (); matrix products in `dtype`."""
        return cross_entropy(outputs, self.weight, self.bias, targets, dtype)

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
        self.clusters: Iterable[Cluster]
        self.clusters = nn.ModuleList(  # type: ignore[assignment]
            Cluster(end - start, token_size, cluster_size(token_size, division, depth))
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
        depths = self.depths(targets)
        likelihood = self.head.log_likelihood(outputs, self.head_targets(targets, depths))
        for depth, cluster in enumerate(self.clusters, start=1):
            rows = (depths == depth).nonzero()[:, 0]
            within = cluster.softmax.log_likelihood(
                cluster.project(outputs[rows]), targets[rows] - self.bounds[depth]
            )
            likelihood = likelihood.index_add(0, rows, within)
        return likelihood

    def loss(self, outputs: Tensor, targets: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Sum of -log p(target) over tokens, (); matrix products in `dtype`."""
        depths = self.depths(targets)
        loss = self.head.loss(outputs, self.head_targets(targets, depths), dtype)
        for depth, cluster in enumerate(self.clusters, start=1):
            rows = (depths == depth).nonzero()[:, 0]
            loss = loss + cluster.softmax.loss(
                cluster.project(outputs[rows]), targets[rows] - self.bounds[depth], dtype
            )
        return loss

    def depths(self, targets: Tensor) -> Tensor:
        """Which cluster has each target, from 1; 0 for the head's own words."""
        return torch.bucketize(targets, targets.new_tensor(self.bounds[1:-1]), right=True)

    def head_targets(self, targets: Tensor, depths: Tensor) -> Tensor:
        """The head's choice for each target: the word itself, or its cluster's entry."""
        return torch.where(depths == 0, targets, self.bounds[1] + depths - 1)

    def expect(self, probabilities: Tensor) -> None:
        """Start from the words' own probabilities (words,) instead of equal ones."""
        groups = [probabilities[start:end] for start, end in pairwise(self.bounds)]
        sums = torch.stack([group.sum() for group in groups[1:]])
        self.head.expect(torch.cat([groups[0], sums]))
        for cluster, group in zip(self.clusters, groups[1:], strict=True):
            cluster.softmax.expect(group)


class Cluster(nn.Module):
    """Rarer words, chosen among by a smaller vector."""

    def __init__(self, words: int, token_size: int, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(token_size, size, bias=False)
        self.softmax = Softmax(words, size)
        nn.init.xavier_uniform_(self.project.weight)


def cluster_size(token_size: int, division: int, depth: int) -> int:
    """Size of the vectors of the cluster at `depth`, from 1.

    >>> [cluster_size(128, 4, depth) for depth in (1, 2, 3, 4)]
    [32, 8, 2, 1]
    """
    return max(1, token_size // division**depth)
