"""End-to-end coreference by span ranking (Lee et al. 2017), with coarse antecedents (2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.tasks.coref.config import CorefConfig
from elmokit.tasks.coref.documents import Span
from elmokit.tasks.coref.scorers import MentionScorer, PairScorer, following
from elmokit.tasks.coref.spans import span_mask
from elmokit.tasks.recurrent import BidirectionalLSTM, VariationalDropout
from elmokit.tasks.word_vectors import Sizes, WordVectors, join_output

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

    Args:
        sizes: Of the word vectors.
        settings: Of spans and antecedents.
        hidden: Cells of each direction of the LSTM layers.
        layers: Of the LSTM.
        dropout: Variational of the LSTM's outputs and between its layers; plain in the scorers.
    """

    def __init__(
        self, sizes: Sizes, settings: CorefConfig, *, hidden: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.settings = settings
        self.context = BidirectionalLSTM(
            sizes.at_input, hidden=hidden, layers=layers, dropout=dropout
        )
        self.dropout = VariationalDropout(dropout)
        context_size = self.context.output_size + sizes.at_output
        self.attention = nn.Linear(context_size, 1)
        self.mentions = MentionScorer(
            context_size,
            sizes.at_input,
            longest=settings.longest_span,
            size=settings.scorer_size,
            feature_size=settings.feature_size,
            dropout=dropout,
        )
        joined = 2 * context_size + sizes.at_input + settings.feature_size
        size = settings.span_size or joined
        self.project = None if settings.span_size is None else nn.Linear(joined, size)
        self.coarse = nn.Linear(size, size, bias=False)
        self.pairs = PairScorer(
            size, size=settings.scorer_size, feature_size=settings.feature_size, dropout=dropout
        )

    def read(self, words: WordVectors) -> ReadWords:
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

    A span whose cluster has no mention before it, or that has no cluster, rightly has none.

    Args:
        antecedents: Of some spans of a document.
        clusters: The number of every span's cluster, (spans,); -1 for none.
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
