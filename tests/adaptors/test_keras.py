"""ELMo in Keras, against TF-Hub's calls."""

from __future__ import annotations

import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptors.allennlp_samples import LAYERS, SIZE, Files
from adaptors.small_keras import IGNORED, LABELS, TEXTS, keras, spam_model
from closeness import CLEARLY, assert_close, distance
from helpers import error_of

from elmokit.adaptors import tensorflow_hub as hub
from elmokit.adaptors.keras import (
    ElmoLayer,
    ElmoTextModel,
    import_keras,
    load,
    strings,
    text_input,
    texts,
)
from elmokit.bundled import known_versions
from elmokit.errors import FormatError, InputError
from elmokit.inference.embedder import Embedder

pytestmark = IGNORED


def numbers(output: Any) -> Any:
    return keras.tree.map_structure(keras.ops.convert_to_numpy, output)


# Texts as arrays


def test_texts_are_their_bytes_padded_with_zeros() -> None:
    array = texts(["a", "", "한"])

    assert array.dtype == np.uint8
    assert array.tolist() == [[97, 0, 0], [0, 0, 0], [0xED, 0x95, 0x9C]]
    assert texts([""]).shape == (1, 1)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_arrays_give_their_texts_back(dtype: str) -> None:
    written = ["naïve", "", "한국어 🙂", "half \ud800 pair", " blanks "]

    assert strings(texts(written).astype(dtype)) == written


def test_arrays_that_texts_did_not_make_are_an_error() -> None:
    arrays = [[0, 0, 0], [[0.5]], [[300]], [[97, 0, 97]], [[97], [0xFF]]]
    for array in map(np.array, arrays):
        error_of(strings, array, kind=InputError, after=f"an array {array.shape} is not one of")


# Outputs


def test_outputs_are_those_of_the_hub(files: Files) -> None:
    expected = numbers(hub.Module(files)(TEXTS, as_dict=True))

    outputs = numbers(ElmoLayer(files, as_dict=True)(texts(TEXTS)))

    assert outputs.keys() == expected.keys()
    for name, output in outputs.items():
        assert_close(output, expected[name])
        assert_close(numbers(ElmoLayer(files, output=name)(texts(TEXTS))), expected[name])


def test_trained_mix_decides_the_default_output_as_it_does_the_hubs(files: Files) -> None:
    layer = ElmoLayer(files)
    layer(texts(TEXTS))
    module = hub.Module(files)
    layer.set_weights([np.array([1.0, -2.0, 0.5]), np.array([3.0])])
    module.mix.load_state_dict(
        {"weights": keras.ops.array([1.0, -2.0, 0.5]), "gamma": keras.ops.array([3.0])}
    )

    assert_close(numbers(layer(texts(TEXTS))), numbers(module(TEXTS)))
    shares = numbers(module.mix.shares())
    assert layer.shares() == pytest.approx(
        {"layer 0": shares[0], "layer 1": shares[1], "layer 2": shares[2], "gamma": 3.0}
    )


def test_default_tokenizer_is_the_models_own(files: Files) -> None:
    found = numbers(ElmoLayer(files, tokenizer="default")(texts(TEXTS)))

    assert_close(found, Embedder.load(*files).encode(TEXTS, "average"))
    assert distance([found], [numbers(ElmoLayer(files)(texts(TEXTS)))]) > CLEARLY


def test_pooled_output_is_the_mean_and_the_maximum_of_each_layer(files: Files) -> None:
    layers = Embedder.load(*files).embed_layers([text.split() for text in TEXTS])
    zeros = np.zeros((LAYERS, 1, SIZE))  # in place of no words
    words = [found if found.shape[1] else zeros for found in layers]
    expected = [np.concatenate([*found.mean(1), *found.max(1)]) for found in words]
    layer = ElmoLayer(files, output="pooled")

    found = numbers(layer(texts(TEXTS)))

    assert_close(found, expected)
    assert layer(text_input()).shape == (None, 2 * LAYERS * SIZE)
    assert layer.trainable_variables == []


def test_mask_lets_keras_leave_padding_out(files: Files) -> None:
    inputs = text_input()
    words = ElmoLayer(files, output="elmo")(inputs)
    mean = keras.layers.GlobalAveragePooling1D()(words)
    model = keras.Model(inputs, mean)
    some = [text for text in TEXTS if text]

    found = model.predict(texts(some), verbose=0)

    assert_close(found, numbers(hub.Module(files)(some)))


