"""The surface that AllenNLP's users know, against the oracle and against plain computations."""

from __future__ import annotations

import copy
import inspect
import io
import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from oracle import TOLERANCE, Oracle, assert_agree, distance, oracle_carry, oracle_layers
from random_models import Options, Weights, random_options, random_weights, write_files
from torch import Tensor, nn

from elmokit.adaptors import allennlp
from elmokit.adaptors.allennlp import Elmo, ElmoEmbedder, ScalarMix, batch_to_ids
from elmokit.embedder import Embedder
from elmokit.errors import ConfigError, ElmoError, ElmoWarning, InputError
from elmokit.formats.vectors import read_vectors

LAYERS, SIZE = 3, 16
CLEARLY = 10 * TOLERANCE
SENTENCES = [["The", "river", "bank", "."], ["A", "bank"], ["Money", "talks", "."]]
# Fewer rows, more rows, an empty sentence: the state shrinks and grows.
BATCHES = [SENTENCES, [["One"]], [["a"], ["b", "c"], [], ["d"], ["e"]], SENTENCES[:2], SENTENCES]
VOCABULARY = ["@@PADDING@@", "@@UNKNOWN@@", "The", "river", "bank", ".", "A", "Money"]

Files = tuple[Path, Path]


@pytest.fixture(scope="module")
def model() -> tuple[Options, Weights]:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return options, random_weights(options, seed=3)


@pytest.fixture(scope="module")
def files(model: tuple[Options, Weights], tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("model"), *model)


@pytest.fixture(scope="module")
def other_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return write_files(tmp_path_factory.mktemp("other"), options, random_weights(options, seed=4))


