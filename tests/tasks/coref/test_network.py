from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import pytest
import torch
from closeness import CLEARLY, assert_close
from tasks.small_words import random_words
from torch import Tensor
from torch.nn import functional

from elmokit.tasks.config import CorefConfig, NetworkConfig
from elmokit.tasks.coref import network as module
from elmokit.tasks.coref.documents import Span
from elmokit.tasks.coref.network import (
    Antecedents,
    CorefNetwork,
    KeptSpans,
    ReadWords,
    antecedent_loss,
    best_antecedents,
)
from elmokit.tasks.inputs import BatchVectors, Sizes

SIZES = Sizes(at_input=6, at_output=0)
LENGTHS = (5, 2, 3)


def new_network(sizes: Sizes = SIZES, **settings: Any) -> CorefNetwork:
    torch.manual_seed(0)
    config = CorefConfig(**{"longest_span": 3, "scorer_size": 7, "feature_size": 4} | settings)
    return CorefNetwork(sizes, NetworkConfig(hidden=5), config).eval()


def batch(*lengths: int, seed: int = 0) -> BatchVectors:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    vectors = torch.randn(*mask.shape, SIZES.at_input, generator=generator)
    return BatchVectors(vectors * mask.unsqueeze(-1), None, mask)


def read(network: CorefNetwork) -> ReadWords:
    return network.read(batch(*LENGTHS))


def head_of(words: ReadWords, span: Span) -> Tensor:
    weights = words.attention[span.start : span.end].softmax(0)
    return weights @ words.inputs[span.start : span.end]


def score_of(network: CorefNetwork, words: ReadWords, span: Span) -> float:
    """A feed-forward network over the joined parts of a span, as the paper has it."""
    mentions = network.mentions
    width = mentions.width.weight[span.end - span.start - 1]
    joined = torch.cat(
        [words.contexts[span.start], words.contexts[span.end - 1], head_of(words, span), width]
    )
    weight = torch.cat(
        [
            mentions.start.weight,
            mentions.end.weight,
            mentions.head.weight,
            mentions.of_width.weight,
        ],
        dim=1,
    )
    hidden = functional.relu(functional.linear(joined, weight, mentions.start.bias))
    hidden = functional.relu(mentions.scorer.second(hidden))
    return mentions.scorer.score(hidden).item()


def pair_score_of(network: CorefNetwork, spans: Tensor, later: int, earlier: int) -> float:
    pairs = network.pairs
    buckets = [1, 2, 3, 4, 5, 8, 16, 32, 64]
    bucket = max(n for n, start in enumerate(buckets) if start <= later - earlier)
    one, other = spans[later], spans[earlier]
    joined = torch.cat([one, other, one * other, pairs.distance.weight[bucket]])
    weight = torch.cat(
        [pairs.later.weight, pairs.earlier.weight, pairs.product.weight, pairs.of_distance.weight],
        dim=1,
    )
    hidden = functional.relu(functional.linear(joined, weight, pairs.later.bias))
    hidden = functional.relu(pairs.scorer.second(hidden))
    return pairs.scorer.score(hidden).item()


def kept_spans(network: CorefNetwork, count: int) -> KeptSpans:
    generator = torch.Generator().manual_seed(3)
    size = network.coarse.in_features
    return KeptSpans(
        torch.randn(count, size, generator=generator), torch.randn(count, generator=generator)
    )


def all_scores(network: CorefNetwork, spans: KeptSpans, later: int, earlier: int) -> float:
    """The score of a pair: both mentions, coarse, fine."""
    coarse = spans.vectors[later] @ network.coarse.weight.t() @ spans.vectors[earlier]
    mentions = spans.scores[later] + spans.scores[earlier]
    return (coarse + mentions).item() + pair_score_of(network, spans.vectors, later, earlier)


@torch.no_grad()
def test_every_span_scores_what_the_network_over_its_joined_parts_gives() -> None:
    network = new_network()
    words = read(network)
    starts = [0, 5, 7, 10]
    for low, high in pairwise(starts):
        for start in range(low, high):
            for width in range(3):
                found = words.scores[start, width].item()
                if start + width < high:
                    span = Span(start, start + width + 1)
                    assert_close(found, score_of(network, words, span))
                else:
                    assert found == -torch.inf


@torch.no_grad()
def test_a_sentence_is_read_as_if_it_were_alone() -> None:
    network = new_network()
    together, vectors = read(network), batch(*LENGTHS)
    alone = network.read(
        BatchVectors(vectors.at_input[1:2, :2], None, torch.ones(1, 2, dtype=torch.bool))
    )
    for one, other in zip(alone, together, strict=True):
        assert_close(one, other[5:7])


@torch.no_grad()
def test_elmo_at_the_output_is_known_of_each_word_and_its_spans_whatever_the_padding() -> None:
    sizes = Sizes(at_input=6, at_output=4)
    network = new_network(sizes)
    vectors = random_words(LENGTHS, sizes, padding=2)
    assert vectors.at_output is not None

    words = network.read(vectors)

    assert torch.equal(words.contexts[:, -4:], vectors.at_output[vectors.mask])
    for one, other in zip(words, network.read(random_words(LENGTHS, sizes)), strict=True):
        assert_close(one, other)
    without = network.read(vectors._replace(at_output=torch.zeros_like(vectors.at_output)))
    there = words.scores > -torch.inf
    changed = (words.scores - without.scores)[there].abs().min()
    assert changed > CLEARLY * words.scores[there].abs().max()


