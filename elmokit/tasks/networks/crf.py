"""Conditional random field (CRF), a linear chain: the probability of complete sequences of tags.

The sum over all sequences is one step of autograd. Its gradient is what the field expects of each
tag and transition, and comes from reading the sentences once more, from their ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Chain(NamedTuple):
    """What it scores that one tag follows another; -inf where it may not."""

    transitions: Tensor  # (tags, tags), from and to
    start: Tensor  # (tags,)
    end: Tensor  # (tags,)

    def reversed(self) -> Chain:
        """The same, for sentences that are read from their ends."""
        return Chain(self.transitions.t(), self.end, self.start)

    def step(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """The best scores (sentences, tags) with the next tag, and the tag that each follows."""
        values, before = (best.unsqueeze(2) + self.transitions).max(dim=1)
        return values, before


class BioChain(NamedTuple):
    """What `Chain` is, for the tags O, B-x, I-x, B-y, I-y, … where I-x follows x and the rest any.

    A step costs as much as there are tags, not as there are pairs of them.
    """

    start: Tensor  # (tags,)
    end: Tensor  # (tags,)

    @classmethod
    def like(cls, scores: Tensor) -> BioChain:
        """For scores (…, tags)."""
        start = scores.new_zeros(scores.shape[-1])
        start[2::2] = -torch.inf
        return cls(start, torch.zeros_like(start))

    def step(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """The best scores (sentences, tags) with the next tag, and the tag that each follows."""
        values, before = (each.repeat(1, best.shape[1]) for each in best.max(1, keepdim=True))
        begun, inside = best[:, 1::2], best[:, 2::2]
        values[:, 2::2] = torch.maximum(begun, inside)
        begins = torch.arange(1, best.shape[1], 2, device=best.device)
        before[:, 2::2] = begins + (inside > begun)
        return values, before


class LinearChainCRF(nn.Module):
    """Scores of transitions, learnt, beside emissions that a network gives for each word.

    A sequence scores its emissions and its transitions, those from the start and to the end
    included. Transitions that are not allowed have no part in training and are never decoded.
    `allowed` is (tags + 2, tags + 2) bool, from and to; the last two are start and end.
    """

    allowed: Tensor

    def __init__(self, tags: int, allowed: Tensor) -> None:
        super().__init__()
        self.tags = tags
        self.transitions = nn.Parameter(torch.zeros(tags + 2, tags + 2))
        # Whoever builds the field knows what is allowed: it is not a weight to be saved.
        self.register_buffer("allowed", allowed, persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The log p (sentences,) of tags (sentences, words), given emissions."""
        emissions = in_small_numbers(emissions)
        log_partition: Tensor = LogPartition.apply(emissions, *self.chain(), mask)  # type: ignore[no-untyped-call]
        return self.score(emissions, tags, mask) - log_partition

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """What the sequences (sentences, words) score: (sentences,)."""
        start, end = self.tags, self.tags + 1
        path = functional.pad(tags.masked_fill(~mask, end), (1, 0), value=start)
        path = functional.pad(path, (0, 1), value=end)
        before, after = path[:, :-1], path[:, 1:]
        counted = functional.pad(mask, (1, 0), value=True)  # as many as words and one, to the end
        transitions = self.transitions.flatten().index_select(
            0, (before * len(self.transitions) + after).flatten()
        )
        emitted = emissions.gather(2, tags.masked_fill(~mask, 0).unsqueeze(2)).squeeze(2)
        transitions = transitions.view_as(counted).masked_fill(~counted, 0)
        return transitions.sum(1) + emitted.masked_fill(~mask, 0).sum(1)

    def chain(self) -> Chain:
        """The transitions, apart, and -inf where they are not allowed."""
        return chain_of(self.transitions, self.allowed)

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The most probable tags of each sentence, of emissions (sentences, words, tags)."""
        return viterbi(emissions, mask, self.chain())

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The p of each tag at each word (sentences, words, tags), 0 on padding; no gradients."""
        emissions = in_small_numbers(emissions)
        chain = self.chain()
        prefixes = sum_prefixes(emissions, chain)
        suffixes = sum_suffixes(emissions, mask, chain)
        return tag_probabilities(prefixes, suffixes, emissions, mask)