@pytest.fixture
def address(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a server on this machine offers the folder of the model."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(files[0].parent)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def word_ids(sentences: list[list[str]]) -> Tensor:
    """Ids of VOCABULARY, 1 for a word it does not have."""
    known = {word: number for number, word in enumerate(VOCABULARY)}
    rows = [torch.tensor([known.get(word, 1) for word in sentence]) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def represent(elmo: nn.Module, sentences: list[list[str]]) -> list[np.ndarray]:
    """The first representation of each sentence, padding cut off."""
    output = elmo(batch_to_ids(sentences))
    vectors = output["elmo_representations"][0].detach().numpy()
    return [row[: len(sentence)] for row, sentence in zip(vectors, sentences, strict=True)]


def averages(layers: list[np.ndarray]) -> list[np.ndarray]:
    return [sentence.mean(0) for sentence in layers]


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert torch.equal(one["mask"], other["mask"])
    for a, b in zip(one["elmo_representations"], other["elmo_representations"], strict=True):
        assert torch.allclose(a, b, rtol=0, atol=TOLERANCE)


# Signatures and shapes


def test_signatures_and_defaults_are_those_of_allennlp() -> None:
    def parameters(thing: Any) -> str:
        signature = inspect.signature(thing)
        pairs = ((p.name, p.default) for p in signature.parameters.values() if p.name != "self")
        return ", ".join(n if d is inspect.Parameter.empty else f"{n}={d!r}" for n, d in pairs)

    assert parameters(Elmo) == (
        "options_file, weight_file, num_output_representations, requires_grad=False, "
        "do_layer_norm=False, dropout=0.5, vocab_to_cache=None, keep_sentence_boundaries=False, "
        "scalar_mix_parameters=None, module=None, stateful=True"
    )
    assert parameters(Elmo.forward) == "inputs, word_inputs=None"
    assert parameters(ScalarMix) == (
        "mixture_size, do_layer_norm=False, initial_scalar_parameters=None, trainable=True"
    )
    assert parameters(ScalarMix.forward) == "tensors, mask=None"
    assert parameters(ElmoEmbedder.embed_sentences) == "sentences, batch_size=64"
    assert parameters(ElmoEmbedder.embed_file) == (
        "input_file, output_file_path, output_format='all', batch_size=64, "
        "forget_sentences=False, use_sentence_keys=False"
    )


def test_default_files_are_the_original_model() -> None:
    start = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    defaults = inspect.signature(ElmoEmbedder).parameters

    assert defaults["options_file"].default == (
        start + "elmo_2x4096_512_2048cnn_2xhighway_options.json"
    )
    assert defaults["weight_file"].default == (
        start + "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert defaults["cuda_device"].default == -1


def test_batch_to_ids_gives_fifty_characters_for_each_word() -> None:
    ids = batch_to_ids(SENTENCES)

    assert ids.shape == (3, 4, 50)
    assert ids.dtype == torch.int64
    assert not ids[1, 2:].any()


def test_elmo_gives_a_representation_for_each_mix_and_a_mask(files: Files) -> None:
    elmo = Elmo(*files, 2)

    output = elmo(batch_to_ids(SENTENCES))

    assert set(output) == {"elmo_representations", "mask"}
    assert [r.shape for r in output["elmo_representations"]] == [(3, 4, SIZE)] * 2
    assert output["mask"].dtype == torch.bool
    assert output["mask"].sum(1).tolist() == [4, 2, 3]
    assert elmo.get_output_dim() == SIZE


def test_padding_is_zero_without_markers_and_with_them(files: Files) -> None:
    for keep in (False, True):
        elmo = Elmo(*files, 1, keep_sentence_boundaries=keep, dropout=0.0)
        output = elmo(batch_to_ids(SENTENCES))
        vectors, mask = output["elmo_representations"][0], output["mask"]

        assert vectors.shape == (3, 4 + 2 * keep, SIZE)
        assert mask.sum(1).tolist() == [length + 2 * keep for length in (4, 2, 3)]
        assert not vectors[~mask].any()


def test_dropout_is_half_by_default_and_off_in_evaluation(files: Files) -> None:
    torch.manual_seed(0)
    elmo = Elmo(*files, 1, stateful=False)
    ids = batch_to_ids(SENTENCES * 5)

    trained = elmo(ids)
    evaluated = elmo.eval()(ids)

    words = evaluated["mask"]
    dropped = (trained["elmo_representations"][0][words] == 0).float().mean()
    assert 0.4 < float(dropped) < 0.6
    assert evaluated["elmo_representations"][0][words].all()


@pytest.mark.parametrize("keep", [False, True])
def test_more_dimensions_are_flattened_and_restored(files: Files, keep: bool) -> None:
    elmo = Elmo(*files, 1, keep_sentence_boundaries=keep, stateful=False, dropout=0.0)
    ids = batch_to_ids([*SENTENCES, ["one", "more"], [], ["last"]])

    flat = elmo(ids)
    nested = elmo(ids.view(3, 1, 2, 4, 50))

    words = 4 + 2 * keep
    assert nested["mask"].shape == (3, 1, 2, words)
    assert nested["elmo_representations"][0].shape == (3, 1, 2, words, SIZE)
    assert torch.equal(
        nested["elmo_representations"][0].view(6, words, SIZE), flat["elmo_representations"][0]
    )


@pytest.mark.parametrize("shape", [(2, 0, 50), (2, 1, 0, 50)])
def test_sentences_of_no_words_give_no_vectors(files: Files, shape: tuple[int, ...]) -> None:
    output = Elmo(*files, 1)(torch.zeros(shape, dtype=torch.int64))

    assert output["elmo_representations"][0].shape == (*shape[:-1], SIZE)
    assert output["mask"].shape == shape[:-1]


def test_biLM_already_made_replaces_the_files(files: Files) -> None:
    embedder = Embedder.load(*files)

    elmo = Elmo(None, None, 1, module=embedder.bilm, dropout=0.0)

    assert_agree(represent(elmo, SENTENCES), embedder.embed(SENTENCES))


def test_two_that_share_a_biLM_share_its_state_too(files: Files) -> None:
    first = Elmo(*files, 1, dropout=0.0)
    second = Elmo(None, None, 1, module=first._elmo_lstm, dropout=0.0)
    alone = Elmo(*files, 1, dropout=0.0)

    shared = [represent(elmo, SENTENCES) for elmo in (first, second)]

    for found in shared:
        assert_agree(found, represent(alone, SENTENCES))


def test_model_folder_stands_for_both_files(files: Files) -> None:
    elmo = Elmo(files[0].parent, None, 1, dropout=0.0)

    assert_agree(represent(elmo, SENTENCES), represent(Elmo(*files, 1, dropout=0.0), SENTENCES))


# State


def test_state_goes_from_batch_to_batch_as_in_the_oracle(
    model: tuple[Options, Weights], files: Files
) -> None:
    elmo = Elmo(*files, 1, dropout=0.0)

    found = [represent(elmo, batch) for batch in BATCHES]

    for batch, expected in zip(found, oracle_carry(*model, BATCHES), strict=True):
        assert_agree(batch, averages(expected))


def test_without_state_every_batch_starts_from_zeros(
    model: tuple[Options, Weights], files: Files
) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, stateful=False)

    for batch in BATCHES:
        assert_agree(represent(elmo, batch), averages(oracle_layers(*model, batch)))


def test_same_sentence_is_different_the_second_time_until_the_state_is_reset(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0)
    first, second = represent(elmo, SENTENCES), represent(elmo, SENTENCES)
    elmo.reset_state()
    third = represent(elmo, SENTENCES)

    assert distance(first, second) > CLEARLY
    assert_agree(third, first)


def test_state_survives_inference_mode_and_a_change_of_type(files: Files) -> None:
    elmo = Elmo(*files, 1, requires_grad=True, dropout=0.0)
    ids = batch_to_ids(SENTENCES)
    with torch.inference_mode():
        elmo(ids)

    elmo(ids)["elmo_representations"][0].sum().backward()
    doubled = elmo.double()(ids)["elmo_representations"][0]

    assert doubled.dtype == torch.float64


def test_elmo_that_has_read_can_be_copied(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=VOCABULARY)
    elmo(batch_to_ids(SENTENCES), word_ids(SENTENCES))

    copied = copy.deepcopy(elmo)

    assert_same(copied(batch_to_ids(SENTENCES), word_ids(SENTENCES)), elmo(batch_to_ids(SENTENCES)))


# Gradients


@pytest.mark.parametrize("requires_grad", [False, True])
def test_gradients_reach_the_mix_and_the_biLM_only_if_asked(
    files: Files, requires_grad: bool
) -> None:
    elmo = Elmo(*files, 1, requires_grad=requires_grad)
    for _ in range(2):  # the second batch must not reach into the first
        elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].square().sum().backward()

    mix = elmo.scalar_mix_0
    assert all(parameter.grad.abs() > 0 for parameter in (*mix.scalar_parameters, mix.gamma))
    for parameter in elmo._elmo_lstm.parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) == requires_grad


