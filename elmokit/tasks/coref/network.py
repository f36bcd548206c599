"""End-to-end coreference by span ranking (Lee et al. 2017), with coarse antecedents (2018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.tasks.config import CorefConfig, NetworkConfig
from elmokit.tasks.coref.documents import Span
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout

DISTANCES = (2, 3, 4, 5, 8, 16, 32, 64)  # where the buckets of distances begin, after that of 1


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
    """How much each span looks like a mention: contexts of both ends, attended head, width."""

    def __init__(
        self, context_size: int, head_size: int, config: CorefConfig, dropout: float
    ) -> None:
        super().__init__()
        size = config.scorer_size
        self.start = nn.Linear(context_size, size)
        self.end = nn.Linear(context_size, size, bias=False)
        self.head = nn.Linear(head_size, size, bias=False)
        self.width = nn.Embedding(config.longest_span, config.feature_size)
        self.of_width = nn.Linear(config.feature_size, size, bias=False)
        self.scorer = Scorer(size, dropout)

    def forward(self, contexts: Tensor, inputs: Tensor, attention: Tensor) -> Tensor:
        """Scores (words, longest) of the spans of 1, 2, … words from each word on.

        `attention` is what each word weighs in each span, (words, longest, longest).
        """
        longest = attention.shape[1]
        heads = attention @ following(self.head(inputs), longest)
        ends = following(self.end(contexts), longest)
        widths = self.of_width(self.width.weight)
        return self.scorer(self.start(contexts).unsqueeze(1) + ends + heads + widths)


class PairScorer(nn.Module):
    """How much a span seems to refer back to an earlier one: both, their product, the distance."""

    def __init__(self, span_size: int, config: CorefConfig, dropout: float) -> None:
        super().__init__()
        size = config.scorer_size
        self.later = nn.Linear(span_size, size)
        self.earlier = nn.Linear(span_size, size, bias=False)
        self.product = nn.Linear(span_size, size, bias=False)
        self.distance = nn.Embedding(len(DISTANCES) + 1, config.feature_size)
        self.of_distance = nn.Linear(config.feature_size, size, bias=False)
        self.scorer = Scorer(size, dropout)

    def forward(self, spans: Tensor, later: Tensor, earlier: Tensor) -> Tensor:
        """Scores (later, earlier) of pairs of spans, given by numbers as in `Antecedents`."""
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


def span_mask(lengths: Sequence[int], longest: int) -> Tensor:
    """Which spans are within one sentence, (words, longest): of 1, 2, … words from each word on.

    >>> span_mask([2, 1], longest=2).tolist()
    [[True, True], [True, False], [True, False]]
    """
    left = [length - place for length in lengths for place in range(length)]
    return torch.arange(1, longest + 1) <= torch.tensor(left, dtype=torch.long).unsqueeze(1)


def prune(spans: Iterable[Span], most: int) -> list[Span]:
    """The first `most` spans that do not cross one taken before, in the order of the document.

    Two spans cross where they overlap and neither is within the other. The best come first; no more
    of them are asked for than are needed.

    >>> prune([Span(0, 2), Span(1, 3), Span(0, 1)], most=2)
    [Span(start=0, end=1), Span(start=0, end=2)]
    """
    taken: list[Span] = []
    # Of those that were taken, by start and end: to look at the words within a span is enough.
    last_end: dict[int, int] = {}
    first_start: dict[int, int] = {}
    for span in spans:
        start, end = span
        if not any(
            last_end.get(place, 0) > end or first_start.get(place, start) < start
            for place in range(start + 1, end)
        ):
            taken.append(span)
            last_end[start] = max(end, last_end.get(start, end))
            first_start[end] = min(start, first_start.get(end, start))
        if len(taken) >= most:
            break
    return sorted(taken)


ROWS_AT_ONCE = 256
"""Spans whose antecedents are looked for at once: what they take in memory is bounded by it."""


class ReadWords(NamedTuple):
    """What is known of the words of some sentences, behind one another, and of their spans."""

    contexts: Tensor  # (words, context size): the outputs of the LSTM
    inputs: Tensor  # (words, input size): what it read
    attention: Tensor  # (words,): how much each would weigh as the head of a span
    scores: Tensor  # (words, longest): of spans of 1, 2, … words; -inf beyond the sentence


class KeptSpans(NamedTuple):
    """The spans of a document that are looked at closely, in their order."""

    vectors: Tensor  # (spans, span size)
    scores: Tensor  # (spans,): how much each looks like a mention


class Antecedents(NamedTuple):
    """What some spans may refer back to."""

    later: Tensor  # (later,): the numbers of these spans
    earlier: Tensor  # (later, earlier): numbers of spans before each; any where the score is -inf
    scores: Tensor  # (later, 1 + earlier): 0 for nothing, then of each earlier span


class CorefNetwork(nn.Module):
    """LSTM layers over sentences; spans of their words; which of them are mentions of the same.

    ELMo at the output is joined to the outputs of the last LSTM layer.

    `config.hidden` is the cells of each direction of the LSTM layers. Dropout is variational of the
    LSTM's outputs and between its layers, and in the scorers.
    """

    def __init__(self, sizes: Sizes, config: NetworkConfig, settings: CorefConfig) -> None:
        super().__init__()
        self.settings = settings
        self.context = BidirectionalLSTM(
            sizes.at_input, hidden=config.hidden, layers=config.layers, dropout=config.dropout
        )
        self.dropout = VariationalDropout(config.dropout)
        context_size = self.context.output_size + sizes.at_output
        self.attention = nn.Linear(context_size, 1)
        self.mentions = MentionScorer(context_size, sizes.at_input, settings, config.dropout)
        joined = 2 * context_size + sizes.at_input + settings.feature_size
        size = settings.span_size or joined
        self.project = None if settings.span_size is None else nn.Linear(joined, size)
        self.coarse = nn.Linear(size, size, bias=False)
        self.pairs = PairScorer(size, settings, config.dropout)

    def read(self, words: BatchVectors) -> ReadWords:
        """Read a batch of sentences; their words come out behind one another, without padding."""
        outputs = self.dropout(self.context(words.at_input, words.mask))
        places = words.mask.flatten().nonzero().squeeze(-1)
        contexts = join_output(outputs, words).flatten(0, 1).index_select(0, places)
        inputs = words.at_input.flatten(0, 1).index_select(0, places)
        attention = self.attention(contexts).squeeze(-1)
        spans = span_mask(words.mask.sum(1).tolist(), self.settings.longest_span)
        scores = self.mentions(contexts, inputs, self.head_weights(attention))
        outside = ~spans.to(scores.device)
        return ReadWords(contexts, inputs, attention, scores.masked_fill(outside, -torch.inf))

    def head_weights(self, attention: Tensor) -> Tensor:
        """What the 1st, 2nd, … word weighs in each span, (words, longest, longest)."""
        longest = self.settings.longest_span
        scores = following(attention.unsqueeze(-1), longest).transpose(1, 2)
        beyond = torch.ones(longest, longest, dtype=torch.bool, device=attention.device).triu(1)
        return scores.masked_fill(beyond, -torch.inf).softmax(-1)

    def keep(self, words: ReadWords, spans: Sequence[Span]) -> KeptSpans:
        """The spans of a document that are kept."""
        device = words.contexts.device
        starts = torch.tensor([span.start for span in spans], dtype=torch.long, device=device)
        ends = torch.tensor([span.end for span in spans], dtype=torch.long, device=device)
        widths = ends - starts - 1
        joined = torch.cat(
            [
                functional.embedding(starts, words.contexts),
                functional.embedding(ends - 1, words.contexts),
                self.heads(words, starts, widths),
                self.mentions.width(widths),
            ],
            dim=-1,
        )
        vectors = joined if self.project is None else self.project(joined)
        return KeptSpans(vectors, words.scores[starts, widths])

    def heads(self, words: ReadWords, starts: Tensor, widths: Tensor) -> Tensor:
        """The attended head of each span, (spans, input size)."""
        steps = torch.arange(self.settings.longest_span, device=starts.device)
        # What is beyond the span weighs nothing, whichever word stands for it.
        places = (starts.unsqueeze(1) + steps).clamp(max=len(words.inputs) - 1)
        scores = functional.embedding(places, words.attention.unsqueeze(1)).squeeze(-1)
        beyond = steps > widths.unsqueeze(1)
        weights = scores.masked_fill(beyond, -torch.inf).softmax(-1)
        return (weights.unsqueeze(1) @ functional.embedding(places, words.inputs)).squeeze(1)

    def antecedents(self, spans: KeptSpans) -> Iterator[Antecedents]:
        """What all spans of a document may refer back to, some spans at a time."""
        coarse = self.coarse(spans.vectors)
        for first in range(0, len(spans.scores), ROWS_AT_ONCE):
            end = min(first + ROWS_AT_ONCE, len(spans.scores))
            yield self._antecedents(spans, coarse, first, end)

    def _antecedents(self, spans: KeptSpans, coarse: Tensor, first: int, end: int) -> Antecedents:
        """Those of the spans from `first` to before `end`."""
        window = self.settings.antecedent_window
        begin = max(0, first - window)
        later = torch.arange(first, end, device=coarse.device)
        distances = later.unsqueeze(1) - torch.arange(begin, end, device=coarse.device)
        scores = coarse[first:end] @ spans.vectors[begin:end].t()
        scores = scores + spans.scores[first:end].unsqueeze(1) + spans.scores[begin:end]
        scores = scores.masked_fill((distances < 1) | (distances > window), -torch.inf)
        best = scores.topk(min(self.settings.antecedents, end - begin), dim=1)
        # Where there are fewer, any span stands for one that is not there.
        earlier = torch.minimum(best.indices + begin, (later - 1).clamp(min=0).unsqueeze(1))
        fine = best.values + self.pairs(spans.vectors, later, earlier)
        return Antecedents(later, earlier, torch.cat([fine.new_zeros(len(later), 1), fine], dim=1))


def antecedent_loss(antecedents: Antecedents, clusters: Tensor) -> Tensor:
    """-log p of all antecedents that are right, summed over spans; a scalar.

    A span whose cluster has no mention before it, or that has no cluster (-1), rightly has none.
    """
    mine = clusters[antecedents.later].unsqueeze(1)
    there = antecedents.scores[:, 1:] > -torch.inf
    right = (clusters[antecedents.earlier] == mine) & (mine >= 0) & there
    right = torch.cat([~right.any(1, keepdim=True), right], dim=1)
    scores = antecedents.scores
    of_right = scores.masked_fill(~right, -torch.inf).logsumexp(1)
    return (scores.logsumexp(1) - of_right).sum()


def best_antecedents(antecedents: Antecedents) -> list[int | None]:
    """The number of the span that each refers back to; None where nothing scores above 0."""
    best = antecedents.scores.argmax(1)
    padded = torch.cat(
        [torch.full_like(antecedents.later, -1).unsqueeze(1), antecedents.earlier], 1
    )
    numbers = padded.gather(1, best.unsqueeze(1)).squeeze(1).tolist()
    return [None if number < 0 else number for number in numbers]
