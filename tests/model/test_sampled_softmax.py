import math
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
import torch
from closeness import EXACT, assert_agree, assert_close
from numpy.typing import NDArray
from torch import Tensor

from elmokit.model.softmax import (
    Candidates,
    Softmax,
    draw_candidates,
    log_expected_counts,
    sampled_loss,
)

STANDARD_ERRORS = 4.5
"""How far a mean of random numbers may stray; with these seeds it does not."""


def probability(rank: int, words: int) -> float:
    """Of a rank in one try."""
    return (math.log(rank + 2) - math.log(rank + 1)) / math.log(words + 1)


# Drawing


class Exact(NamedTuple):
    """What drawing different words amounts to, over every order they can be found in."""

    inclusion: NDArray[np.float64]  # (words,) probability of being among the candidates
    tries: float  # expected


def exact_draw(candidates: int, words: int) -> Exact:
    inclusion, tries = np.zeros(words), 0.0
    for order in permutations(range(words), candidates):
        found, expected_tries, chance = 0.0, 0.0, 1.0
        for rank in order:
            # A try finds something new with probability 1 - found.
            chance *= probability(rank, words) / (1 - found)
            expected_tries += 1 / (1 - found)
            found += probability(rank, words)
        inclusion[list(order)] += chance
        tries += chance * expected_tries
    return Exact(inclusion, tries)


def draws(number: int, candidates: int, words: int) -> list[Candidates]:
    generator = np.random.default_rng(7)
    return [draw_candidates(generator, candidates, words) for _ in range(number)]


def assert_mean(samples: NDArray[np.float64], expected: NDArray[np.float64] | float) -> None:
    """Of (draws, …), within what chance allows."""
    error = samples.std(0) / math.sqrt(len(samples))
    assert np.all(np.abs(samples.mean(0) - expected) <= STANDARD_ERRORS * error)


@pytest.mark.parametrize(("candidates", "words"), [(1, 1), (1, 40), (7, 40), (40, 40), (300, 9000)])
def test_candidates_are_different_words_of_the_vocabulary(candidates, words):
    for ids, tries in draws(20, candidates, words):
        assert ids.dtype == np.int64
        assert len(set(ids.tolist())) == len(ids) == candidates
        assert ids.min() >= 0
        assert ids.max() < words
        assert tries >= candidates


@pytest.mark.parametrize("candidates", [2, 4, 5])
def test_words_are_drawn_and_tries_counted_as_drawing_by_hand_would(candidates):
    words = 7
    expected = exact_draw(candidates, words)
    assert expected.inclusion.sum() == pytest.approx(candidates)
    found = draws(4000, candidates, words)
    among = np.array([[rank in ids for rank in range(words)] for ids, _ in found], float)
    assert_mean(among, expected.inclusion)
    assert_mean(np.array([tries for _, tries in found], float), expected.tries)


def test_drawing_depends_on_the_generator_alone():
    one, other = (draw_candidates(np.random.default_rng(3), 20, 500) for _ in range(2))
    assert one.ids.tolist() == other.ids.tolist()
    assert one.tries == other.tries
    another = draw_candidates(np.random.default_rng(4), 20, 500)
    assert another.ids.tolist() != one.ids.tolist()


# Expected counts


def test_expected_counts_are_those_of_the_formula():
    words, tries = 50, 23
    found = log_expected_counts(torch.arange(words), tries, words)
    expected = [math.log(1 - (1 - probability(rank, words)) ** tries) for rank in range(words)]
    assert_close(found, torch.tensor(expected, dtype=torch.float64), EXACT)


def test_expected_counts_of_the_rarest_words_of_a_large_vocabulary_keep_their_digits():
    words = 800_000
    (found,) = log_expected_counts(torch.tensor([words - 1]), 9000, words).tolist()
    # Far below 1, a count is its number of tries times its probability.
    expected = math.log(9000 * math.log1p(1 / words) / math.log(words + 1))
    assert found == pytest.approx(expected, abs=1e-3)


# The loss


WORDS, SIZE = 30, 4


def random_softmax() -> Softmax:
    torch.manual_seed(0)
    softmax = Softmax(WORDS, SIZE).double()
    torch.nn.init.normal_(softmax.bias)
    return softmax


def tokens(number: int) -> tuple[Tensor, Tensor]:
    """Outputs (tokens, size), and targets that are mostly frequent words."""
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(number, SIZE, dtype=torch.float64, generator=generator)
    uniform = torch.rand(number, generator=generator)
    return outputs.requires_grad_(), (WORDS * uniform**3).long()


def slow_loss(softmax: Softmax, outputs: Tensor, targets: Tensor, candidates: Candidates) -> Tensor:
    """One token and one candidate at a time, for autograd."""

    def corrected(output: Tensor, word: int) -> Tensor:
        logit = softmax.weight[word] @ output + softmax.bias[word]
        count = 1 - (1 - probability(word, WORDS)) ** candidates.tries
        return logit - math.log(count)

    total = torch.zeros((), dtype=torch.float64)
    for output, target in zip(outputs, targets.tolist(), strict=True):
        score = corrected(output, target).exp()
        others = [
            corrected(output, word).exp() for word in candidates.ids.tolist() if word != target
        ]
        total = total - torch.log(score / (score + sum(others)))
    return total


def assert_same_loss(found: Tensor, expected: Tensor, softmax: Softmax, outputs: Tensor) -> None:
    assert_close(found, expected, EXACT)
    leaves = [outputs, softmax.weight, softmax.bias]
    assert_agree(*(torch.autograd.grad(loss, leaves) for loss in (found, expected)), EXACT)


@pytest.mark.parametrize("number", [1, 5, WORDS])
def test_loss_and_gradients_are_those_of_a_slow_loop(number):
    softmax, (outputs, targets) = random_softmax(), tokens(25)
    candidates = draw_candidates(np.random.default_rng(2), number, WORDS)
    hits = np.isin(targets.numpy(), candidates.ids)
    assert hits.any()
    found = sampled_loss(softmax, outputs, targets, candidates)
    assert found.shape == ()
    assert_same_loss(found, slow_loss(softmax, outputs, targets, candidates), softmax, outputs)


def test_all_words_after_endless_tries_are_the_full_softmax():
    # Every word is then expected once, so that nothing is corrected.
    softmax, (outputs, targets) = random_softmax(), tokens(25)
    everything = Candidates(ids=np.arange(WORDS)[::-1].copy(), tries=10**9)
    found = sampled_loss(softmax, outputs, targets, everything)
    assert_same_loss(found, softmax.loss(outputs, targets), softmax, outputs)
