from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch
from closeness import assert_agree
from small_models import small_embedder

from elmokit import Embedder
from elmokit.bulk import pipeline
from elmokit.bulk.compute import Computer
from elmokit.errors import ElmoWarning, InputError
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix

SENTENCES = [
    ["The", "river", "bank", "."],
    ["A", "bank"],
    [],
    ["은행", "🏦", "naïve"],
    ["A", "bank"],
    ["one"],
    [],
    ["a", "long", "sentence", "that", "goes", "on", "and", "on", "until", "it", "ends"],
]


def assert_same(first, second):
    assert_agree(first, second)
    assert [one.dtype for one in first] == [other.dtype for other in second]


def sentences_read(embedder, monkeypatch) -> list[int]:
    """How many sentences the model reads at a time."""
    read = []
    contextualize = embedder.bilm.contextualize

    def spy(token_vectors, *arguments):
        read.append(len(token_vectors))
        return contextualize(token_vectors, *arguments)

    monkeypatch.setattr(embedder.bilm, "contextualize", spy)
    return read


@pytest.mark.parametrize("layers", ["average", "0", "all", DirectionalMix(3)])
@pytest.mark.parametrize("pool", [None, "mean", "max"])
def test_arrays_are_those_of_the_embedder(layers, pool):
    embedder = small_embedder()
    expected = embedder.embed(SENTENCES, layers, pool)
    assert_same(Computer(embedder, layers=layers, pool=pool).compute(SENTENCES), expected)