def test_unused_mix_gets_no_gradient(files: Files) -> None:
    elmo = Elmo(*files, 2)
    elmo(batch_to_ids(SENTENCES))["elmo_representations"][1].square().sum().backward()

    assert elmo.scalar_mix_0.gamma.grad is None
    assert elmo.scalar_mix_1.gamma.grad.abs() > 0


def test_given_mix_weights_are_frozen_and_used_before_the_softmax(
    model: tuple[Options, Weights], files: Files
) -> None:
    given = [0.5, -1.0, 2.0]
    elmo = Elmo(*files, 2, scalar_mix_parameters=given, dropout=0.0)

    found = represent(elmo, SENTENCES)

    shares = np.exp(given) / np.exp(given).sum()
    layers = oracle_layers(*model, SENTENCES)
    assert_agree(found, [np.tensordot(shares, sentence, 1) for sentence in layers])
    assert not any(parameter.requires_grad for parameter in elmo.parameters())
    assert elmo.scalar_mix_1.gamma.tolist() == [1.0]


# Layer norm and ScalarMix


@pytest.mark.parametrize("keep", [False, True])
def test_layer_norm_counts_the_words_and_markers_of_the_whole_batch(
    model: tuple[Options, Weights], files: Files, keep: bool
) -> None:
    elmo = Elmo(*files, 1, do_layer_norm=True, keep_sentence_boundaries=keep, dropout=0.0)
    with torch.no_grad():
        elmo.scalar_mix_0.gamma.fill_(1.5)

    found = elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].detach().numpy()

    kept = Oracle(*model).zero(SENTENCES)
    for row, sentence in enumerate(kept):
        expected, padding = 0.0, 0.0
        for layer in range(LAYERS):
            values = np.concatenate([other[layer].ravel() for other in kept])
            deviation = np.sqrt(values.var() + 1e-13)
            expected += 1.5 / LAYERS * (sentence[layer] - values.mean()) / deviation
            padding += 1.5 / LAYERS * -values.mean() / deviation
        if not keep:
            expected, padding = expected[1:-1], 0.0
        np.testing.assert_allclose(found[row, : len(expected)], expected, atol=TOLERANCE)
        np.testing.assert_allclose(found[row, len(expected) :], padding, atol=TOLERANCE)


