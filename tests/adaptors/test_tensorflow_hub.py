"""The TF-Hub module's calls, against the embedder."""

from __future__ import annotations

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adaptors.allennlp_samples import SIZE, Files
from closeness import assert_agree, assert_close

from elmokit.adaptors import tensorflow_hub as hub
from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.inference.embedder import Embedder

HUB = "https://tfhub.dev/google/elmo/3"
TEXTS = ["the cat is on the mat", "dogs are in the fog"]
TOKENS = {
    "tokens": [["the", "cat", "is", "on", "the", "mat"], ["dogs", "are", "in", "the", "fog", ""]],
    "sequence_len": [6, 5],
}
SENTENCES = [text.split() for text in TEXTS]


@pytest.fixture(scope="module")
def layers(files: Files) -> list[np.ndarray]:
    """(layers, words, size) of the two sentences."""
    return Embedder.load(*files).embed_layers(SENTENCES)


@pytest.fixture
def module(files: Files) -> hub.Module:
    return hub.Module(files)


def rows(tensor: torch.Tensor) -> list[np.ndarray]:
    """Each sentence's part of (batch, words, size), padding cut off."""
    found = tensor.detach().numpy()
    return [row[: len(sentence)] for row, sentence in zip(found, SENTENCES, strict=True)]


# Outputs