@torch.no_grad()
@pytest.mark.parametrize("span_size", [None, 4])
def test_kept_spans_are_their_ends_their_head_and_their_width(span_size: int | None) -> None:
    network = new_network(span_size=span_size)
    words = read(network)
    spans = [Span(0, 1), Span(2, 5), Span(8, 10)]
    kept = network.keep(words, spans)
    for number, span in enumerate(spans):
        width = network.mentions.width.weight[span.end - span.start - 1]
        ends = words.contexts[span.start], words.contexts[span.end - 1]
        joined = torch.cat([*ends, head_of(words, span), width])
        expected = joined if network.project is None else network.project(joined)
        assert_close(kept.vectors[number], expected)
        assert kept.scores[number] == words.scores[span.start, span.end - span.start - 1]


@torch.no_grad()
def test_every_pair_scores_both_mentions_the_coarse_and_the_fine_score() -> None:
    network = new_network()
    spans = kept_spans(network, 9)
    [found] = network.antecedents(spans)
    for later, earlier, scores in zip(*found, strict=True):
        assert scores[0] == 0
        there = [
            (number, score)
            for number, score in zip(earlier.tolist(), scores[1:].tolist(), strict=True)
            if score > -torch.inf
        ]
        assert sorted(number for number, _ in there) == list(range(int(later)))
        for number, score in there:
            assert_close(score, all_scores(network, spans, int(later), number))


@torch.no_grad()
def test_the_coarse_score_chooses_which_antecedents_are_looked_at() -> None:
    network = new_network(antecedents=2)
    spans = kept_spans(network, 9)
    [found] = network.antecedents(spans)
    coarse = spans.vectors @ network.coarse.weight.t() @ spans.vectors.t() + spans.scores
    for later in range(2, 9):
        best = coarse[later, :later].topk(2).indices
        assert set(found.earlier[later].tolist()) == set(best.tolist())


@torch.no_grad()
def test_antecedents_beyond_the_window_are_none() -> None:
    network = new_network(antecedent_window=2)
    [found] = network.antecedents(kept_spans(network, 6))
    for later, earlier, scores in zip(*found, strict=True):
        there = earlier[scores[1:] > -torch.inf]
        assert set(there.tolist()) == {n for n in (int(later) - 2, int(later) - 1) if n >= 0}


@torch.no_grad()
@pytest.mark.parametrize("window", [4, 1000])
def test_some_spans_at_a_time_are_all_at_once(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network = new_network(antecedent_window=window, antecedents=3)
    spans = kept_spans(network, 11)
    [whole] = network.antecedents(spans)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    parts = list(network.antecedents(spans))
    assert len(parts) == 4
    best = chain.from_iterable(map(best_antecedents, parts))
    assert list(best) == best_antecedents(whole)
    highest = torch.cat([part.scores.max(1).values for part in parts])
    assert_close(highest, whole.scores.max(1).values)


def some_antecedents() -> Antecedents:
    """Of four spans; the scores of the last one's are known."""
    none = -torch.inf
    return Antecedents(
        torch.arange(4),
        torch.tensor([[0, 0, 0], [0, 0, 0], [1, 0, 1], [2, 0, 1]]),
        torch.tensor([
            [0.0, none, none, none], [0.0, 1.0, none, none], [0.0, -1.0, -2.0, none],
            [0.0, 0.5, 2.0, 1.0],
        ]),
    )  # fmt: skip


def test_the_loss_is_of_all_right_antecedents_together() -> None:
    """Spans 0, 1 and 3 are of one cluster, 2 of none."""
    antecedents = some_antecedents()
    p = antecedents.scores.softmax(1)
    # Span 0 has nothing before it; 1 refers to 0; 2 to nothing; 3 to 0 or 1.
    likelihoods = [p[0, 0], p[1, 1], p[2, 0], p[3, 2] + p[3, 3]]
    found = antecedent_loss(antecedents, torch.tensor([7, 7, -1, 7]))
    assert_close(found, -torch.stack(likelihoods).log().sum())


def test_two_spans_of_no_cluster_are_not_of_the_same() -> None:
    nothing = antecedent_loss(some_antecedents(), torch.tensor([-1, -1, -1, -1]))
    p = some_antecedents().scores.softmax(1)
    assert_close(nothing, -p[:, 0].log().sum())


def test_a_span_refers_back_to_what_scores_best_and_above_nothing() -> None:
    assert best_antecedents(some_antecedents()) == [None, 0, None, 0]


def test_everything_learns_and_no_gradient_is_lost_to_what_is_not_there() -> None:
    network = new_network(span_size=4, antecedents=2).train()
    words = read(network)
    kept = network.keep(words, [Span(0, 1), Span(2, 4), Span(5, 6), Span(8, 10)])
    numbers = torch.tensor([0, -1, 0, 0])
    loss = sum(antecedent_loss(some, numbers) for some in network.antecedents(kept))
    assert isinstance(loss, Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name
