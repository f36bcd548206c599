"""Sentences read in pieces, batches without memory, and states that are kept for later."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from closeness import assert_agree
from small_models import small_embedder

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError
from elmokit.inference.embedder import LONGEST_WHOLE
from elmokit.inference.layers import WORDS_PER_PIECE, LayerChoice, many_pieces
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix

WHOLE = 10**6
POOLS = ("none", "mean", "max")


def sentence_of(words: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [f"w{number}" for number in random.integers(0, 30, words)]


LENGTHS = (11, 3, 0, 25, 1, 8, 17, 10)
SENTENCES = [sentence_of(words, seed) for seed, words in enumerate(LENGTHS)]


def assert_same(first, second):
    assert_agree(first, second)
    assert [one.dtype for one in first] == [other.dtype for other in second]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("elmokit.inference.embedder.many_pieces", partial(many_pieces, size=4))


def reductions(config: ModelConfig) -> list[LayerChoice]:
    layers = (
        "average",
        "top",
        0,
        ScalarMix(3, weights=[0.5, -1.0, 2.0]),
        DirectionalMix(3, weights=[0.1, 0.2, 0.3, 0.4, 0.5]),
    )
    chosen = [LayerChoice(layer, config.layer_count, pool) for layer in layers for pool in POOLS]
    return [*chosen, *(LayerChoice("all", config.layer_count, pool) for pool in POOLS)]


def pieces_read(embedder, monkeypatch) -> list[tuple[str, ...]]:
    """The directions of every piece that the model is going to read."""
    read = []
    contextualize = embedder.bilm.contextualize

    def spy(token_vectors, lengths, state, precision, directions):
        assert token_vectors.shape[1] <= max(WORDS_PER_PIECE, 30)
        read.append(tuple(directions))
        return contextualize(token_vectors, lengths, state, precision, directions)

    monkeypatch.setattr(embedder.bilm, "contextualize", spy)
    return read


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("number", range(18))
def test_pieces_give_what_the_whole_sentence_gives(number):
    embedder = small_embedder()
    reduction = reductions(embedder.config)[number]
    assert reduction.by_halves
    expected = embedder.embed_as(SENTENCES, reduction, longest=WHOLE)
    assert_same(embedder.embed_as(SENTENCES, reduction, longest=9), expected)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_pieces_give_the_same_in_every_state(state):
    in_pieces, whole = small_embedder(state=state), small_embedder(state=state)
    for sentences in (SENTENCES, SENTENCES[::-1], SENTENCES[:3]):
        expected = whole.embed_as(sentences, LayerChoice("all", 3), longest=WHOLE)
        assert_same(in_pieces.embed_as(sentences, LayerChoice("all", 3), longest=9), expected)


@pytest.mark.parametrize("pool", POOLS)
def test_markers_and_padding_are_not_pooled(pool):
    embedder = small_embedder()
    pooled = embedder.embed_as(SENTENCES, LayerChoice("average", embedder.config.layer_count, pool))
    words = embedder.embed(SENTENCES)
    expected = {
        "none": words,
        "mean": [array.mean(0) if len(array) else np.zeros(12) for array in words],
        "max": [array.max(0) if len(array) else np.zeros(12) for array in words],
    }
    assert_same(pooled, [array.astype(np.float32) for array in expected[pool]])


def test_a_long_sentence_is_read_in_pieces_without_being_asked(monkeypatch):
    embedder = small_embedder()
    sentence = sentence_of(LONGEST_WHOLE + 1)
    expected = embedder.embed_as([sentence], LayerChoice("average", 3), WHOLE)
    read = pieces_read(embedder, monkeypatch)
    assert_same(embedder.embed([sentence]), expected)
    pieces = -(-(LONGEST_WHOLE + 3) // WORDS_PER_PIECE)
    assert read == [("forward",)] * pieces + [("backward",)] * pieces


def test_a_sentence_of_the_limit_is_read_whole(monkeypatch):
    embedder = small_embedder()
    read = pieces_read(embedder, monkeypatch)
    embedder.embed_as([sentence_of(9), sentence_of(10)], LayerChoice("all", 3), longest=9)
    assert sorted(read) == [("backward",), ("forward",), ("forward", "backward")]


@pytest.mark.parametrize("mix", [ScalarMix(3, layer_norm=True), DirectionalMix(3, join="add")])
def test_a_mix_that_needs_the_whole_sentence_gets_it(monkeypatch, mix):
    embedder = small_embedder()
    reduction = LayerChoice(mix, embedder.config.layer_count)
    expected = embedder.embed_as([SENTENCES[3]], reduction, longest=WHOLE)
    read = pieces_read(embedder, monkeypatch)
    assert_same(embedder.embed_as([SENTENCES[3]], reduction, longest=9), expected)
    assert read == [("forward", "backward")]


def test_an_unknown_way_to_pool_is_refused():
    with pytest.raises(ConfigError, match="pool is 'sum'"):
        LayerChoice("all", 3, "sum")


def test_carried_rows_do_not_depend_on_how_they_are_batched(monkeypatch):
    expected = small_embedder(state="carry")
    batched = small_embedder(state="carry")
    for sentences in (SENTENCES, SENTENCES[::-1]):
        monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 256)
        whole = expected.embed(sentences)
        monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 3)
        assert_same(batched.embed(sentences), whole)


def test_a_call_may_continue_any_rows():
    together, apart = small_embedder(state="carry"), small_embedder(state="carry")
    for sentences in (SENTENCES, SENTENCES[::-1]):
        first = apart.embed_as(sentences[5:], LayerChoice("all", 3), first_row=5)
        second = apart.embed_as(sentences[:5], LayerChoice("all", 3))
        assert_same([*second, *first], together.embed_layers(sentences))


def without_memory_for(rows: int, monkeypatch, embedder, tokens: int = 0) -> list[int]:
    """A model that has no memory for more rows, and more tokens; how many rows it was given."""
    sizes = []
    contextualize = embedder.bilm.contextualize

    def fake(token_vectors, *arguments):
        sizes.append(len(token_vectors))
        if len(token_vectors) > rows and token_vectors[..., 0].numel() > tokens:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return contextualize(token_vectors, *arguments)

    monkeypatch.setattr(embedder.bilm, "contextualize", fake)
    return sizes


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
@pytest.mark.parametrize("longest", [1, WHOLE])
def test_a_batch_without_memory_is_halved_and_nothing_is_lost(monkeypatch, state, longest):
    embedder, untroubled = small_embedder(state=state), small_embedder(state=state)
    without_memory_for(1, monkeypatch, embedder)
    for sentences in (SENTENCES, SENTENCES[::-1]):
        expected = untroubled.embed_as(sentences, LayerChoice("all", 3), longest=WHOLE)
        assert_same(embedder.embed_as(sentences, LayerChoice("all", 3), longest), expected)
    assert embedder.memory_retries >= 2 * 3
    assert untroubled.memory_retries == 0


def test_of_what_waits_only_large_batches_are_halved_too(monkeypatch):
    monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 4)
    embedder = small_embedder()
    sizes = without_memory_for(3, monkeypatch, embedder, tokens=16)
    embedder.embed([["long", "sentence"] * 3] * 8 + [["a"]] * 6)
    assert sizes == [4, 2, 2, 2, 2, 4, 2]
    assert embedder.memory_retries == 1


def test_unusual_words_of_a_halved_batch_are_counted_once(monkeypatch):
    embedder = small_embedder()
    without_memory_for(1, monkeypatch, embedder)
    with pytest.warns(match="unusual word"):
        embedder.embed([["a"], ["b", ""]])
    assert embedder.unusual.counts == {"empty": 1}


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_one_sentence_without_memory_is_an_error_that_moves_no_state(monkeypatch, state):
    embedder, untroubled = small_embedder(state=state), small_embedder(state=state)
    first = embedder.embed(SENTENCES)
    assert_same(first, untroubled.embed(SENTENCES))
    with monkeypatch.context() as patch:
        without_memory_for(0, patch, embedder)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            embedder.embed(SENTENCES)
    assert_same(embedder.embed(SENTENCES), untroubled.embed(SENTENCES))


def test_other_errors_are_not_tried_again(monkeypatch):
    embedder = small_embedder()

    def broken(*arguments):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(embedder.bilm, "contextualize", broken)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        embedder.embed(SENTENCES)
    assert embedder.memory_retries == 0