class LogPartition(torch.autograd.Function):
    """log of the sum over all sequences of tags, and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, mask: Tensor
    ) -> Tensor:
        """Sum over the sequences of (sentences, words, tags): (sentences,)."""
        chain = Chain(transitions, start, end)
        prefixes = sum_prefixes(emissions, chain)
        ctx.save_for_backward(emissions, *chain, mask, prefixes)
        return torch.logsumexp(at_last_word(prefixes, mask) + chain.end, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_log_partition: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        """The expected number of each tag and transition."""
        emissions, transitions, start, end, mask, prefixes = ctx.saved_tensors
        suffixes = sum_suffixes(emissions, mask, Chain(transitions, start, end))
        expected = tag_probabilities(prefixes, suffixes, emissions, mask)
        d_emissions = expected * d_log_partition[:, None, None]
        expected = transition_probabilities(prefixes, suffixes, transitions, mask).sum(1)
        d_transitions = (d_log_partition @ expected).view_as(transitions)
        d_start, d_end = d_emissions[:, 0].sum(0), at_last_word(d_emissions, mask).sum(0)
        return d_emissions, d_transitions, d_start, d_end, None


def chain_of(transitions: Tensor, allowed: Tensor) -> Chain:
    """Take (tags + 2, tags + 2) apart; what is not allowed becomes -inf."""
    transitions = transitions.masked_fill(~allowed, -torch.inf)
    return Chain(transitions[:-2, :-2], transitions[-2, :-2], transitions[:-2, -1])


def in_small_numbers(emissions: Tensor) -> Tensor:
    """The same question: what is added to all tags of a word changes no probability.

    But sums of large numbers lose digits.
    """
    return emissions - emissions.detach().amax(-1, keepdim=True)


def sum_prefixes(emissions: Tensor, chain: Chain) -> Tensor:
    """Sum over all sequences to each word and tag, as a log: (sentences, words, tags)."""
    first, *others = emissions.unbind(1)
    sums = [chain.start + first]
    for emission in others:
        before = sums[-1].unsqueeze(2) + chain.transitions
        sums.append(torch.logsumexp(before, dim=1).add_(emission))
    return torch.stack(sums, dim=1)


def sum_suffixes(emissions: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """The same from each word and tag to the end: (sentences, words, tags)."""
    backwards = sum_prefixes(reverse_words(emissions, mask), chain.reversed())
    return reverse_words(backwards, mask)


def at_last_word(values: Tensor, mask: Tensor) -> Tensor:
    """What (sentences, words, tags) has at each sentence's last word: (sentences, tags)."""
    last = mask.sum(1) - 1
    return values.gather(1, last[:, None, None].expand(-1, 1, values.shape[2])).squeeze(1)


def reverse_words(values: Tensor, mask: Tensor) -> Tensor:
    """Turn the words of (sentences, words, tags) round; padding stays where it is."""
    places = torch.arange(mask.shape[1], device=mask.device)
    turned = torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)
    return values.gather(1, turned.unsqueeze(2).expand_as(values))


def tag_probabilities(
    prefixes: Tensor, suffixes: Tensor, emissions: Tensor, mask: Tensor
) -> Tensor:
    """The p of each tag at each word (sentences, words, tags), 0 on padding."""
    # A softmax, and not exp(… - log_partition): long sums lose digits, their differences fewer.
    together = prefixes + suffixes - emissions
    return together.softmax(-1).masked_fill(~mask.unsqueeze(2), 0)


def transition_probabilities(
    prefixes: Tensor, suffixes: Tensor, transitions: Tensor, mask: Tensor
) -> Tensor:
    """The p of each transition between neighbours (sentences, words - 1, tags * tags)."""
    together = prefixes[:, :-1, :, None] + transitions + suffixes[:, 1:, None, :]
    return together.flatten(2).softmax(-1).masked_fill(~mask[:, 1:, None], 0)


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, chain: Chain | BioChain) -> list[list[int]]:
    """The tags of each sentence that score most, of emissions (sentences, words, tags)."""
    first, *others = in_small_numbers(emissions).unbind(1)
    best = chain.start + first
    bests, pointers = [best], []
    for emission in others:
        best, pointer = chain.step(best)
        best += emission
        bests.append(best)
        pointers.append(pointer)
    tag = (at_last_word(torch.stack(bests, dim=1), mask) + chain.end).argmax(dim=1)
    path = [tag]
    for pointer, has_next in reversed([*zip(pointers, mask.unbind(1)[1:], strict=True)]):
        before = pointer.gather(1, tag.unsqueeze(1)).squeeze(1)
        tag = torch.where(has_next, before, tag)
        path.append(tag)
    tags = torch.stack(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(tags, mask.sum(1).tolist(), strict=True)]