def test_words_limit_what_is_read_and_fix_the_width(files: Files) -> None:
    layer = ElmoLayer(files, output="elmo", words=4)

    found = numbers(layer(texts(TEXTS)))

    assert found.shape == (4, 4, SIZE)
    expected = numbers(hub.Module(files)(["the cat is on"], as_dict=True)["elmo"])
    assert_close(found[:1], expected)
    assert not found[1].any()
    assert layer(text_input()).shape == (None, 4, SIZE)


def test_shapes_are_known_before_anything_is_computed(files: Files) -> None:
    specs = ElmoLayer(files, as_dict=True)(text_input())

    assert {name: spec.shape for name, spec in specs.items()} == {
        "word_emb": (None, None, SIZE // 2),
        "lstm_outputs1": (None, None, SIZE),
        "lstm_outputs2": (None, None, SIZE),
        "elmo": (None, None, SIZE),
        "default": (None, SIZE),
        "sequence_len": (None,),
    }
    assert specs["sequence_len"].dtype == "int64"
    assert ElmoLayer(files)(text_input()).shape == (None, SIZE)


def test_half_precision_is_kept(files: Files) -> None:
    model = keras.Sequential([ElmoLayer(files, dtype="mixed_bfloat16")])

    output = model(texts(TEXTS))

    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    assert_close(output, numbers(hub.Module(files)(TEXTS)), 0.05)


# Training


def test_mix_and_gamma_are_trained_and_the_bilm_is_not(files: Files) -> None:
    model = spam_model(files)
    layer = model.layers[0]
    before = {
        name: value.clone() for name, value in layer._reader.embedder.bilm.state_dict().items()
    }

    history = model.fit(texts(TEXTS), np.array(LABELS), epochs=8, batch_size=2, verbose=0)

    assert history.history["loss"][-1] < history.history["loss"][0]
    assert [variable.name for variable in layer.trainable_variables] == ["mix", "gamma"]
    assert numbers(layer.mix).any()
    assert layer.shares()["gamma"] != 1.0
    after = layer._reader.embedder.bilm.state_dict()
    assert all(after[name].equal(value) for name, value in before.items())
    assert model.count_params() == LAYERS + 1 + 8 * (SIZE + 1) + 9


def test_what_has_no_mix_to_train_trains_without_a_warning(files: Files) -> None:
    fixed = spam_model(files, trainable=False)
    fixed.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    assert not numbers(fixed.layers[0].mix).any()
    assert fixed.layers[0].trainable_variables == []

    inputs = text_input()
    words = ElmoLayer(files, output="lstm_outputs1")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GRU(4)(words)))
    model.compile(loss="mse", optimizer="sgd")

    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)

    assert model.layers[1].trainable_variables == []


@pytest.mark.parametrize(("output", "megabytes"), [("default", 512), ("elmo", 512), ("default", 0)])
def test_texts_are_read_once_whatever_the_epochs_if_there_is_a_cache(
    files: Files, output: str, megabytes: int, count_reading: Any
) -> None:
    layer = ElmoLayer(files, output=output, cache_megabytes=megabytes)
    counts = count_reading(layer._reader.embedder)

    first = numbers(layer(texts(TEXTS)))
    second = numbers(layer(texts(TEXTS[::-1])))[::-1]

    assert sum(counts) == (3 if megabytes else 6)  # the empty text is not read
    assert_close(first, second)
    layer.forget()
    layer(texts(TEXTS))
    assert sum(counts) == (6 if megabytes else 9)


def test_sequential_model_without_an_input_takes_the_array_for_floats(files: Files) -> None:
    model = keras.Sequential([ElmoLayer(files)])

    for some in (TEXTS, TEXTS[:1]):  # of another width, too
        assert_close(model.predict(texts(some), verbose=0), numbers(hub.Module(files)(some)))


# Saving and loading


def test_a_saved_layer_fetches_no_model_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.io.fetch._fetch", None)
    message = error_of(ElmoLayer.from_config, {"model": "original", "checksum": None})
    assert "the model is original, which was not fetched here before" in message


