"""The surface that AllenNLP's users know, against the oracle and against plain computations."""

from __future__ import annotations

import copy
import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adaptors.allennlp_samples import (
    BATCHES,
    LAYERS,
    SENTENCES,
    SIZE,
    VOCABULARY,
    Files,
    assert_same,
    averages,
    represent,
    word_ids,
)
from closeness import CLEARLY, assert_agree, assert_close, distance
from oracle import Oracle, oracle_carry, oracle_layers
from random_models import Options, Weights
from torch import Tensor, nn

from elmokit.adaptors import allennlp
from elmokit.adaptors.allennlp import Elmo, ElmoEmbedder, ScalarMix, batch_to_ids
from elmokit.errors import ElmoError
from elmokit.inference.embedder import Embedder

# Signatures and shapes


def test_signatures_and_defaults_are_those_of_allennlp() -> None:
    def parameters(thing: Any) -> str:
        signature = inspect.signature(thing)
        pairs = ((p.name, p.default) for p in signature.parameters.values() if p.name != "self")
        return ", ".join(n if d is inspect.Parameter.empty else f"{n}={d!r}" for n, d in pairs)

    assert all(hasattr(allennlp, name) for name in allennlp.__all__)
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
    original = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
    start = f"{original}elmo_2x4096_512_2048cnn_2xhighway"
    assert parameters(ElmoEmbedder).startswith(
        f"options_file='{start}_options.json', weight_file='{start}_weights.hdf5', cuda_device=-1"
    )


def test_padding_is_zero_without_markers_and_with_them(files: Files) -> None:
    for keep in (False, True):
        elmo = Elmo(*files, 2, keep_sentence_boundaries=keep, dropout=0.0)
        output = elmo(batch_to_ids(SENTENCES))
        (vectors, second), mask = output["elmo_representations"], output["mask"]

        assert set(output) == {"elmo_representations", "mask"}
        assert vectors.shape == second.shape == (3, 4 + 2 * keep, elmo.get_output_dim())
        assert mask.dtype == torch.bool
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


@pytest.mark.parametrize("cached", [None, VOCABULARY], ids=["characters", "cached words"])
@pytest.mark.parametrize("keep", [False, True])
def test_more_dimensions_are_flattened_and_restored(files: Files, keep: bool, cached: Any) -> None:
    settings = {"keep_sentence_boundaries": keep, "vocab_to_cache": cached}
    elmo = Elmo(*files, 1, stateful=False, dropout=0.0, **settings)
    sentences = [*SENTENCES, ["one", "more"], [], ["last"]]
    ids, known = batch_to_ids(sentences), word_ids(sentences) if cached else None

    flat = elmo(ids, known)
    nested = elmo(ids.view(3, 1, 2, 4, 50), known if known is None else known.view(3, 1, 2, 4))

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


def test_biLM_already_made_replaces_the_files_and_its_state_is_shared(files: Files) -> None:
    embedder = Embedder.load(*files)
    elmo = Elmo(None, None, 1, module=embedder.bilm, dropout=0.0)
    assert_agree(represent(elmo, SENTENCES), embedder.embed(SENTENCES))

    first = Elmo(*files, 1, dropout=0.0)
    second = Elmo(None, None, 1, module=first._elmo_lstm, dropout=0.0)
    alone = Elmo(*files, 1, dropout=0.0)

    shared = [represent(elmo, SENTENCES) for elmo in (first, second)]

    for found in shared:
        assert_agree(found, represent(alone, SENTENCES))


# State


def test_state_goes_from_batch_to_batch_as_in_the_oracle(
    model: tuple[Options, Weights], files: Files
) -> None:
    elmo = Elmo(*files, 1, dropout=0.0)

    found = [represent(elmo, batch) for batch in BATCHES]

    for batch, expected in zip(found, oracle_carry(*model, BATCHES), strict=True):
        assert_agree(batch, averages(expected))
    assert distance(found[0], represent(elmo, BATCHES[0])) > CLEARLY
    elmo.reset_state()
    assert_agree(represent(elmo, BATCHES[0]), found[0])


def test_without_state_every_batch_starts_from_zeros(
    model: tuple[Options, Weights], files: Files
) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, stateful=False)

    for batch in BATCHES:
        assert_agree(represent(elmo, batch), averages(oracle_layers(*model, batch)))


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
        assert_close(found[row, : len(expected)], expected)
        assert_close(found[row, len(expected) :], padding)