def test_scalar_mix_of_fresh_weights_is_the_mean() -> None:
    tensors = [torch.randn(2, 3, 4, 5) for _ in range(3)]

    assert torch.allclose(ScalarMix(3)(tensors), torch.stack(tensors).mean(0), atol=TOLERANCE)


def test_scalar_mix_has_a_parameter_for_each_tensor() -> None:
    mix = ScalarMix(2, initial_scalar_parameters=[1, 2], trainable=False)

    assert [parameter.tolist() for parameter in mix.scalar_parameters] == [[1.0], [2.0]]
    assert mix.gamma.shape == (1,)
    assert not any(parameter.requires_grad for parameter in mix.parameters())


@pytest.mark.parametrize("shape", [(7,), (2, 3), (2, 3, 2)])
def test_scalar_mix_normalises_tensors_of_any_dimensions(shape: tuple[int, ...]) -> None:
    tensors = [torch.randn(*shape, 4) + n for n in range(2)]
    mask = torch.rand(shape) < 0.7

    mixed = ScalarMix(2, do_layer_norm=True)(tensors, mask)

    expected = sum(
        (t - t[mask].mean()) / torch.sqrt(t[mask].var(unbiased=False) + 1e-13) / 2 for t in tensors
    )
    assert torch.allclose(mixed, expected, atol=TOLERANCE)


def test_scalar_mix_of_the_wrong_number_is_one_line() -> None:
    with pytest.raises(ConfigError, match="2 mix weights were given for 3"):
        ScalarMix(3, initial_scalar_parameters=[1, 2])
    with pytest.raises(InputError, match="2 tensors were given to a mix of 3"):
        ScalarMix(3)([torch.zeros(1, 1)] * 2)


# The cached vocabulary


def encoded_words(elmo: Elmo) -> list[int]:
    """How many words each run of the character encoder reads from now on."""
    counts: list[int] = []
    elmo._elmo_lstm.bilm.encoder.register_forward_pre_hook(
        lambda _, inputs: counts.append(len(inputs[0]))
    )
    return counts


def test_cached_vocabulary_gives_what_the_characters_give(files: Files) -> None:
    plain = Elmo(*files, 2, dropout=0.0)
    cached = Elmo(*files, 2, dropout=0.0, vocab_to_cache=VOCABULARY)

    for batch in (SENTENCES, SENTENCES[1:], SENTENCES):
        assert_same(cached(batch_to_ids(batch), word_ids(batch)), plain(batch_to_ids(batch)))


def test_cached_words_need_no_characters_and_are_computed_once(files: Files) -> None:
    sentences = [["The", "bank", "."], ["A", "river"]]
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    plain = Elmo(*files, 1, dropout=0.0, stateful=False)
    counts = encoded_words(cached)

    for _ in range(3):
        found = cached(torch.zeros(2, 3, 50, dtype=torch.int64), word_ids(sentences))
        assert_same(found, plain(batch_to_ids(sentences)))

    markers = 2
    assert sorted(counts) == [markers, markers, markers, len(VOCABULARY)]


