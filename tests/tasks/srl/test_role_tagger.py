from __future__ import annotations

import pytest
import torch
from closeness import EXACT, assert_close
from tasks.small_words import SIZES, assert_every_parameter_learns, fit, random_words, read_all
from torch import Tensor

from elmokit.tasks.config import NetworkConfig
from elmokit.tasks.inputs import BatchVectors, Sizes, join_output
from elmokit.tasks.srl.network import Predicates, RoleTagger, finder_loss, role_loss

TAGS = 5
LENGTHS = (4, 2, 1, 6)
# The first and the last sentence are asked about twice, the third not at all.
ASKED = Predicates(torch.tensor([0, 0, 1, 3, 3]), torch.tensor([1, 3, 0, 5, 0]))


def small_tagger(sizes: Sizes = SIZES, dropout: float = 0.0) -> RoleTagger:
    torch.manual_seed(0)
    return RoleTagger(sizes, TAGS, NetworkConfig(hidden=4, layers=2, dropout=dropout))


def without_sharing(tagger: RoleTagger, words: BatchVectors, asked: Predicates) -> Tensor:
    """Every predicate by itself: [words; indicator] through the LSTM, then the dense layer."""
    rows = asked.sentences
    marks = torch.arange(words.mask.shape[1]) == asked.positions[:, None]
    inputs = torch.cat([words.at_input[rows], tagger.indicator(marks.long())], dim=-1)
    at_output = None if words.at_output is None else words.at_output[rows]
    mask = words.mask[rows]
    contexts = join_output(
        read_all(tagger.context, inputs, mask), BatchVectors(inputs, at_output, mask)
    )
    return tagger.emission(contexts).masked_fill(~mask.unsqueeze(-1), 0)


@pytest.mark.parametrize("sizes", [SIZES, Sizes(5, 0)])
def test_sharing_a_sentence_gives_what_each_predicate_by_itself_gives(sizes: Sizes) -> None:
    tagger, words = small_tagger(sizes), random_words(LENGTHS, sizes)
    emissions = tagger(words, ASKED)
    assert emissions.shape == (5, 6, TAGS)
    assert_close(emissions, without_sharing(tagger, words, ASKED))


def test_sharing_a_sentence_gives_the_same_gradients() -> None:
    tagger, words = small_tagger().double(), random_words(LENGTHS)
    assert words.at_output is not None
    words = BatchVectors(words.at_input.double(), words.at_output.double(), words.mask)
    of_roles = [*tagger.indicator.parameters(), *tagger.context.parameters()]
    of_roles += tagger.emission.parameters()
    shared, apart = (
        torch.autograd.grad(emissions.sin().sum(), of_roles)
        for emissions in (tagger(words, ASKED), without_sharing(tagger, words, ASKED))
    )
    for one, other in zip(shared, apart, strict=True):
        assert_close(one, other, EXACT)


def test_batch_mates_and_padding_do_not_matter() -> None:
    tagger, words = small_tagger(), random_words(LENGTHS, padding=2)
    emissions = tagger(words, ASKED)
    alone = random_words((6,))
    found = tagger(alone, Predicates(torch.tensor([0]), torch.tensor([5])))
    assert_close(emissions[3, :6], found[0])
    assert_close(tagger.find(words)[3, :6], tagger.find(alone)[0])


def test_no_predicate_gives_no_emissions() -> None:
    nothing = Predicates(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert small_tagger()(random_words(LENGTHS), nothing).shape == (0, 6, TAGS)


def test_padding_is_never_found() -> None:
    words = random_words(LENGTHS, padding=1)
    odds = small_tagger().find(words)
    assert odds[words.mask].isfinite().all()
    assert odds[~words.mask].eq(-torch.inf).all()


def losses(tagger: RoleTagger, words: BatchVectors) -> Tensor:
    mask = words.mask[ASKED.sentences]
    torch.manual_seed(5)
    tags = torch.randint(TAGS, mask.shape)
    right = torch.rand(words.mask.shape) < 0.5
    return role_loss(tagger(words, ASKED), tags, mask) + finder_loss(
        tagger.find(words), right, words.mask
    )


def test_every_parameter_learns() -> None:
    tagger = small_tagger(dropout=0.1)
    assert_every_parameter_learns(tagger, losses(tagger, random_words(LENGTHS)))


def test_a_batch_is_learnt_by_heart() -> None:
    tagger, words = small_tagger(), random_words(LENGTHS)
    assert fit(tagger, lambda: losses(tagger, words), steps=60, rate=0.05) < 0.2


def test_what_stands_on_padding_does_not_count_in_a_loss() -> None:
    mask = torch.tensor([[True, True], [True, False]])
    emissions = torch.randn(2, 2, TAGS)
    one, other = torch.tensor([[1, 2], [3, 0]]), torch.tensor([[1, 2], [3, 4]])
    assert role_loss(emissions, one, mask) == role_loss(emissions, other, mask)
    odds = torch.randn(2, 2).masked_fill(~mask, -torch.inf)
    assert finder_loss(odds, mask, mask).isfinite()