@pytest.mark.parametrize("layers", ["top", "all", DirectionalMix(3, join="add")])
@pytest.mark.parametrize("pool", ["none", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_size_of_results_is_known_before_they_are(monkeypatch, layers, pool, dtype):
    computer = Computer(small_embedder(), layers=layers, pool=pool, dtype=dtype)
    array = computer.compute([["one", "two", "three"]])[0]
    parts = 3 if pool == "none" else 2  # words; a sentence has its two markers at least
    monkeypatch.setattr(pipeline, "BYTES_PER_PART", 100 * array.nbytes)
    assert pipeline.tokens_per_part(computer) == 100 * parts


@pytest.mark.parametrize("state", ["zero", "warm"])
def test_each_distinct_sentence_is_computed_once(monkeypatch, state):
    embedder = small_embedder(state=state, warm_runs=1)
    read = sentences_read(embedder, monkeypatch)
    computer = Computer(embedder)
    computer.compute(SENTENCES * 2)
    assert sum(read) == 6
    repeated = 7  # blank sentences are not counted
    assert computer.take_counts() == {"duplicates": repeated}
    computer.compute(SENTENCES[:2])
    assert computer.take_counts() == {}
    assert computer.compute([["A", "bank"], [], []], known={0, 1, 2}) == []
    assert computer.take_counts() == {"duplicates": 1}


def test_progress_is_told_of_every_batch_and_results_do_not_depend_on_them(monkeypatch):
    expected = small_embedder().embed(SENTENCES)
    monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 2)
    computer = Computer(small_embedder())
    told = []
    computer.progress = lambda sentences, words: told.append((sentences, words))
    assert_same(computer.compute(SENTENCES), expected)
    assert len(told) == 3
    assert tuple(map(sum, zip(*told, strict=True))) == (6, 21)


@pytest.mark.parametrize("pool", ["none", "mean"])
def test_layer_norm_is_of_each_sentence_by_itself(pool):
    embedder = small_embedder()
    mix = ScalarMix(3, layer_norm=True)
    computer = Computer(embedder, layers=mix, pool=pool, longest=5)
    alone = [computer.compute([sentence])[0] for sentence in SENTENCES]
    assert_same(computer.compute(SENTENCES), alone)
    if pool == "none":
        assert_same(embedder.embed([SENTENCES[0]], mix), alone[:1])
    assert "long_sentences" not in computer.take_counts()


@pytest.mark.parametrize("pool", ["none", "max"])
def test_long_sentences_are_read_in_pieces_and_counted(pool):
    embedder = small_embedder()
    expected = Computer(embedder, pool=pool).compute(SENTENCES)
    computer = Computer(embedder, pool=pool, longest=3)
    assert_same(computer.compute(SENTENCES), expected)
    assert computer.take_counts()["long_sentences"] == 2


@pytest.mark.parametrize("pool", ["none", "mean"])
def test_an_array_holds_no_other_sentence(pool):
    for array in Computer(small_embedder(), layers="all", pool=pool).compute(SENTENCES):
        assert array.base is None


def test_a_value_beyond_float16_names_the_sentence():
    embedder = small_embedder()
    mix = DirectionalMix(3, weights=[0, 1e6, 0, 0, 0])
    with pytest.raises(InputError, match=r"sentence 'A bank' has .* use float32"):
        Computer(embedder, layers=mix, dtype="float16").compute([["A", "bank"]])
    full = Computer(embedder, layers=mix).compute([["A", "bank"]])[0]
    assert np.abs(full).max() > 65504
    halves = Computer(embedder, dtype="float16").compute(SENTENCES)
    for half, array in zip(halves, embedder.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(half, array.astype(np.float16))


def test_unusual_words_are_counted_in_duplicates_too():
    embedder = small_embedder()
    with pytest.warns(ElmoWarning, match="without characters"):
        embedder.embed([[""]])
    computer = Computer(embedder)
    computer.compute([["a", ""], ["a", ""]])
    assert computer.take_counts() == {"duplicates": 1, "unusual: empty": 2}


def many_sentences(count: int) -> list[list[str]]:
    return [[f"w{number % 5}"] * (number % 3) for number in range(count)]


def test_carried_rows_are_allennlp_s_batches_however_the_sentences_come():
    sentences = many_sentences(150)
    expected = list(small_embedder(state="carry").embed_stream(sentences))
    computer = Computer(small_embedder(state="carry"))
    arrays = [
        array
        for start, end in ((0, 10), (10, 100), (100, 100), (100, 150))
        for array in computer.compute(sentences[start:end])
    ]
    assert_same(arrays, expected)
    assert computer.take_counts() == {}


def test_a_run_in_state_carry_goes_on_in_another_process():
    sentences = many_sentences(100)
    first = Computer(small_embedder(state="carry"))
    assert first.state() is None
    first.compute(sentences[:70])
    kept = first.state()
    expected = first.compute(sentences[70:])
    second = Computer(small_embedder(state="carry"))
    second.restore(kept)
    # Its words are encoded again, in another order: the last bits may differ.
    assert_same(second.compute(sentences[70:]), expected)
    second.restore(None)
    assert_same(second.compute(sentences[:5]), small_embedder(state="carry").embed(sentences[:5]))


def test_a_computer_can_be_sent_to_a_worker():
    computer = Computer(small_embedder(), layers=ScalarMix(3), pool="mean")
    other = pickle.loads(pickle.dumps(computer))
    assert_same(other.compute(SENTENCES), computer.compute(SENTENCES))


class FakeDevice:
    """A device with memory for so many sentences at once, until the model leaves it."""

    def __init__(self, monkeypatch, embedder: Embedder, sentences: int) -> None:
        self.type = "cuda"
        self.sentences = sentences
        self.contextualize = embedder.bilm.contextualize
        self.move = embedder.bilm.to
        monkeypatch.setattr(Embedder, "device", property(lambda _: torch.device(self.type)))
        monkeypatch.setattr(embedder.bilm, "contextualize", self.run)
        monkeypatch.setattr(embedder.bilm, "to", self.leave)
        # The mix is where the model is, and this machine has no such place.
        monkeypatch.setattr(ScalarMix, "to", lambda mix, device: mix)

    def run(self, token_vectors, *arguments):
        if self.type != "cpu" and len(token_vectors) > self.sentences:
            raise RuntimeError("MPS backend out of memory (MPS allocated: 17.99 GB)")
        return self.contextualize(token_vectors, *arguments)

    def leave(self, device):
        self.type = device
        return self.move(device)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_a_device_with_little_memory_gets_smaller_batches(monkeypatch, state):
    expected = Computer(small_embedder(state=state)).compute(SENTENCES)
    embedder = small_embedder(state=state)
    device = FakeDevice(monkeypatch, embedder, sentences=2)
    computer = Computer(embedder)
    assert_same(computer.compute(SENTENCES), expected)
    assert computer.take_counts()["out_of_memory"] > 0
    assert device.type == "cuda"


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_a_device_without_memory_is_left_with_one_warning(monkeypatch, state):
    layers = ScalarMix(3)
    untroubled = Computer(small_embedder(state=state), layers=layers)
    embedder = small_embedder(state=state)
    device = FakeDevice(monkeypatch, embedder, sentences=1)
    computer = Computer(embedder, layers=layers)
    assert_same(computer.compute(SENTENCES), untroubled.compute(SENTENCES))
    device.sentences = 0
    with pytest.warns(ElmoWarning, match="out of memory on cuda even for a single") as seen:
        arrays = computer.compute(SENTENCES)
    assert len(seen) == 1
    assert computer.take_counts()["out_of_memory"] > 1
    assert_same(arrays, untroubled.compute(SENTENCES))
    with warnings.catch_warnings(action="error"):
        assert_same(computer.compute(SENTENCES), untroubled.compute(SENTENCES))
    assert device.type == "cpu"


def test_a_processor_without_memory_is_one_line(monkeypatch):
    embedder = small_embedder()

    def full(*arguments):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setattr(embedder.bilm, "contextualize", full)
    with pytest.raises(InputError, match="not enough memory for a single sentence; pool"):
        Computer(embedder).compute(SENTENCES)
