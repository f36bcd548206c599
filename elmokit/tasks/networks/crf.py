"""A linear-chain conditional random field: whole sequences of tags, each by its own probability.

The sum over all sequences is one step of autograd. Its gradient is what the field expects of each
tag and transition, and comes from reading the sentences once more, from their ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.config import check_size
from elmokit.errors import ConfigError, InputError


class Chain(NamedTuple):
    """What it scores that one tag follows another; -inf where it may not."""

    transitions: Tensor  # (tags, tags), from and to
    start: Tensor  # (tags,)
    end: Tensor  # (tags,)

    def reversed(self) -> Chain:
        """The same, for sentences that are read from their ends."""
        return Chain(self.transitions.t(), self.end, self.start)


class LinearChainCRF(nn.Module):
    """Scores of transitions, learnt, beside emissions that a network gives for each word.

    A sequence scores its emissions and its transitions, those from the start and to the end
    included. Transitions that are not allowed have no part in training and are never decoded.

    Args:
        tags: How many.
        allowed: (tags + 2, tags + 2) bool, from and to; the last two are start and end. None for
            all of them.
    """

    allowed: Tensor

    def __init__(self, tags: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.tags = tags
        if allowed is None:
            allowed = torch.ones(tags + 2, tags + 2, dtype=torch.bool)
        check_allowed(allowed, tags)
        self.transitions = nn.Parameter(torch.zeros(tags + 2, tags + 2))
        # Whoever builds the field knows what is allowed: it is no weight to be saved.
        self.register_buffer("allowed", allowed, persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The log p of tags (sentences, words), given emissions (sentences, words, tags).

        One for each sentence, (sentences,); 0 for one without words, of which nothing is unsure.
        """
        emissions, mask = prepare(emissions, mask)
        if not tags.shape[1]:
            tags = functional.pad(tags, (0, 1))
        log_partition: Tensor = LogPartition.apply(emissions, *self.chain(), mask)  # type: ignore[no-untyped-call]
        return self.score(emissions, tags, mask) - log_partition

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """What the sequences (sentences, words) score: (sentences,)."""
        start, end = self.tags, self.tags + 1
        path = functional.pad(tags.masked_fill(~mask, end), (1, 0), value=start)
        path = functional.pad(path, (0, 1), value=end)
        before, after = path[:, :-1], path[:, 1:]
        # As many as words and one, to the end; none where there are no words.
        counted = torch.cat([mask[:, :1], mask], dim=1)
        self.check_path(before, after, counted)
        transitions = self.transitions.flatten().index_select(
            0, (before * len(self.transitions) + after).flatten()
        )
        emitted = emissions.gather(2, tags.masked_fill(~mask, 0).unsqueeze(2)).squeeze(2)
        transitions = transitions.view_as(counted).masked_fill(~counted, 0)
        return transitions.sum(1) + emitted.masked_fill(~mask, 0).sum(1)

    def check_path(self, before: Tensor, after: Tensor, counted: Tensor) -> None:
        """Refuse to learn what is not allowed: its probability is zero, and the loss no number."""
        wrong = (counted & ~self.allowed[before, after]).nonzero()
        if len(wrong):
            sentence, word = wrong[0].tolist()
            names = {self.tags: "the start", self.tags + 1: "the end"}
            first, second = (int(tags[sentence, word]) for tags in (before, after))
            raise InputError(
                f"sentence {sentence + 1} of the batch, word {word + 1}: "
                f"{names.get(second, f'tag {second}')} may not follow "
                f"{names.get(first, f'tag {first}')}; convert the tags to the scheme whose "
                "transitions were given, or train without constraints"
            )

    def chain(self) -> Chain:
        """The transitions, apart, and -inf where they are not allowed."""
        return chain_of(self.transitions, self.allowed)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The most probable tags of each sentence, of emissions (sentences, words, tags)."""
        return viterbi(emissions, mask, self.chain())

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The p of each tag at each word (sentences, words, tags), whatever the others are.

        It is 0 on padding, and without gradients.
        """
        words = emissions.shape[1]
        emissions, mask = prepare(emissions, mask)
        chain = self.chain()
        prefixes = sum_prefixes(emissions, chain)
        check_possible(sum_whole(prefixes, mask, chain), mask)
        suffixes = sum_suffixes(emissions, mask, chain)
        return tag_probabilities(prefixes, suffixes, emissions, mask)[:, :words]


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
        return sum_whole(prefixes, mask, chain)

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


def check_allowed(allowed: Tensor, tags: int) -> None:
    """Refuse transitions of another shape or kind."""
    check_size("tags", tags)
    expected = (tags + 2, tags + 2)
    if tuple(allowed.shape) != expected or allowed.dtype != torch.bool:
        raise ConfigError(
            f"allowed transitions are {allowed.dtype} of shape {tuple(allowed.shape)}; give bool "
            f"of shape {expected}: {tags} tags, start and end"
        )


def chain_of(transitions: Tensor, allowed: Tensor) -> Chain:
    """Take (tags + 2, tags + 2) apart; what is not allowed becomes -inf."""
    transitions = transitions.masked_fill(~allowed, -torch.inf)
    return Chain(transitions[:-2, :-2], transitions[-2, :-2], transitions[:-2, -1])