@pytest.mark.parametrize("missing_id", [len(VOCABULARY), 10_000, -1])
def test_words_outside_the_cache_are_read_from_their_own_characters_only(
    files: Files, missing_id: int
) -> None:
    sentences = [["The", "bank", "talks"], ["talks", "loudly"]]
    ids = word_ids(sentences)
    ids[ids == 1] = missing_id
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    cached(batch_to_ids(sentences[:1]), word_ids(sentences[:1]))
    counts = encoded_words(cached)

    found = cached(batch_to_ids(sentences), ids)

    assert_same(found, Elmo(*files, 1, dropout=0.0, stateful=False)(batch_to_ids(sentences)))
    assert counts == [4]  # two markers, "talks", "loudly"


def test_cached_vectors_follow_an_encoder_that_has_changed(
    files: Files, other_files: Files
) -> None:
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    other = Elmo(*other_files, 1, dropout=0.0, stateful=False)
    cached(batch_to_ids(SENTENCES), word_ids(SENTENCES))

    cached.load_state_dict(other.state_dict())

    ids = batch_to_ids(SENTENCES)
    assert_same(cached(ids, word_ids(SENTENCES)), other(ids))


def test_cached_words_of_a_trained_biLM_still_train_its_encoder(files: Files) -> None:
    gradients = []
    for vocabulary in (VOCABULARY, None):
        elmo = Elmo(*files, 1, requires_grad=True, dropout=0.0, vocab_to_cache=vocabulary)
        words = word_ids(SENTENCES) if vocabulary else None
        elmo(batch_to_ids(SENTENCES), words)["elmo_representations"][0].square().sum().backward()
        gradients.append(elmo._elmo_lstm.bilm.encoder.characters.weight.grad)

    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-4)


def test_cached_vocabulary_takes_more_dimensions(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    ids, words = batch_to_ids(SENTENCES[:2]), word_ids(SENTENCES[:2])

    nested = elmo(ids.view(1, 2, 4, 50), words.view(1, 2, 4))

    assert nested["mask"].shape == (1, 2, 4)
    flat = elmo(ids, words)["elmo_representations"][0]
    assert torch.equal(nested["elmo_representations"][0][0], flat)


def test_word_that_is_neither_cached_nor_spelt_is_named(files: Files) -> None:
    elmo = Elmo(*files, 1, vocab_to_cache=VOCABULARY)

    with pytest.raises(InputError, match="have id 99, vocab_to_cache has 8 words"):
        elmo(torch.zeros(1, 1, 50, dtype=torch.int64), torch.tensor([[99]]))


def test_word_inputs_without_a_cached_vocabulary_are_reported(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, stateful=False)
    ids = batch_to_ids(SENTENCES)

    with pytest.warns(ElmoWarning, match="word_inputs are not used"):
        found = elmo(ids, word_ids(SENTENCES))

    assert_same(found, elmo(ids))


# Saving and loading


def test_state_dict_names_the_mixes_as_allennlp_does(files: Files) -> None:
    names = set(Elmo(*files, 2, vocab_to_cache=VOCABULARY).state_dict())

    mixes = {name for name in names if name.startswith("scalar_mix")}
    assert mixes == {
        f"scalar_mix_{number}.{name}"
        for number in range(2)
        for name in ("gamma", *(f"scalar_parameters.{layer}" for layer in range(LAYERS)))
    }
    assert all(name.startswith("_elmo_lstm.bilm.") for name in names - mixes)


def test_saved_elmo_is_loaded_whole(files: Files, other_files: Files, tmp_path: Path) -> None:
    saved = Elmo(*files, 1, dropout=0.0)
    with torch.no_grad():
        saved.scalar_mix_0.scalar_parameters[1].fill_(2.0)
    torch.save(saved.state_dict(), tmp_path / "model.pt")

    loaded = Elmo(*other_files, 1, dropout=0.0)
    loaded.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))

    assert_agree(represent(loaded, SENTENCES), represent(saved, SENTENCES))