@pytest.mark.parametrize("shape", [(7,), (2, 3), (2, 3, 2)])
def test_scalar_mix_normalises_tensors_of_any_dimensions(shape: tuple[int, ...]) -> None:
    tensors = [torch.randn(*shape, 4) + n for n in range(2)]
    mask = torch.rand(shape) < 0.7

    mixed = ScalarMix(2, do_layer_norm=True)(tensors, mask)

    expected = sum(
        (t - t[mask].mean()) / torch.sqrt(t[mask].var(unbiased=False) + 1e-13) / 2 for t in tensors
    )
    assert_close(mixed, expected)


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


def test_files_may_be_at_a_url_or_in_a_folder(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(path: Any, **_: Any) -> Path:
        return files[0].parent / Path(path).name if "://" in str(path) else Path(path)

    monkeypatch.setattr("elmokit.formats.find.local_path", fetched)
    remote = "https://host/options.json", "https://host/weights.hdf5"

    expected = represent(Elmo(*files, 1, dropout=0.0), SENTENCES)
    for both in (remote, (files[0].parent, None)):
        assert_agree(represent(Elmo(*both, 1, dropout=0.0), SENTENCES), expected)
    assert_agree(
        ElmoEmbedder(*remote).embed_batch(SENTENCES), ElmoEmbedder(*files).embed_batch(SENTENCES)
    )


# What cannot work is one line


def test_arguments_that_cannot_work_are_one_line(
    files: Files, of_words: Files, tmp_path: Path
) -> None:
    elmo, embedder = Elmo(*files, 1, vocab_to_cache=VOCABULARY), ElmoEmbedder(*files)
    bilm = elmo._elmo_lstm.bilm
    ids = batch_to_ids(SENTENCES)
    output = tmp_path / "out.hdf5"
    calls: dict[str, Any] = {
        "split it into words": lambda: batch_to_ids("The river bank"),
        "sentence 0 is 'The": lambda: embedder.embed_sentence("The river bank"),
        "not a list of words": lambda: list(embedder.embed_sentences("The river bank")),
        "batch_size is 0": lambda: embedder.embed_sentences(SENTENCES, batch_size=0),
        "output_format is 'sum'": lambda: embedder.embed_file([], output, "sum"),
        "give the open file": lambda: embedder.embed_file("in.txt", output),
        "word 0 of sentence 0 is b.a": lambda: embedder.embed_file(io.BytesIO(b"a\n"), output),
        "device .cuda:99. cannot be used": lambda: ElmoEmbedder(*files, cuda_device=99),
        "reads words by a list of its own": lambda: Elmo(*of_words, 1),
        "no such file": lambda: Elmo("missing.json", "missing.hdf5", 1),
        "give options_file and weight_file": lambda: Elmo(None, None, 1),
        "must be None where a module": lambda: Elmo(*files, 1, module=bilm),
        "module is a Linear": lambda: Elmo(None, None, 1, module=nn.Linear(1, 1)),
        "vocab_to_cache must be given to": lambda: Elmo(
            None, None, 1, module=elmo._elmo_lstm, vocab_to_cache=VOCABULARY
        ),
        "give a list of words": lambda: Elmo(*files, 1, vocab_to_cache="words"),
        "num_output_representations is 0": lambda: Elmo(*files, 0),
        "2 mix weights were given for 3": lambda: Elmo(*files, 1, scalar_mix_parameters=[0, 1]),
        "2 tensors were given to a mix of 3": lambda: ScalarMix(3)([torch.zeros(1, 1)] * 2),
        r"they must be \(batch, words, 50\)": lambda: elmo(ids[:, :, :30]),
        r"shape \(3, 50\)": lambda: elmo(ids[:, 0]),
        "one id for each word": lambda: elmo(ids, word_ids(SENTENCES)[:, :2]),
        "padding before a word": lambda: elmo(ids.flip(1)),
        "have id 99, vocab_to_cache has 8": lambda: elmo(ids[:1, :1] * 0, torch.tensor([[99]])),
    }
    for message, call in calls.items():
        with pytest.raises(ElmoError, match=message):
            call()
    assert list(tmp_path.iterdir()) == []
