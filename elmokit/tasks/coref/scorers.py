"""Feed-forward networks that score spans and pairs of spans.

What goes into the first layer of each is the same for many spans or pairs: a word is in many spans,
a span in many pairs. A layer of joined parts is the sum of a layer of each part, so each part is
multiplied once, and only the sums are as many as there are spans or pairs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.tasks.recurrent import VariationalDropout

DISTANCES = (2, 3, 4, 5, 8, 16, 32, 64)
"""Where the buckets of distances begin, after that of 1."""


class Scorer(nn.Module):
    """A score out of the sums of a first layer: (groups, members, size) to (groups, members).

    Dropout leaves out the same hidden cells of all members of a group, the spans that begin with a
    word or the antecedents of a span: to draw other ones for each would take a fifth of the time.
    """

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = VariationalDropout(dropout)
        self.second = nn.Linear(size, size)
        self.score = nn.Linear(size, 1)

    def forward(self, sums: Tensor) -> Tensor:
        """Score (groups, members, size), which is not activated yet."""
        first = self.dropout(functional.relu(sums))
        second = self.dropout(functional.relu(self.second(first)))
        return self.score(second).squeeze(-1)


class MentionScorer(nn.Module):
    """How much each span looks like a mention: both ends, the attended head, and the width.

    Args:
        context_size: Of the word contexts, which the ends are.
        head_size: Of the word vectors, which the head is a sum of.
        longest: The most words of a span.
        size: Of the hidden layers.
        feature_size: Of the vector for a width.
        dropout: Of the hidden layers.
    """

    def __init__(
        self,
        context_size: int,
        head_size: int,
        *,
        longest: int,
        size: int,
        feature_size: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.start = nn.Linear(context_size, size)
        self.end = nn.Linear(context_size, size, bias=False)
        self.head = nn.Linear(head_size, size, bias=False)
        self.width = nn.Embedding(longest, feature_size)
        self.of_width = nn.Linear(feature_size, size, bias=False)
        self.scorer = Scorer(size, dropout)

    def forward(self, contexts: Tensor, inputs: Tensor, attention: Tensor) -> Tensor:
        """Scores (words, longest) of the spans of 1, 2, … words from each word on.

        Args:
            contexts: Of words behind one another, (words, context size).
            inputs: Their vectors, (words, head size).
            attention: What each word weighs in each span, (words, longest, longest).
        """
        longest = attention.shape[1]
        heads = attention @ following(self.head(inputs), longest)
        ends = following(self.end(contexts), longest)
        widths = self.of_width(self.width.weight)
        return self.scorer(self.start(contexts).unsqueeze(1) + ends + heads + widths)


class PairScorer(nn.Module):
    """How much a span seems to refer back to an earlier one: both, their product, the distance.

    Args:
        span_size: Of a span.
        size: Of the hidden layers.
        feature_size: Of the vector for a distance.
        dropout: Of the hidden layers.
    """

    def __init__(self, span_size: int, *, size: int, feature_size: int, dropout: float) -> None:
        super().__init__()
        self.later = nn.Linear(span_size, size)
        self.earlier = nn.Linear(span_size, size, bias=False)
        self.product = nn.Linear(span_size, size, bias=False)
        self.distance = nn.Embedding(len(DISTANCES) + 1, feature_size)
        self.of_distance = nn.Linear(feature_size, size, bias=False)
        self.scorer = Scorer(size, dropout)

    def forward(self, spans: Tensor, later: Tensor, earlier: Tensor) -> Tensor:
        """Scores (later, earlier) of pairs.

        Args:
            spans: Of a document, in their order, (spans, span size).
            later: Numbers of spans, (later,).
            earlier: For each of those, numbers of spans before it, (later, earlier).
        """
        mine = functional.embedding(later, spans)
        theirs = functional.embedding(earlier, spans)
        sums = self.later(mine).unsqueeze(1) + self.product(mine.unsqueeze(1) * theirs)
        sums = sums + functional.embedding(earlier, self.earlier(spans))
        distances = distance_buckets(later.unsqueeze(1) - earlier)
        sums = sums + functional.embedding(distances, self.of_distance(self.distance.weight))
        return self.scorer(sums)


def following(vectors: Tensor, count: int) -> Tensor:
    """Each vector and those after it, (words, count, size); zero where there are no more words.

    >>> following(torch.tensor([[1.0], [2.0]]), 2).squeeze(-1).tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """
    padded = functional.pad(vectors, (0, 0, 0, count - 1))
    return torch.stack([padded[place : place + len(vectors)] for place in range(count)], dim=1)


def distance_buckets(distances: Tensor) -> Tensor:
    """The bucket of each distance in spans: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more.

    >>> distance_buckets(torch.tensor([1, 2, 7, 8, 64, 500])).tolist()
    [0, 1, 4, 5, 8, 8]
    """
    return torch.bucketize(distances, torch.tensor(DISTANCES, device=distances.device), right=True)
