from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from elmokit.tasks.networks.crf import best_bio_tags, chain_of, viterbi
from elmokit.tasks.tags import allowed_transitions, scheme_tags

NAMES = scheme_tags(["A", "B"], "BIO")  # O, B-A, I-A, B-B, I-B


def is_legal(names: tuple[str, ...]) -> bool:
    """Written apart from the package: an inside continues with its own role."""
    return all(
        not after.startswith("I-") or (before != "O" and before[2:] == after[2:])
        for before, after in pairwise(("O", *names))
    )


def by_brute_force(scores: Tensor) -> list[int]:
    """Of all legal sequences for (words, tags) the one with the largest sum."""
    sequences = [
        numbers
        for numbers in product(range(len(NAMES)), repeat=len(scores))
        if is_legal(tuple(NAMES[number] for number in numbers))
    ]

    def total(numbers: tuple[int, ...]) -> float:
        return sum(float(scores[word, number]) for word, number in enumerate(numbers))

    best: tuple[int, ...] = max(sequences, key=total)
    return list(best)


@pytest.mark.parametrize("seed", range(8))
def test_equals_brute_force(seed: int) -> None:
    torch.manual_seed(seed)
    scores = 3 * torch.randn(5, 4, len(NAMES), dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor([4, 1, 3, 2, 4])[:, None]
    found = best_bio_tags(scores, mask)
    for row, length in enumerate([4, 1, 3, 2, 4]):
        assert found[row] == by_brute_force(scores[row, :length])


def test_equals_viterbi_over_all_pairs_of_tags() -> None:
    torch.manual_seed(0)
    names = scheme_tags([f"R{n}" for n in range(9)], "BIO")
    scores = torch.randn(20, 12, len(names), dtype=torch.float64)
    mask = torch.arange(12) < torch.randint(1, 13, (20,))[:, None]
    allowed = torch.from_numpy(allowed_transitions(names))
    chain = chain_of(scores.new_zeros(allowed.shape), allowed)
    assert best_bio_tags(scores, mask) == viterbi(scores, mask, chain)


def test_an_inside_is_not_chosen_where_nothing_began() -> None:
    scores = torch.tensor([[[0.0, 1.0, 9.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 9.0]]])
    [tags] = best_bio_tags(scores, torch.ones(1, 2, dtype=torch.bool))
    assert [NAMES[number] for number in tags] == ["B-B", "I-B"]


def test_what_stands_on_padding_does_not_count() -> None:
    torch.manual_seed(0)
    scores = torch.randn(1, 3, len(NAMES))
    alone = best_bio_tags(scores, torch.ones(1, 3, dtype=torch.bool))
    padded = torch.cat([scores, torch.full((1, 2, len(NAMES)), torch.nan)], dim=1)
    mask = torch.arange(5) < torch.tensor([[3]])
    assert best_bio_tags(padded, mask) == alone


@pytest.mark.parametrize("words", [0, 2])
def test_sentences_without_words_have_no_tags(words: int) -> None:
    scores = torch.zeros(2, words, len(NAMES))
    assert best_bio_tags(scores, torch.zeros(2, words, dtype=torch.bool)) == [[], []]