def saved_by_allennlp(weights: Weights, filters: int, highways: int) -> dict[str, Tensor]:
    """The biLM's entries in a task model that AllenNLP saved, from the weight file's datasets."""
    tokens, saved = "_elmo_lstm._token_embedder", {}
    saved[f"{tokens}._char_embedding_weights"] = np.pad(weights["char_embed"], ((1, 0), (0, 0)))
    for n in range(filters):
        kernel = weights[f"CNN/W_cnn_{n}"]
        saved[f"{tokens}.char_conv_{n}.weight"] = kernel[0].transpose(2, 1, 0)
        saved[f"{tokens}.char_conv_{n}.bias"] = weights[f"CNN/b_cnn_{n}"]
    for n in range(highways):
        name, part = f"{tokens}._highways._layers.{n}", f"CNN_high_{n}"
        pair = weights[f"{part}/W_transform"].T, -weights[f"{part}/W_carry"].T
        saved[f"{name}.weight"] = np.concatenate(pair)
        pair = weights[f"{part}/b_transform"], -weights[f"{part}/b_carry"]
        saved[f"{name}.bias"] = np.concatenate(pair)
    saved[f"{tokens}._projection.weight"] = weights["CNN_proj/W_proj"].T
    saved[f"{tokens}._projection.bias"] = weights["CNN_proj/b_proj"]
    saved[f"{tokens}._beginning_of_sentence_characters"] = np.zeros(50)
    saved["_elmo_lstm._word_embedding.weight"] = np.zeros((8, 8))
    for direction, d in (("forward", 0), ("backward", 1)):
        for n in range(LAYERS - 1):
            name = f"_elmo_lstm._elmo_lstm.{direction}_layer_{n}"
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{n}/LSTMCell"
            i, j, f, o = np.split(weights[f"{cell}/W_0"].T, 4)
            inputs, recurrent = np.split(np.concatenate([i, f, j, o]), 2, axis=1)
            saved[f"{name}.input_linearity.weight"] = inputs
            saved[f"{name}.state_linearity.weight"] = recurrent
            i, j, f, o = np.split(weights[f"{cell}/B"], 4)
            saved[f"{name}.state_linearity.bias"] = np.concatenate([i, f + 1, j, o])
            saved[f"{name}.state_projection.weight"] = weights[f"{cell}/W_P_0"].T
    return {name: torch.from_numpy(values.copy()) for name, values in saved.items()}


def test_task_model_saved_with_allennlp_is_loaded_biLM_included(
    model: tuple[Options, Weights], files: Files, other_files: Files
) -> None:
    char_cnn = model[0]["char_cnn"]
    saved = saved_by_allennlp(model[1], len(char_cnn["filters"]), char_cnn["n_highway"])
    saved |= {f"scalar_mix_0.scalar_parameters.{n}": torch.tensor([n / 2]) for n in range(LAYERS)}
    saved["scalar_mix_0.gamma"] = torch.tensor([1.5])
    task = nn.ModuleDict({"elmo": Elmo(*other_files, 1, dropout=0.0)})

    task.load_state_dict({f"elmo.{name}": tensor for name, tensor in saved.items()})

    expected = Elmo(*files, 1, scalar_mix_parameters=[0, 0.5, 1], dropout=0.0)
    assert_agree(
        represent(task["elmo"], SENTENCES), [1.5 * v for v in represent(expected, SENTENCES)]
    )


# ElmoEmbedder


def test_embedder_gives_all_layers_batch_after_batch_as_the_oracle(
    model: tuple[Options, Weights], files: Files
) -> None:
    embedder = ElmoEmbedder(*files)

    found = [embedder.embed_batch(batch) for batch in BATCHES]

    for batch, expected in zip(found, oracle_carry(*model, BATCHES), strict=True):
        assert_agree(batch, expected)


