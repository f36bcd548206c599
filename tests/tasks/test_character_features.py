"""Features of a word's spelling."""

from __future__ import annotations

import torch
from closeness import CLEARLY, assert_close, distance

from elmokit.tasks.inputs import CharacterFeatures


def features() -> CharacterFeatures:
    torch.manual_seed(0)
    return CharacterFeatures(filters=8)


def test_a_word_has_as_many_features_as_there_are_filters() -> None:
    assert features()(["bank", "강"]).shape == (2, 8)
    assert features()([]).shape == (0, 8)
    assert CharacterFeatures().size == 128


def test_features_do_not_depend_on_longer_words_beside() -> None:
    module = features()
    alone = module(["a", "bank"])
    beside = module(["a", "incomprehensibilities", "bank", "x" * 80])
    assert_close(beside[[0, 2]], alone)


def test_features_are_the_largest_response_over_windows_of_three_characters() -> None:
    module = features()
    encoder = module.encoder
    (convolution,) = encoder.convolutions
    bytes_of_word = [259, *(byte + 1 for byte in b"at"), 260, *[261] * 46]
    characters = encoder.characters(torch.tensor([bytes_of_word]))
    expected = convolution(characters.transpose(1, 2)).amax(2).relu()
    assert_close(module(["at"]), expected)


def test_case_and_order_of_letters_matter() -> None:
    lower, upper, reversed_ = features()(["bank", "BANK", "knab"])
    assert distance([lower], [upper]) > CLEARLY
    assert distance([lower], [reversed_]) > CLEARLY


def test_everything_learns() -> None:
    module = features()
    module(["bank", "river", "Money"]).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
