"""The best legal BIO tags of each sentence.

Tags stand in the order O, B-x, I-x, B-y, I-y, …, that of `scheme_tags`. I-x may follow B-x and I-x
alone, and every other tag any: so the best way to a tag is known from the best tag before, and from
the two tags of its own role. That takes as many steps as there are tags, where Viterbi over all
pairs of tags takes their square.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