def test_embedder_without_state_gives_a_sentence_its_own_vectors(
    model: tuple[Options, Weights], files: Files
) -> None:
    embedder = ElmoEmbedder(*files, stateful=False)

    found = [embedder.embed_sentence(sentence) for sentence in SENTENCES]

    assert_agree(found, oracle_layers(*model, SENTENCES))
    assert_agree(list(embedder.embed_sentences(iter(SENTENCES), batch_size=2)), found)


def test_embedder_forgets_when_told(files: Files) -> None:
    embedder = ElmoEmbedder(*files)
    first, second = embedder.embed_batch(SENTENCES), embedder.embed_batch(SENTENCES)
    embedder.reset_state()

    assert distance(first, second) > CLEARLY
    assert_agree(embedder.embed_batch(SENTENCES), first)


def test_batch_to_embeddings_is_padded_with_zeros(files: Files) -> None:
    embeddings, mask = ElmoEmbedder(*files).batch_to_embeddings([*SENTENCES, []])

    assert embeddings.shape == (4, LAYERS, 4, SIZE)
    assert mask.sum(1).tolist() == [4, 2, 3, 0]
    assert not embeddings.transpose(1, 2)[~mask].any()
    expected = ElmoEmbedder(*files).embed_batch(SENTENCES)
    assert_agree([embeddings[1, :, :2].numpy()], [expected[1]])


def test_empty_sentence_has_layers_of_no_words(files: Files) -> None:
    embedder = ElmoEmbedder(*files)

    assert embedder.embed_sentence([]).shape == (LAYERS, 0, SIZE)
    assert embedder.embed_batch([[], ["a"]])[0].shape == (LAYERS, 0, SIZE)
    assert embedder.batch_to_embeddings([[], []])[0].shape == (2, LAYERS, 0, SIZE)
    assert embedder.embed_batch([]) == []


def test_stream_carries_state_over_batches_of_the_given_size(
    model: tuple[Options, Weights], files: Files
) -> None:
    sentences = [*SENTENCES, ["one", "more"], ["and", "another", "one"]]

    found = list(ElmoEmbedder(*files).embed_sentences(sentences, batch_size=2))

    batches = [sentences[:2], sentences[2:4], sentences[4:]]
    expected = [layers for batch in oracle_carry(*model, batches) for layers in batch]
    assert_agree(found, expected)


# Files of vectors

LINES = ["The river bank .", "", "A bank", "The river bank ."]


def embed_lines(files: Files, path: Path, lines: list[str] = LINES, **settings: Any) -> None:
    text = io.StringIO("".join(f"{line}\n" for line in lines))
    ElmoEmbedder(*files).embed_file(text, str(path), batch_size=2, **settings)


def test_file_has_the_layout_of_the_allennlp_command(
    model: tuple[Options, Weights], files: Files, tmp_path: Path
) -> None:
    embed_lines(files, tmp_path / "out.hdf5")

    sentences = [line.split() for line in LINES]
    expected = oracle_carry(*model, [sentences[:2], sentences[2:]])
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
        assert_agree([file[str(n)][...] for n in range(4)], [*expected[0], *expected[1]])
        assert file["1"].shape == (LAYERS, 0, SIZE)
        assert file["0"].dtype == np.float32
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {"The river bank .": "3", "": "1", "A bank": "2"}


@pytest.mark.parametrize("output_format", ["top", "average"])
def test_file_may_have_one_layer(files: Files, tmp_path: Path, output_format: str) -> None:
    embed_lines(files, tmp_path / "all.hdf5")
    embed_lines(files, tmp_path / "one.hdf5", output_format=output_format, forget_sentences=True)

    layers = [item.vectors for item in read_vectors(tmp_path / "all.hdf5")]
    with h5py.File(tmp_path / "one.hdf5", "r") as file:
        assert set(file) == {"0", "1", "2", "3"}
        found = [file[str(n)][...] for n in range(4)]
    assert found[1].shape == (0, SIZE)
    assert_agree(found, [a[-1] if output_format == "top" else a.mean(0) for a in layers])