@pytest.mark.parametrize(("inputs", "signature"), [(TEXTS, "default"), (TOKENS, "tokens")])
def test_outputs_are_what_the_embedder_gives(
    module: hub.Module, layers: list[np.ndarray], inputs: Any, signature: str
) -> None:
    outputs = module(inputs, signature=signature, as_dict=True)

    assert {name: tuple(tensor.shape) for name, tensor in outputs.items()} == {
        "word_emb": (2, 6, SIZE // 2),
        "lstm_outputs1": (2, 6, SIZE),
        "lstm_outputs2": (2, 6, SIZE),
        "elmo": (2, 6, SIZE),
        "default": (2, SIZE),
        "sequence_len": (2,),
    }
    assert_agree(rows(outputs["word_emb"]), [sentence[0, :, : SIZE // 2] for sentence in layers])
    assert_agree(rows(outputs["lstm_outputs1"]), [sentence[1] for sentence in layers])
    assert_agree(rows(outputs["lstm_outputs2"]), [sentence[2] for sentence in layers])
    assert_agree(rows(outputs["elmo"]), [sentence.mean(0) for sentence in layers])
    means = [sentence.mean((0, 1)) for sentence in layers]
    assert_agree(list(outputs["default"].detach().numpy()), means)
    assert outputs["sequence_len"].tolist() == [6, 5]
    for name in ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo"):
        assert not outputs[name][1, 5:].any()
    assert torch.equal(module(inputs, signature=signature), outputs["default"])


def test_state_is_zero_so_that_calls_and_batch_mates_change_nothing(module: hub.Module) -> None:
    together = module(TEXTS)
    alone = module(TEXTS[1:])

    assert torch.equal(module(TEXTS), together)
    assert_close(alone[0], together[1])


def test_empty_pieces_between_spaces_are_dropped(module: hub.Module) -> None:
    outputs = module(["  the  cat ", "", "a\tb c"], as_dict=True)

    assert outputs["sequence_len"].tolist() == [2, 0, 2]  # only spaces split a text
    assert_close(outputs["elmo"][:1, :2], module(["the cat"], as_dict=True)["elmo"])
    assert not outputs["default"][1].any()


def test_tokens_keep_the_length_they_were_padded_to(module: hub.Module) -> None:
    padded = {"tokens": [["the", "cat", "", ""]], "sequence_len": [2]}

    outputs = module(padded, signature="tokens", as_dict=True)

    assert outputs["elmo"].shape == (1, 4, SIZE)
    assert_close(outputs["default"], module(["the cat"]))


def test_arrays_and_tensors_are_taken_for_lists(module: hub.Module) -> None:
    arrays = {
        "tokens": np.array(TOKENS["tokens"]),
        "sequence_len": torch.tensor(TOKENS["sequence_len"]),
    }

    assert torch.equal(module(np.array(TEXTS)), module(TEXTS))
    assert torch.equal(module(arrays, signature="tokens"), module(TOKENS, signature="tokens"))
    lengths = list(np.array(TOKENS["sequence_len"]))
    assert torch.equal(
        module({**TOKENS, "sequence_len": lengths}, signature="tokens"), module(TEXTS)
    )


# Training


@pytest.mark.parametrize("trainable", [False, True, "lstm"])
def test_trainable_says_what_gets_gradients(files: Files, trainable: Any) -> None:
    module = hub.Module(files, trainable=trainable)

    learning = {name.split(".")[0] for name, p in module.bilm.named_parameters() if p.requires_grad}
    assert learning == ({"forward_lstm", "backward_lstm"} if trainable == "lstm" else set())
    assert all(p.requires_grad == bool(trainable) for p in module.mix.parameters())
    if trainable:
        module(TEXTS).square().sum().backward()
        assert all(p.grad.any() for p in module.parameters() if p.requires_grad)


def test_trained_scalars_decide_the_mix(files: Files, layers: list[np.ndarray]) -> None:
    module = hub.Module(files, trainable=True)
    with torch.no_grad():
        module.mix.weights.copy_(torch.tensor([0.0, 0.0, 50.0]))
        module.mix.gamma.fill_(2.0)

    found = module(TEXTS, as_dict=True)["elmo"]

    assert_agree(rows(found), [2 * sentence[2] for sentence in layers])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_module_can_be_copied_and_pickled(module: hub.Module, duplicate: Any) -> None:
    assert torch.equal(duplicate(module)(TEXTS), module(TEXTS))


# What a spec may be


@pytest.mark.parametrize(
    "address",
    [
        *(f"https://tfhub.dev/google/elmo/{version}" for version in (1, 2, 3)),
        "http://tfhub.dev/google/elmo/2?tf-hub-format=compressed",
        "https://www.kaggle.com/models/google/elmo/frameworks/tensorFlow1/variations/elmo",
        "https://www.kaggle.com/models/google/elmo/TensorFlow1/elmo/3",
        "https://storage.googleapis.com/tfhub-modules/google/elmo/3.tar.gz",
    ],
)
def test_address_of_the_hub_loads_the_chosen_model_with_one_warning(
    files: Files, module: hub.Module, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_HUB_MODEL", f"{files[0]} {files[1]}")

    with pytest.warns(ElmoWarning, match="weights differ") as caught:
        found = hub.Module(address)

    assert [warning.filename for warning in caught] == [__file__]
    assert torch.equal(found(TEXTS), module(TEXTS))


def test_chosen_model_may_be_a_folder_with_a_space_in_its_name(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(files[0].parent, tmp_path / "my model"))
    pair = f"'{folder / files[0].name}' '{folder / files[1].name}'"

    for chosen in (str(folder), pair):
        monkeypatch.setenv("ELMOKIT_HUB_MODEL", chosen)
        with pytest.warns(ElmoWarning, match="the hub is gone"):
            assert hub.Module(HUB)(TEXTS).shape == (2, SIZE)


def test_address_of_the_hub_without_a_chosen_model_loads_the_bundled_one(
    files: Files, module: hub.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = Embedder.load(*files)
    monkeypatch.delenv("ELMOKIT_HUB_MODEL", raising=False)
    monkeypatch.setattr(Embedder, "load", lambda _: bundled)

    with pytest.warns(ElmoWarning, match="the bundled model is used instead"):
        assert torch.equal(hub.Module(HUB)(TEXTS), module(TEXTS))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("no-such-folder", "ELMOKIT_HUB_MODEL: no-such-folder: there is no such"),
        ("one two three", "ELMOKIT_HUB_MODEL: the model has 3 names"),
        ("'one two", "No closing quotation"),
    ],
)
def test_chosen_model_that_cannot_be_is_one_line(
    chosen: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_HUB_MODEL", chosen)

    with pytest.raises(InputError, match=message):
        hub.Module(HUB)


# What cannot work is one line


def test_inputs_that_cannot_work_are_one_line(
    files: Files, of_words: Files, module: hub.Module
) -> None:
    tokens = TOKENS["tokens"]
    calls: dict[str, Any] = {
        "expected a list of texts, got one; write": lambda: module("the cat"),
        "text 0 is 1": lambda: module([1]),
        "texts is None": lambda: module(None),
        "texts is {'tokens'": lambda: module(TOKENS),
        "needs a dict": lambda: module(TEXTS, signature="tokens"),
        "the signature 'tokens' needs": lambda: module({"tokens": tokens}, signature="tokens"),
        "use 'default' or 'tokens'": lambda: module(TEXTS, signature="words"),
        "1 lengths for 2 sentences": lambda: module(
            {"tokens": tokens, "sequence_len": [6]}, signature="tokens"
        ),
        "sentence 1 is 7; it must be a whole number from 0 to 6": lambda: module(
            {"tokens": tokens, "sequence_len": [6, 7]}, signature="tokens"
        ),
        "is 5.0; it must": lambda: module(
            {"tokens": tokens, "sequence_len": [6, 5.0]}, signature="tokens"
        ),
        "sentence 0 is 'the cat'": lambda: module(
            {"tokens": ["the cat"], "sequence_len": [2]}, signature="tokens"
        ),
        "use True, False or 'lstm'": lambda: hub.Module(files, trainable="all"),
        r"give \(options, weights\)": lambda: hub.Module(files[:1]),
        "not the hub's ELMo": lambda: hub.Module("https://tfhub.dev/google/nnlm/1"),
        "there is no such file": lambda: hub.Module("no-such-folder"),
        "reads words": lambda: hub.Module(of_words),
    }
    for message, call in calls.items():
        with pytest.raises(ElmoError, match=message) as error:
            call()
        assert isinstance(error.value, InputError)


# As TF 2 calls it


class TensorOfTF:
    """A tensor of strings, as TensorFlow has them: bytes in an array."""

    def __init__(self, values: Any) -> None:
        self.numpy = lambda: np.array(values, dtype=object)


def in_bytes(texts: Any) -> Any:
    return texts.encode() if isinstance(texts, str) else [in_bytes(text) for text in texts]


def test_load_gives_signatures_of_all_outputs(files: Files, module: hub.Module) -> None:
    signatures = hub.load(files).signatures
    expected = module(TEXTS, as_dict=True)

    for outputs in (
        signatures["default"](TEXTS),
        signatures["default"](text=TensorOfTF(in_bytes(TEXTS))),
        signatures["tokens"](**TOKENS),
        signatures["tokens"](TOKENS),
        signatures["tokens"](
            tokens=TensorOfTF(in_bytes(TOKENS["tokens"])), sequence_len=TensorOfTF([6, 5])
        ),
    ):
        assert outputs.keys() == expected.keys()
        assert all(torch.equal(outputs[name], expected[name]) for name in expected)


def test_KerasLayer_gives_the_output_of_its_key(files: Files, module: hub.Module) -> None:
    expected = module(TEXTS, as_dict=True)

    plain = hub.KerasLayer(files, input_shape=[], dtype="string")
    words = hub.KerasLayer(files, signature="tokens", output_key="elmo", trainable=True)
    every = hub.KerasLayer(files, signature_outputs_as_dict=True)

    assert torch.equal(plain(TEXTS, training=False), expected["default"])
    assert torch.equal(words(TOKENS), expected["elmo"])
    assert every(TEXTS).keys() == expected.keys()
    assert len([one for one in words.parameters() if one.requires_grad]) == 2


def test_results_are_arrays_though_they_can_be_trained(files: Files, module: hub.Module) -> None:
    outputs = hub.Module(files, trainable=True)(TEXTS, as_dict=True)
    expected = module(TEXTS, as_dict=True)["elmo"].numpy()

    for found in (outputs["elmo"].numpy(), np.array(outputs["elmo"]), np.asarray(outputs["elmo"])):
        assert np.array_equal(found, expected)
    assert np.array_equal(np.mean(outputs["elmo"][0].numpy(), 0), expected[0].mean(0))
    assert np.array(outputs["elmo"], dtype=np.float64).dtype == np.float64
    outputs["elmo"].sum().backward()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda module: module.signatures["default"](), "one input"),
        (lambda module: module([b"\xff"]), "is not UTF-8"),
        (lambda module: module.signatures["tokens"](TEXTS), "needs a dict"),
    ],
)
def test_calls_that_cannot_work_say_why(module: hub.Module, call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call(module)


def test_an_output_that_is_not_there_is_named(files: Files) -> None:
    with pytest.raises(InputError, match="use one of word_emb, lstm_outputs1"):
        hub.KerasLayer(files, output_key="elmos")(TEXTS)
