from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from closeness import EXACT, assert_close
from tasks.small_words import no_default_device
from torch import Tensor

from elmokit.tasks.networks.crf import BioChain, LinearChainCRF, chain_of, viterbi

TAGS = 3
LENGTHS = (3, 1, 2, 4, 2)
START, END = TAGS, TAGS + 1


def any_allowed() -> Tensor:
    return torch.ones(TAGS + 2, TAGS + 2, dtype=torch.bool)


def some_allowed() -> Tensor:
    """Tag 1 neither starts nor follows 0; tag 2 does not end, nor follow itself."""
    allowed = any_allowed()
    allowed[START, 1] = allowed[0, 1] = allowed[2, END] = allowed[2, 2] = False
    return allowed


def random_crf(allowed: Tensor | None = None, seed: int = 0) -> LinearChainCRF:
    crf = LinearChainCRF(TAGS, any_allowed() if allowed is None else allowed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        crf.transitions.normal_(generator=generator)
    return crf


def random_emissions(scale: float = 1.0, padding: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    width = max(LENGTHS) + padding
    mask = torch.arange(width) < torch.tensor(LENGTHS)[:, None]
    emissions = torch.randn(len(LENGTHS), width, TAGS, generator=generator, dtype=torch.float64)
    return emissions * scale, mask


def paths_by_score(crf: LinearChainCRF, emissions: Tensor) -> Iterator[tuple[list[int], float]]:
    """Every allowed sequence for the words (words, tags) of a sentence, and what it scores."""
    transitions = crf.transitions.tolist()
    for path in product(range(TAGS), repeat=len(emissions)):
        steps = list(zip([START, *path], [*path, END], strict=True))
        if all(crf.allowed[before, after] for before, after in steps):
            score = sum(transitions[before][after] for before, after in steps)
            score += sum(float(emissions[word, tag]) for word, tag in enumerate(path))
            yield list(path), score


def brute_force(crf: LinearChainCRF, emissions: Tensor) -> tuple[list[list[int]], Tensor]:
    """The paths of one sentence, and their probabilities."""
    paths, scores = zip(*paths_by_score(crf, emissions), strict=True)
    return list(paths), torch.tensor(scores, dtype=torch.float64).softmax(0)


constraints = pytest.mark.parametrize("allowed", [None, some_allowed()], ids=["any", "some"])


@constraints
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_log_likelihood_of_every_path_is_that_of_brute_force(
    allowed: Tensor | None, scale: float
) -> None:
    crf = random_crf(allowed)
    emissions, mask = random_emissions(scale)
    for row, length in enumerate(LENGTHS):
        paths, probabilities = brute_force(crf, emissions[row, :length])
        tags = torch.full((len(paths), mask.shape[1]), -100)
        tags[:, :length] = torch.tensor(paths)
        copies = torch.full((len(paths),), row)
        found = crf.log_likelihood(emissions[copies], tags, mask[copies])
        expected = probabilities.log()
        kept = expected > -600
        assert_close(found[kept], expected[kept], EXACT)
        assert found.isfinite().all()


@constraints
@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_the_best_path_of_brute_force(allowed: Tensor | None, seed: int) -> None:
    crf = random_crf(allowed, seed)
    emissions, mask = random_emissions(seed)
    decoded = crf.decode(emissions, mask)
    for row, length in enumerate(LENGTHS):
        paths, probabilities = brute_force(crf, emissions[row, :length])
        assert decoded[row] == paths[int(probabilities.argmax())]


@constraints
def test_marginals_are_those_of_brute_force(allowed: Tensor | None) -> None:
    crf = random_crf(allowed)
    emissions, mask = random_emissions()
    marginals = crf.marginals(emissions, mask)
    expected = torch.zeros_like(emissions)
    for row, length in enumerate(LENGTHS):
        for path, probability in zip(*brute_force(crf, emissions[row, :length]), strict=True):
            for word, tag in enumerate(path):
                expected[row, word, tag] += probability
    assert_close(marginals, expected, EXACT)
    assert not marginals[~mask].any()


@constraints
def test_gradients_are_those_of_finite_differences(allowed: Tensor | None) -> None:
    crf = random_crf(allowed)
    emissions, mask = random_emissions()
    tags = torch.tensor(
        [[0, 2, 1, 0, 0], [0, 9, 9, 9, 9], [0, 0, 9, 9, 9], [2, 1, 1, 0, 9], [0, 0, 9, 9, 9]]
    )

    def run(emissions: Tensor, _: Tensor) -> Tensor:
        return crf.log_likelihood(emissions, tags, mask)

    assert torch.autograd.gradcheck(run, (emissions.requires_grad_(), crf.transitions))


def test_transitions_that_are_not_allowed_have_no_gradient() -> None:
    crf = random_crf(some_allowed())
    emissions, mask = random_emissions()
    crf.log_likelihood(emissions, torch.zeros(mask.shape, dtype=torch.long), mask).sum().backward()
    assert crf.transitions.grad is not None
    assert not crf.transitions.grad[~some_allowed()].any()
    assert crf.transitions.grad[0, 2]


def test_large_scores_stay_numbers_in_single_precision() -> None:
    crf = random_crf(some_allowed()).float()
    emissions, mask = random_emissions(1e5)
    emissions = emissions.float().requires_grad_()
    found = crf.log_likelihood(emissions, torch.zeros(mask.shape, dtype=torch.long), mask)
    found.sum().backward()
    assert found.isfinite().all()
    assert emissions.grad is not None
    assert emissions.grad.isfinite().all()
    assert_close(crf.marginals(emissions, mask).sum(-1), mask.float())


def test_batch_mates_and_padding_change_nothing() -> None:
    crf = random_crf(some_allowed())
    emissions, mask = random_emissions(padding=3)
    tags = torch.zeros(mask.shape, dtype=torch.long)
    together = crf.log_likelihood(emissions, tags, mask)
    marginals, paths = crf.marginals(emissions, mask), crf.decode(emissions, mask)
    for row, length in enumerate(LENGTHS):
        alone = emissions[row : row + 1, :length], mask[row : row + 1, :length]
        likelihood = crf.log_likelihood(alone[0], tags[row : row + 1, :length], alone[1])
        assert_close(likelihood, together[row : row + 1], EXACT)
        assert_close(crf.marginals(*alone)[0], marginals[row, :length])
        assert crf.decode(*alone) == [paths[row]]


def test_what_is_allowed_is_no_weight() -> None:
    assert list(random_crf(some_allowed()).state_dict()) == ["transitions"]


def test_new_tensors_are_made_where_the_emissions_are(monkeypatch: pytest.MonkeyPatch) -> None:
    crf = random_crf(some_allowed())
    emissions, mask = random_emissions()
    tags = torch.zeros(mask.shape, dtype=torch.long)
    with no_default_device(monkeypatch):
        crf.log_likelihood(emissions, tags, mask).sum().backward()
        crf.decode(emissions, mask)
        crf.marginals(emissions, mask)


def test_bio_tags_are_those_of_the_chain_over_all_pairs_of_tags() -> None:
    roles = 9
    tags = 1 + 2 * roles
    allowed = torch.ones(tags + 2, tags + 2, dtype=torch.bool)
    for inside in range(2, tags, 2):  # it follows only itself and its begin, which is before it
        allowed[:, inside] = False
        allowed[inside - 1 : inside + 1, inside] = True
    torch.manual_seed(0)
    scores = torch.randn(20, 12, tags, dtype=torch.float64)
    mask = torch.arange(12) < torch.randint(1, 13, (20,))[:, None]
    scores[~mask] = torch.nan  # whatever stands on padding does not count
    expected = viterbi(scores, mask, chain_of(scores.new_zeros(allowed.shape), allowed))
    assert viterbi(scores, mask, BioChain.like(scores)) == expected


def test_an_inside_is_not_chosen_where_nothing_began() -> None:
    scores = torch.tensor([[[0.0, 1.0, 9.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 9.0]]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert viterbi(scores, mask, BioChain.like(scores)) == [[3, 4]]