def test_file_may_have_sentences_for_keys(files: Files, tmp_path: Path) -> None:
    lines = ["The river bank .", "either and / or"]
    embed_lines(files, tmp_path / "out.hdf5", lines, use_sentence_keys=True)

    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert [file[line].shape[1] for line in lines] == [4, 4]
        assert "sentence_to_index" not in file


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b", "a"], "line 3, 'a', has the key of line 1"),
        (["a", ""], "line 2, '', cannot be a key"),
    ],
)
def test_sentences_that_cannot_be_keys_are_refused_before_computing(
    files: Files, tmp_path: Path, lines: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ElmoEmbedder, "embed_batch", lambda *_: pytest.fail("computed"))

    with pytest.raises(InputError, match=message):
        embed_lines(files, tmp_path / "out.hdf5", lines, use_sentence_keys=True)

    assert list(tmp_path.iterdir()) == []


# Addresses


def test_files_may_be_at_an_address(files: Files, address: str) -> None:
    remote = f"{address}/options.json", f"{address}/weights.hdf5"

    elmo = Elmo(*remote, 1, dropout=0.0)
    embedder = ElmoEmbedder(*remote)

    assert_agree(represent(elmo, SENTENCES), represent(Elmo(*files, 1, dropout=0.0), SENTENCES))
    assert_agree(embedder.embed_batch(SENTENCES), ElmoEmbedder(*files).embed_batch(SENTENCES))


# What cannot work is one line


def test_arguments_that_cannot_work_are_one_line(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    elmo, embedder = Elmo(*files, 1, vocab_to_cache=VOCABULARY), ElmoEmbedder(*files)
    bilm = elmo._elmo_lstm.bilm
    ids = batch_to_ids(SENTENCES)
    output = tmp_path / "out.hdf5"
    calls: dict[str, Any] = {
        "split it into words": lambda: batch_to_ids("The river bank"),
        "sentence 0 is 'The": lambda: embedder.embed_sentence("The river bank"),
        "not a list of words": lambda: embedder.embed_batch(["The river bank"]),
        "expected a list of sentences": lambda: embedder.embed_sentences("The river bank"),
        "batch_size is 0": lambda: embedder.embed_sentences(SENTENCES, batch_size=0),
        "use one of 'all', 'top', 'average'": lambda: embedder.embed_file([], output, "sum"),
        "give the open file": lambda: embedder.embed_file("in.txt", output),
        "open the file as text": lambda: embedder.embed_file(io.BytesIO(b"a\n"), output),
        "use -1 for the processor": lambda: ElmoEmbedder(*files, cuda_device=0),
        "no such file": lambda: Elmo("missing.json", "missing.hdf5", 1),
        "give options_file and weight_file": lambda: Elmo(None, None, 1),
        "must be None where a module": lambda: Elmo(*files, 1, module=bilm),
        "module is a Linear": lambda: Elmo(None, None, 1, module=nn.Linear(1, 1)),
        "vocab_to_cache must be given to": lambda: Elmo(
            None, None, 1, module=elmo._elmo_lstm, vocab_to_cache=VOCABULARY
        ),
        "give a list of words": lambda: Elmo(*files, 1, vocab_to_cache="words"),
        "num_output_representations is 0": lambda: Elmo(*files, 0),
        "3 mix weights|2 mix weights": lambda: Elmo(*files, 1, scalar_mix_parameters=[0, 1]),
        r"they must be \(batch, words, 50\)": lambda: elmo(ids[:, :, :30]),
        r"shape \(3, 50\)": lambda: elmo(ids[:, 0]),
        "one id for each word": lambda: elmo(ids, word_ids(SENTENCES)[:, :2]),
        "padding before a word": lambda: elmo(ids.flip(1)),
    }
    for message, call in calls.items():
        with pytest.raises(ElmoError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_model_that_reads_words_is_refused(tmp_path: Path) -> None:
    options = random_options(word_input=True)
    files = write_files(tmp_path, options, random_weights(options, words=5))

    with pytest.raises(InputError, match="reads words, not characters"):
        Elmo(*files, 1)


def test_every_name_offered_can_be_imported() -> None:
    assert all(hasattr(allennlp, name) for name in allennlp.__all__)
