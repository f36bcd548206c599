"""What must hold for every sentence: vectors depend on the sentence alone, and on its two sides."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from closeness import CLEARLY, assert_agree, distance
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_options, random_weights, write_files

from elmokit.inference.embedder import Embedder
from elmokit.model.bilm import BiLM

PROJECTION = 8
LAYERS = 4  # the token layer and three LSTM layers

WORDS = ["the", "cat", "Sat", "on", "mat", ".", "강남", "bank", "1984", "run-off", "é", "🙂"]

quick = settings(max_examples=20, deadline=None, derandomize=True, database=None)
unusual_words_are_welcome = pytest.mark.filterwarnings("ignore::elmokit.errors.ElmoWarning")

any_word = st.sampled_from(WORDS) | st.text(st.characters(), max_size=20)
any_sentence = st.lists(any_word, max_size=9)
any_batch = st.lists(any_sentence, min_size=1, max_size=6)
known_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    options = random_options(layers=LAYERS - 1, projection=PROJECTION)
    return write_files(tmp_path_factory.mktemp("model"), options, random_weights(options, seed=1))


@pytest.fixture(scope="module")
def embedder(files: tuple[Path, Path]) -> Embedder:
    return Embedder.load(*files, state="zero")


def sentences_of_many_lengths(count: int = 24) -> list[list[str]]:
    random = np.random.default_rng(0)
    lengths = random.integers(0, 30, count)
    return [[WORDS[n] for n in random.integers(0, len(WORDS), length)] for length in lengths]


def forward_half(layers: np.ndarray) -> np.ndarray:
    return layers[..., :PROJECTION]


def backward_half(layers: np.ndarray) -> np.ndarray:
    return layers[..., PROJECTION:]


# The sentence alone decides


@unusual_words_are_welcome
@quick
@given(batch=any_batch)
def test_batch_mates_never_change_a_vector(embedder: Embedder, batch: list[list[str]]) -> None:
    alone = [embedder.embed_layers([sentence])[0] for sentence in batch]

    assert_agree(embedder.embed_layers(batch), alone)


def test_padding_is_zero_and_whatever_stands_there_is_not_read(embedder: Embedder) -> None:
    noise = torch.randn(3, 9, PROJECTION, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([9, 4, 2])
    mask = torch.arange(9) < lengths[:, None]
    zeros = noise * mask[..., None]
    wider = torch.nn.functional.pad(zeros, (0, 0, 0, 5))

    with torch.no_grad():
        vectors = embedder.bilm.contextualize(zeros, lengths).layers.vectors
        beside_noise = embedder.bilm.contextualize(noise, lengths).layers.vectors
        beside_more = embedder.bilm.contextualize(wider, lengths).layers.vectors

    assert not vectors[:, ~mask].any()
    assert_agree(beside_noise[:, mask], vectors[:, mask])
    assert_agree(beside_more[:, :, :9], vectors)
    assert not beside_more[:, :, 9:].any()


@pytest.mark.parametrize("sentences_per_batch", [1, 2, 7, 1000])
@pytest.mark.parametrize("tokens_per_batch", [1, 50, 100_000])
def test_batch_size_never_changes_a_vector(
    sentences_per_batch: int,
    tokens_per_batch: int,
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentences = sentences_of_many_lengths()
    expected = embedder.embed_layers(sentences)
    monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", sentences_per_batch)
    monkeypatch.setattr("elmokit.inference.embedder.TOKENS_PER_BATCH", tokens_per_batch)

    assert_agree(embedder.embed_layers(sentences), expected)


def test_a_stream_gives_what_a_list_gives(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = sentences_of_many_lengths()
    monkeypatch.setattr("elmokit.inference.embedder.TOKENS_PER_WINDOW", 60)

    streamed = list(embedder.embed_stream(iter(sentences), "all"))

    assert_agree(streamed, embedder.embed_layers(sentences))


def test_thread_count_never_changes_a_vector(files: tuple[Path, Path]) -> None:
    sentences = sentences_of_many_lengths(100)
    one = Embedder.load(*files).embed_layers(sentences)

    torch.set_num_threads(2)
    two = Embedder.load(*files).embed_layers(sentences)

    assert_agree(two, one)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Python turns from thread to thread as often as it can, so that every race is run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_eight_threads_at_once_give_what_one_gives(files: tuple[Path, Path]) -> None:
    sentences = [
        [f"{word}{number % 16}" for word in sentence]
        for number, sentence in enumerate(sentences_of_many_lengths(160))
    ]
    expected = Embedder.load(*files).embed_layers(sentences)
    shared = Embedder.load(*files, cache_words=30)  # holds a few sentences' words, then overflows
    start = Barrier(8)

    def embed_a_share(number: int) -> list[np.ndarray]:
        start.wait(timeout=30)
        return [shared.embed_layers([sentence])[0] for sentence in sentences[number::8]]

    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(embed_a_share, range(8)))

    for number, share in enumerate(shares):
        assert_agree(share, expected[number::8])


def test_a_sentence_embedded_twice_in_carry_is_different(files: tuple[Path, Path]) -> None:
    carrying = Embedder.load(*files, state="carry")
    sentence = ["the", "cat", "sat"]

    first, second = (carrying.embed_layers([sentence])[0] for _ in range(2))

    assert_agree([second[0]], [first[0]])  # the token layer has no state
    for layer in range(1, LAYERS):
        assert distance([forward_half(first[layer])], [forward_half(second[layer])]) > CLEARLY
        assert distance([backward_half(first[layer])], [backward_half(second[layer])]) > CLEARLY


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_earlier_calls_never_change_a_vector(state: Any, files: tuple[Path, Path]) -> None:
    sentence = ["the", "cat", "sat"]
    fresh = Embedder.load(*files, state=state)
    used = Embedder.load(*files, state=state)
    used.embed_layers(sentences_of_many_lengths())

    assert_agree(used.embed_layers([sentence]), fresh.embed_layers([sentence]))


# The word cache


@pytest.mark.parametrize("cache_words", [0, 1, 5, len(WORDS) + 2, 1000])
def test_word_cache_of_any_size_gives_the_same(
    cache_words: int, embedder: Embedder, files: tuple[Path, Path]
) -> None:
    sentences = sentences_of_many_lengths()
    expected = embedder.embed_layers(sentences)
    cached = Embedder.load(*files, cache_words=cache_words)

    one_by_one = [cached.embed_layers([sentence])[0] for sentence in sentences]

    assert_agree(one_by_one, expected)
    assert_agree(cached.embed_layers(sentences), expected)


# Left and right


@quick
@given(data=st.data())
def test_a_changed_word_moves_forward_vectors_after_it_and_backward_vectors_before_it(
    embedder: Embedder, data: st.DataObject
) -> None:
    sentence = data.draw(known_words)
    k = data.draw(st.integers(0, len(sentence) - 1))
    other = data.draw(st.sampled_from([word for word in WORDS if word != sentence[k]]))
    changed = [*sentence[:k], other, *sentence[k + 1 :]]

    before, after = embedder.embed_layers([sentence])[0], embedder.embed_layers([changed])[0]

    assert_agree(forward_half(after)[:, :k], forward_half(before)[:, :k])
    assert_agree(backward_half(after)[:, k + 1 :], backward_half(before)[:, k + 1 :])
    assert_agree(np.delete(after[:1], k, axis=1), np.delete(before[:1], k, axis=1))
    moved = np.abs(after - before) / np.abs(before).max()
    assert moved[0, k].max() > CLEARLY
    assert forward_half(moved)[1:, k:].max(-1).min() > CLEARLY
    assert backward_half(moved)[1:, : k + 1].max(-1).min() > CLEARLY


@quick
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_reversing_the_words_and_swapping_the_stacks_swaps_the_halves(
    embedder: Embedder, lengths: list[int], seed: int
) -> None:
    bilm = embedder.bilm
    swapped = copy.deepcopy(bilm)
    swapped.forward_lstm, swapped.backward_lstm = bilm.backward_lstm, bilm.forward_lstm
    generator = torch.Generator().manual_seed(seed)
    sentences = [torch.randn(length, PROJECTION, generator=generator) for length in lengths]

    layers = contextualize(bilm, sentences)
    mirrored = contextualize(swapped, [sentence.flip(0) for sentence in sentences])

    assert_agree(
        [np.concatenate([backward_half(one), forward_half(one)], -1)[:, ::-1] for one in mirrored],
        layers,
    )


def contextualize(bilm: BiLM, sentences: list[torch.Tensor]) -> list[np.ndarray]:
    """Layers (layers, words, size) of each sentence of token vectors, all in one batch."""
    padded = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    with torch.no_grad():
        vectors = bilm.contextualize(padded, lengths).layers.vectors
    return [vectors[:, row, :length].numpy() for row, length in enumerate(lengths)]