def prepare(emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same question in small numbers, with a first word even if that is padding."""
    if not emissions.shape[1]:
        emissions, mask = functional.pad(emissions, (0, 0, 0, 1)), functional.pad(mask, (0, 1))
    # What is added to all tags of a word changes no probability, but sums of it lose digits.
    return emissions - emissions.detach().amax(-1, keepdim=True), mask


def sum_prefixes(emissions: Tensor, chain: Chain) -> Tensor:
    """Sum over all sequences from the start to each word and tag, that one included, as a log.

    From (sentences, words, tags) to the same.
    """
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


def sum_whole(prefixes: Tensor, mask: Tensor, chain: Chain) -> Tensor:
    """The same over whole sequences (sentences,); 0 for a sentence without words: it has one."""
    whole = torch.logsumexp(at_last_word(prefixes, mask) + chain.end, dim=-1)
    return whole.masked_fill(~mask[:, 0], 0)


def at_last_word(values: Tensor, mask: Tensor) -> Tensor:
    """What (sentences, words, tags) has at each sentence's last word, or else its first padding."""
    last = (mask.sum(1) - 1).clamp(min=0)
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
def viterbi(emissions: Tensor, mask: Tensor, chain: Chain) -> list[list[int]]:
    """The tags of each sentence that score most, of emissions (sentences, words, tags)."""
    emissions, mask = prepare(emissions, mask)
    first, *others = emissions.unbind(1)
    best = chain.start + first
    bests, pointers = [best], []
    for emission in others:
        best, pointer = (best.unsqueeze(2) + chain.transitions).max(dim=1)
        best += emission
        bests.append(best)
        pointers.append(pointer)
    score, tag = (at_last_word(torch.stack(bests, dim=1), mask) + chain.end).max(dim=1)
    check_possible(score, mask)
    path = [tag]
    for pointer, has_next in reversed([*zip(pointers, mask.unbind(1)[1:], strict=True)]):
        before = pointer.gather(1, tag.unsqueeze(1)).squeeze(1)
        tag = torch.where(has_next, before, tag)
        path.append(tag)
    tags = torch.stack(path[::-1], dim=1).tolist()
    return [row[:length] for row, length in zip(tags, mask.sum(1).tolist(), strict=True)]


def check_possible(scores: Tensor, mask: Tensor) -> None:
    """Refuse a sentence that the allowed transitions leave no tags for."""
    impossible = (scores.eq(-torch.inf) & mask[:, 0]).nonzero()
    if len(impossible):
        sentence = int(impossible[0])
        raise InputError(
            f"sentence {sentence + 1} of the batch: no allowed sequence of tags has "
            f"{int(mask[sentence].sum())} words; allow more transitions, or use no constraints"
        )


BEGINS, INSIDES = slice(1, None, 2), slice(2, None, 2)


@torch.no_grad()
def best_bio_tags(scores: Tensor, mask: Tensor) -> list[list[int]]:
    """The legal tags whose scores, (sentences, words, tags), have the largest sum.

    Args:
        scores: Of each tag at each word; whatever stands on padding does not count.
        mask: (sentences, words) bool, False on padding.
    """
    lengths = mask.sum(1).tolist()
    if not any(lengths):
        return [[] for _ in lengths]
    first, *others = scores.unbind(1)
    best = first.clone()
    best[:, INSIDES] = -torch.inf
    steps = [best.max(1)]
    stayed: list[Tensor] = []
    for word_scores in others:
        best, inside = next_word(best, steps[-1].values, word_scores)
        steps.append(best.max(1))
        stayed.append(inside)
    return walk_back([step.indices for step in steps], stayed, lengths)


def next_word(best: Tensor, highest: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The best sums (sentences, tags) one word on, and where I-x follows I-x, not B-x.

    Args:
        best: Those up to the word before.
        highest: The largest of them for each sentence, (sentences,).
        scores: Of the tags of this word, (sentences, tags).
    """
    begun, inside = best[:, BEGINS], best[:, INSIDES]
    after = scores + highest.unsqueeze(1)
    after[:, INSIDES] = scores[:, INSIDES] + torch.maximum(begun, inside)
    return after, inside > begun


def walk_back(best_tags: list[Tensor], stayed: list[Tensor], lengths: list[int]) -> list[list[int]]:
    """The tags on the best way to the end of each sentence.

    Args:
        best_tags: The best last tag of each sentence at each word, (sentences,) each.
        stayed: Whether I-x follows I-x at each word but the first, (sentences, roles) each.
        lengths: Words of each sentence.
    """
    best = torch.stack(best_tags, dim=1).tolist()
    follows = torch.stack(stayed, dim=1).tolist() if stayed else []
    found = []
    for row, length in enumerate(lengths):
        tags: list[int] = []
        for word in reversed(range(length)):
            after = tags[-1] if tags else 0
            if not after or after % 2:
                tags.append(best[row][word])
            else:
                tags.append(after if follows[row][word][after // 2 - 1] else after - 1)
        found.append(tags[::-1])
    return found
