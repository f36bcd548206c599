from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from closeness import assert_close
from tasks.small_words import (
    LENGTHS,
    SIZES,
    assert_dropout_is_for_training_only,
    assert_every_parameter_learns,
    fit,
    no_default_device,
    random_words,
)
from torch import Tensor
from torch.nn import functional

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.labelling import Tagger

TAGS = 3
OUTSIDE, BEGIN, INSIDE, START, END = range(TAGS + 2)


def bio() -> Tensor:
    """INSIDE neither starts a sentence nor follows OUTSIDE."""
    allowed = torch.ones(TAGS + 2, TAGS + 2, dtype=torch.bool)
    allowed[START, INSIDE] = allowed[OUTSIDE, INSIDE] = False
    return allowed


def small_tagger(
    crf: bool = True, allowed: Tensor | None = None, sizes: Sizes = SIZES, dropout: float = 0.0
) -> Tagger:
    torch.manual_seed(0)
    config = NetworkConfig(hidden=4, layers=2, dropout=dropout, crf=crf)
    return Tagger(sizes, TAGS, config, allowed)


def legal_tags(mask: Tensor) -> Tensor:
    """B I I O B I I O …, and on padding what is no tag."""
    cycle = torch.tensor([BEGIN, INSIDE, INSIDE, OUTSIDE])
    return cycle[torch.arange(mask.shape[1]) % 4].expand_as(mask).masked_fill(~mask, -100)


both_heads = pytest.mark.parametrize("crf", [True, False], ids=["crf", "softmax"])


@both_heads
@pytest.mark.parametrize("sizes", [SIZES, Sizes(5, 0)], ids=["with output", "input only"])
def test_a_sentence_depends_on_itself_alone(crf: bool, sizes: Sizes) -> None:
    tagger = small_tagger(crf, sizes=sizes)
    words = random_words(sizes=sizes, padding=3)
    emissions = tagger(words)
    probabilities = tagger.probabilities(emissions, words.mask)
    paths = tagger.decode(emissions, words.mask)
    for row, length in enumerate(LENGTHS):
        alone = random_words((length,), sizes)
        alone_emissions = tagger(alone)
        assert_close(emissions[row, :length], alone_emissions[0])
        assert_close(
            probabilities[row, :length], tagger.probabilities(alone_emissions, alone.mask)[0]
        )
        assert [paths[row]] == tagger.decode(alone_emissions, alone.mask)


@both_heads
def test_padding_does_not_count_in_the_loss(crf: bool) -> None:
    tagger = small_tagger(crf)
    narrow, wide = random_words(), random_words(padding=3)
    losses = [
        tagger.loss(tagger(words), legal_tags(words.mask), words.mask) for words in (narrow, wide)
    ]
    assert_close(*losses)


def test_loss_of_a_crf_is_the_mean_per_sentence() -> None:
    tagger, words = small_tagger(), random_words((2, 5))
    emissions, tags = tagger(words), legal_tags(words.mask)
    assert tagger.crf is not None
    each = tagger.crf.log_likelihood(emissions, tags, words.mask)
    assert_close(tagger.loss(emissions, tags, words.mask), -(each[0] + each[1]) / 2)


def test_loss_of_a_softmax_is_the_mean_per_word() -> None:
    tagger, words = small_tagger(crf=False), random_words((2, 5))
    emissions, tags = tagger(words), legal_tags(words.mask)
    expected = functional.cross_entropy(emissions.flatten(0, 1), tags.flatten())
    assert_close(tagger.loss(emissions, tags, words.mask), expected)


def test_softmax_without_constraints_decodes_the_best_tag_of_each_word() -> None:
    tagger, words = small_tagger(crf=False), random_words()
    emissions = tagger(words)
    expected = [
        row[:length].argmax(-1).tolist() for row, length in zip(emissions, LENGTHS, strict=True)
    ]
    assert tagger.decode(emissions, words.mask) == expected


@both_heads
@pytest.mark.parametrize("seed", range(5))
def test_forbidden_transitions_are_never_decoded(crf: bool, seed: int) -> None:
    tagger, mask = small_tagger(crf, bio()), random_words().mask
    generator = torch.Generator().manual_seed(seed)
    emissions = 100 * torch.randn(*mask.shape, TAGS, generator=generator)
    emissions[..., INSIDE] += 100
    for path, length in zip(tagger.decode(emissions, mask), LENGTHS, strict=True):
        assert len(path) == length
        assert path[:1] != [INSIDE]
        assert (OUTSIDE, INSIDE) not in pairwise(path)


def test_vectors_at_the_output_stand_beside_the_last_layer() -> None:
    tagger, words = small_tagger(), random_words((3, 5))
    contexts = tagger.context(words.at_input, words.mask)
    assert words.at_output is not None
    expected = tagger.emission(torch.cat([contexts, words.at_output], -1))
    assert_close(tagger(words), expected)


def test_dropout_is_for_training_only() -> None:
    assert_dropout_is_for_training_only(small_tagger(dropout=0.5), random_words())


@both_heads
def test_every_parameter_learns(crf: bool) -> None:
    tagger, words = small_tagger(crf), random_words()
    loss = tagger.loss(tagger(words), legal_tags(words.mask), words.mask)
    assert_every_parameter_learns(tagger, loss)


@both_heads
def test_a_tiny_set_is_learnt_by_heart(crf: bool) -> None:
    tagger, words = small_tagger(crf, bio(), dropout=0.1), random_words((3, 5, 1, 2, 8))
    tags = legal_tags(words.mask)
    fit(tagger, lambda: tagger.loss(tagger(words), tags, words.mask), 40, rate=0.03)
    expected = [row[real].tolist() for row, real in zip(tags, words.mask, strict=True)]
    assert tagger.eval().decode(tagger(words), words.mask) == expected


@both_heads
def test_new_tensors_are_made_where_the_vectors_are(
    crf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger, words = small_tagger(crf, bio(), dropout=0.5), random_words()
    tags = legal_tags(words.mask)
    with no_default_device(monkeypatch):
        emissions = tagger(words)
        tagger.loss(emissions, tags, words.mask).backward()
        tagger.decode(emissions, words.mask)
        tagger.probabilities(emissions, words.mask)
