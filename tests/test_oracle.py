"""The package agrees with the NumPy oracle on random models, in every state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from closeness import CLEARLY, assert_agree, distance
from helpers import write
from oracle import (
    Oracle,
    character_ids,
    character_vector,
    oracle_carry,
    oracle_layers,
    oracle_layers_with_markers,
    oracle_warm,
)
from random_models import Options, Weights, random_options, random_weights, write_files

from elmokit.inference.embedder import Embedder
from elmokit.text.characters import batch_to_ids

# Some of the words here are meant to be warned of.
pytestmark = pytest.mark.filterwarnings("ignore::elmokit.errors.ElmoWarning")

LONG_SENTENCE = [f"word{number % 37}" for number in range(200)]
SENTENCES = {
    "plain": ["The", "cat", "sat", "on", "the", "mat", "."],
    "Korean": ["나는", "어제", "학교에", "갔다", "."],
    "emoji": ["👩‍👩‍👧‍👦", "🇰🇷", "ok👍🏽", "☃"],
    "around 48 bytes": ["a" * 46, "b" * 47, "c" * 48, "d" * 49],
    "60 bytes": ["x" * 60, "가" * 20, "a" + "나" * 19 + "bc"],
    "lone surrogates": ["\ud800", "a\udfffb", "\ud83d\ude00", "\ud800" * 9 + "abcd" * 11],
    "empty word": ["", "a", ""],
    "sentence markers as words": ["<S>", "a", "</S>", "<UNK>", "<s>"],
    "control characters": ["\x00", "\n", "\u2028", "\ufeff", "a b"],
    "no words": [],
    "one word": ["one"],
    "200 words": LONG_SENTENCE,
}
MIXED = [*SENTENCES.values(), ["one"], [], ["The", "cat"]]
FEW = [SENTENCES["plain"], SENTENCES["Korean"], [], ["x" * 60, "one"]]

CHARACTER_MODELS: dict[str, dict[str, Any]] = {
    "relu": {},
    "tanh": {"activation": "tanh"},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "four layers": {"layers": 4},
    "one layer without skip": {"layers": 1, "skip": False},
    "two layers without skip": {"skip": False},
    "four layers without skip": {"layers": 4, "skip": False},
    "tanh, three layers without skip": {"activation": "tanh", "layers": 3, "skip": False},
    "no highway": {"highways": 0},
    "one highway": {"highways": 1},
    "four highways": {"highways": 4},
    "filters as many as outputs": {"projection": 20},
    "cells as many as outputs": {"cell": 8},
    "neither projection": {"cell": 20, "projection": 20, "highways": 0},
    "fewer cells than outputs": {"cell": 6, "projection": 8},
    "clips off": {"cell_clip": None, "proj_clip": None},
    "clips of zero": {"cell_clip": 0, "proj_clip": 0.0},
    "261 characters": {"n_characters": 261},
    "one narrow filter": {"filters": ((1, 5),)},
    "wide filters": {"filters": ((2, 4), (7, 8), (5, 3))},
    "12 characters": {"max_characters": 12},
    "a filter as wide as a word": {"max_characters": 12, "filters": ((1, 4), (12, 6))},
    "3 characters": {"max_characters": 3},
    "70 characters": {"max_characters": 70},
}


class Made(NamedTuple):
    """A random model: for the oracle, and as the package loads its files."""

    options: Options
    weights: Weights
    embedder: Embedder


def made(
    folder: Path,
    seed: int = 0,
    vocabulary: list[str] | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    **shape: Any,
) -> Made:
    options = random_options(word_input=vocabulary is not None, **shape)
    weights = random_weights(options, seed, words=vocabulary and len(vocabulary))
    return Made(options, weights, load(folder, options, weights, vocabulary, **settings))


def load(
    folder: Path, options: Options, weights: Weights, words: list[str] | None, **settings: Any
) -> Embedder:
    if words is not None:
        settings["vocabulary"] = write(folder / "vocabulary.txt", words)
    return Embedder.load(*write_files(folder, options, weights), **settings)


def assert_layers(model: Made, sentences: list[list[str]]) -> None:
    expected = oracle_layers(model.options, model.weights, sentences)
    assert_agree(model.embedder.embed_layers(sentences), expected)


@pytest.mark.parametrize("shape", CHARACTER_MODELS.values(), ids=CHARACTER_MODELS)
def test_layers_agree_with_the_oracle_for_every_shape_of_model(
    shape: dict[str, Any], tmp_path: Path
) -> None:
    assert_layers(made(tmp_path, len(str(shape)), **shape), FEW)


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_layers_agree_with_the_oracle_for_every_kind_of_sentence(
    sentence: list[str], tmp_path: Path
) -> None:
    assert_layers(made(tmp_path), [sentence])


@pytest.mark.parametrize("skip", [True, False])
def test_layers_agree_with_the_oracle_in_a_batch_of_mixed_lengths(
    skip: bool, tmp_path: Path
) -> None:
    assert_layers(made(tmp_path, 3, skip=skip), MIXED)


def test_windows_of_nothing_but_padding_count_for_a_word_of_any_length(tmp_path: Path) -> None:
    options = random_options(max_characters=12, filters=((1, 6), (5, 12)))
    weights = random_weights(options, seed=20)
    weights["char_embed"][-1] *= 5  # so that padding often has the highest value
    embedder = load(tmp_path, options, weights, None)
    for length in range(12):
        word = "ab"[length % 2] * length
        expected = oracle_layers(options, weights, [[word]])
        if length < 6:
            cut = character_vector(options, weights, character_ids(word, 12)[: length + 6])
            assert np.abs(cut - expected[0][0, 0, : len(cut)]).max() > CLEARLY

        assert_agree(embedder.embed_layers([[word]]), expected)


def test_layers_agree_with_the_oracle_for_hundreds_of_distinct_words(tmp_path: Path) -> None:
    words = ["ab"[number % 2] * (number % 15) + str(number) for number in range(700)]
    sentences = [words[start : start + 20] for start in range(0, 700, 20)]

    assert_layers(made(tmp_path, 4, max_characters=16), sentences)


@pytest.mark.parametrize(
    "clips",
    [
        {"cell_clip": 0.3, "proj_clip": None},
        {"cell_clip": None, "proj_clip": 0.2},
        {"cell_clip": 0.4, "proj_clip": 0.3},
    ],
    ids=["cell", "projection", "both"],
)
@pytest.mark.parametrize("skip", [True, False])
def test_layers_agree_with_the_oracle_where_clips_really_clip(
    clips: dict[str, float | None], skip: bool, tmp_path: Path
) -> None:
    model = made(tmp_path, 5, layers=3, skip=skip, **clips)
    expected = oracle_layers(model.options, model.weights, FEW)
    for name in [name for name, limit in clips.items() if limit]:
        without = {**model.options, "lstm": {**model.options["lstm"], name: None}}
        assert distance(expected, oracle_layers(without, model.weights, FEW)) > CLEARLY

    assert_layers(model, FEW)


def test_projection_clip_does_nothing_where_there_is_no_projection(tmp_path: Path) -> None:
    model = made(tmp_path, 6, cell=8, projection=8, cell_clip=None, proj_clip=0.01)
    off = {**model.options, "lstm": {**model.options["lstm"], "proj_clip": None}}

    layers = model.embedder.embed_layers(FEW)

    assert_agree(layers, oracle_layers(off, model.weights, FEW))
    assert max(np.abs(sentence[1:]).max(initial=0) for sentence in layers) > CLEARLY + 0.01


@pytest.mark.parametrize(
    ("part", "name", "meaning"),
    [
        ("lstm", "cell_clip", None),
        ("lstm", "proj_clip", None),
        ("lstm", "n_layers", 1),
        ("char_cnn", "n_highway", 0),
    ],
)
def test_an_option_left_out_has_its_documented_meaning(
    part: str, name: str, meaning: int | None, tmp_path: Path
) -> None:
    options = random_options(layers=1, highways=0)
    options[part][name] = meaning
    weights = random_weights(options, seed=7)
    expected = oracle_layers(options, weights, FEW)
    del options[part][name]

    assert_agree(load(tmp_path, options, weights, None).embed_layers(FEW), expected)


def test_a_one_layer_file_without_multirnncell_is_read_alike(tmp_path: Path) -> None:
    options = random_options(layers=1)
    weights = random_weights(options, seed=8)
    plain = {re.sub("/MultiRNNCell/Cell0", "", name): values for name, values in weights.items()}

    assert_layers(Made(options, weights, load(tmp_path, options, plain, None)), FEW)


def test_embed_averages_the_layers_or_picks_one(tmp_path: Path) -> None:
    options, weights, embedder = made(tmp_path, 9)
    layers = oracle_layers(options, weights, FEW)

    assert_agree(embedder.embed(FEW, layers="average"), [one.mean(0) for one in layers])
    assert_agree(embedder.embed(FEW, layers="top"), [one[2] for one in layers])
    for number in range(3):
        assert_agree(embedder.embed(FEW, layers=number), [one[number] for one in layers])


@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("shape", [{}, {"cell": 8, "cell_clip": 0.4}, {"layers": 3}])
def test_the_model_itself_agrees_with_the_oracle_markers_included(
    shape: dict[str, Any], gradients: bool, tmp_path: Path
) -> None:
    options, weights, embedder = made(tmp_path, 13, **shape)
    batches = [
        [["one"], SENTENCES["plain"], [], SENTENCES["Korean"]],
        [["a"], [], ["b"], ["c", "d"]],
    ]

    state = None
    for batch, expected in zip(batches, Oracle(options, weights).carry(batches), strict=True):
        with torch.set_grad_enabled(gradients):
            (vectors, mask), state = embedder.bilm(batch_to_ids(batch), state)

        assert vectors.requires_grad == gradients
        assert_agree(
            [vectors[:, row, mask[row]].detach().numpy() for row in range(len(batch))], expected
        )
        assert not vectors[:, ~mask].any()


# Word input


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "학교에", "."]
MARKERS_LAST = [".", "cat", "the", "<UNK>", "</S>", "<S>"]
VOCABULARIES = pytest.mark.parametrize(
    "vocabulary", [VOCABULARY, MARKERS_LAST], ids=["usual", "markers last"]
)
KNOWN_AND_UNKNOWN = [["the", "cat", "sat", "."], ["the", "dog"], [], ["학교에", "", "CAT"]]


@VOCABULARIES
@pytest.mark.parametrize("skip", [True, False])
def test_word_input_agrees_with_the_oracle_on_known_and_unknown_words(
    vocabulary: list[str], skip: bool, tmp_path: Path
) -> None:
    options, weights, embedder = made(tmp_path, 14, vocabulary, skip=skip)

    expected = oracle_layers(options, weights, KNOWN_AND_UNKNOWN, vocabulary)
    assert_agree(embedder.embed_layers(KNOWN_AND_UNKNOWN), expected)


def test_word_input_agrees_with_the_oracle_in_carry_and_warm(tmp_path: Path) -> None:
    batches = [KNOWN_AND_UNKNOWN, KNOWN_AND_UNKNOWN[::-1]]
    options, weights, carrying = made(tmp_path, 15, VOCABULARY, {"state": "carry"})
    warm = made(tmp_path, 15, VOCABULARY, {"state": "warm"}).embedder

    for batch, expected in zip(
        batches, oracle_carry(options, weights, batches, VOCABULARY), strict=True
    ):
        assert_agree(carrying.embed_layers(batch), expected)
    assert_agree(
        warm.embed_layers(KNOWN_AND_UNKNOWN),
        oracle_warm(options, weights, KNOWN_AND_UNKNOWN, vocabulary=VOCABULARY),
    )


def test_word_input_agrees_with_the_oracle_where_the_table_is_a_second_file(tmp_path: Path) -> None:
    options = random_options(word_input=True)
    weights = random_weights(options, seed=21, words=len(VOCABULARY))
    lstm_only = {name: values for name, values in weights.items() if name != "embedding"}
    _, table = write_files(tmp_path / "table", {}, {"embedding": weights["embedding"]})
    embedder = load(tmp_path, options, lstm_only, VOCABULARY, embedding=table)

    expected = oracle_layers(options, weights, KNOWN_AND_UNKNOWN, VOCABULARY)
    assert_agree(embedder.embed_layers(KNOWN_AND_UNKNOWN), expected)


@VOCABULARIES
def test_word_ids_are_shifted_by_one_and_the_model_adds_its_own_markers(
    vocabulary: list[str], tmp_path: Path
) -> None:
    options, weights, embedder = made(tmp_path, 16, vocabulary)
    ids = torch.tensor([[vocabulary.index("the") + 1, vocabulary.index("cat") + 1], [0, 0]])

    with torch.no_grad():
        vectors, mask = embedder.bilm(ids).layers

    expected = oracle_layers_with_markers(options, weights, [["the", "cat"], []], vocabulary)
    assert_agree([vectors[:, row, mask[row]].numpy() for row in range(2)], expected)


# State


BATCHES_OF_CHANGING_SIZE = [
    [["The", "cat"], ["sat"]],
    [["on", "the", "mat"], [], ["now", "and", "then"], ["더", "많이"]],
    [["one"]],
    [[], ["two", "rows"]],
    [["a"], ["b", "c"], ["x" * 60], ["d"], ["e", "f"]],
]
MANY_ROWS = [[["a", "b"][: number % 3] for number in range(600)], [["c"]] * 2]


@pytest.mark.parametrize(
    ("shape", "batches"),
    [
        ({}, BATCHES_OF_CHANGING_SIZE),
        ({"skip": False, "layers": 3}, BATCHES_OF_CHANGING_SIZE),
        ({"cell_clip": 0.4, "proj_clip": 0.3}, BATCHES_OF_CHANGING_SIZE),
        ({"cell": 8}, BATCHES_OF_CHANGING_SIZE),
        ({}, [MIXED, MIXED[::-1]]),
        ({"layers": 1, "max_characters": 8}, MANY_ROWS),
    ],
    ids=["usual", "no skip", "small clips", "no projection", "mixed lengths", "many rows"],
)
def test_carry_agrees_with_the_oracle_while_batches_grow_and_shrink(
    shape: dict[str, Any], batches: list[list[list[str]]], tmp_path: Path
) -> None:
    options, weights, embedder = made(tmp_path, 10, settings={"state": "carry"}, **shape)

    for batch, expected in zip(batches, oracle_carry(options, weights, batches), strict=True):
        assert_agree(embedder.embed_layers(batch), expected)


def test_carry_through_a_stream_agrees_with_the_oracle_on_batches_of_64(tmp_path: Path) -> None:
    shape = {"layers": 1, "max_characters": 8}
    options, weights, embedder = made(tmp_path, 18, settings={"state": "carry"}, **shape)
    sentences = [["a", "b", "c"][: number % 4] for number in range(70)]

    streamed = list(embedder.embed_stream(iter(sentences), "all"))

    first, second = oracle_carry(options, weights, [sentences[:64], sentences[64:]])
    assert_agree(streamed, first + second)


@pytest.mark.parametrize(("runs", "skip"), [(1, True), (2, True), (2, False), (3, True)])
def test_warm_agrees_with_the_oracle_reading_each_sentence_several_times(
    runs: int, skip: bool, tmp_path: Path
) -> None:
    warm = {"state": "warm", "warm_runs": runs}
    options, weights, embedder = made(tmp_path, 12, settings=warm, skip=skip)
    expected = oracle_warm(options, weights, FEW, times=runs)
    assert (distance(expected, oracle_layers(options, weights, FEW)) > CLEARLY) == (runs > 1)

    assert_agree(embedder.embed_layers(FEW), expected)
    assert_agree(embedder.embed_layers(FEW[::-1]), expected[::-1])


# The oracle itself, against ids worked out by hand


def test_oracle_cuts_a_word_by_bytes_and_keeps_its_end_mark() -> None:
    ids = character_ids("a" * 47 + "é")

    assert ids == [259, *[98] * 47, 0xC3 + 1, 260]


def test_oracle_drops_lone_surrogates_and_pads() -> None:
    assert character_ids("a\ud800b", max_characters=7) == [259, 98, 99, 260, 261, 261, 261]


def test_oracle_reads_markers_as_words() -> None:
    assert character_ids("<S>", max_characters=5) == [259, 257, 260, 261, 261]
    assert character_ids("</S>", max_characters=5) == [259, 258, 260, 261, 261]