def test_saved_model_predicts_what_it_did_and_trains_on(files: Files, tmp_path: Path) -> None:
    model = spam_model(files, tokenizer="default")
    model.fit(texts(TEXTS), np.array(LABELS), epochs=3, verbose=0)
    model.save(tmp_path / "spam.keras")

    loaded = keras.saving.load_model(tmp_path / "spam.keras")

    before, after = (m.predict(texts(TEXTS), verbose=0) for m in (model, loaded))
    assert np.array_equal(before, after)
    assert loaded.layers[0].shares() == model.layers[0].shares()
    loaded.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    assert loaded.layers[0].shares() != model.layers[0].shares()


def test_file_names_the_model_and_does_not_hold_its_weights(files: Files, tmp_path: Path) -> None:
    model = spam_model(files)
    model.save(tmp_path / "spam.keras")

    with zipfile.ZipFile(tmp_path / "spam.keras") as archive:
        config = archive.read("config.json").decode()
        size = len(archive.read("model.weights.h5"))
    assert str(files[1]) in config
    assert model.layers[0].checksum in config
    held = sum(np.prod(weight.shape) for weight in model.weights)
    assert held < 200  # the biLM has thousands
    assert size < 60_000


def test_model_that_was_moved_is_found_where_it_is_now(
    files: Files, other_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before, after = (tmp_path / name for name in ("spam.keras", "before", "after"))
    shutil.copytree(files[0].parent, before)
    model = spam_model(before)
    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    model.save(path)
    before.rename(after)

    for read in (load, keras.saving.load_model, ElmoTextModel.load):
        assert "load(path, model=…)" in error_of(read, path, kind=InputError, after=f"{before}: ")
    found = load(path, model=after)

    expected = model.predict(texts(TEXTS), verbose=0)
    assert np.array_equal(found.predict(texts(TEXTS), verbose=0), expected)
    shutil.copy(other_files[1], after / files[1].name)
    for other in (other_files, after):
        assert "is another model" in error_of(load, path, model=other, kind=InputError)
    for number, model in enumerate((files, other_files), start=1):
        fingerprint = ElmoLayer(model).checksum
        monkeypatch.setitem(known_versions(), fingerprint, f"tiny {number}")
    said = error_of(load, path, model=after, kind=InputError, after=f"{after}: ")
    assert said.startswith("is another model (tiny 2) than the one trained with (tiny 1); train ag")


def test_model_in_the_working_folder_is_found_from_another(
    relative: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ElmoTextModel(spam_model(relative))
    model.fit(TEXTS, LABELS, verbose=0)
    expected = model.predict(TEXTS, verbose=0)

    model.save("before.keras")
    monkeypatch.chdir("elsewhere")  # before the second is saved, and both are loaded
    model.save("after.keras")

    for path in ("../before.keras", "after.keras"):
        assert np.array_equal(ElmoTextModel.load(path).predict(TEXTS, verbose=0), expected)


def test_file_that_names_no_absolute_path_has_the_remedy_too(files: Files) -> None:
    config = {**ElmoLayer(files).get_config(), "model": "bm"}  # as files of before have it

    assert "load(path, model=…)" in error_of(ElmoLayer.from_config, config, after="bm: ")


def test_names_of_models_are_kept_as_they_are() -> None:
    assert ElmoLayer("english-small").get_config()["model"] == "english-small"
    assert ElmoLayer().get_config()["model"] == "english-small"


def test_model_can_be_cloned_and_pickled(files: Files) -> None:
    model = spam_model(files)
    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    expected = model.predict(texts(TEXTS), verbose=0)

    for copied in (keras.models.clone_model(model), pickle.loads(pickle.dumps(model))):
        copied.set_weights(model.get_weights())
        assert np.array_equal(copied.predict(texts(TEXTS), verbose=0), expected)


def test_what_is_not_a_saved_model_is_one_line(tmp_path: Path) -> None:
    broken, absent = tmp_path / "broken.keras", tmp_path / "absent.keras"
    broken.write_bytes(b"nothing")

    for path in (broken, absent):
        error_of(load, path, kind=FormatError, after=f"{path}: ")


# Keras itself


def test_other_backends_are_an_error_before_keras_is_imported_or_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(keras.backend, "backend", lambda: "jax")
        error = error_of(import_keras, kind=InputError, after="Keras runs on 'jax'")
        assert "set KERAS_BACKEND=torch before" in error
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    error_of(import_keras, kind=InputError, after="Keras runs on 'tensorflow'")
    assert "keras" not in sys.modules
