"""ELMo in Keras, against TF-Hub's calls."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allennlp_samples import LAYERS, SIZE, Files
from closeness import CLEARLY, assert_close, distance

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is an extra: elmokit[keras]")

from elmokit.adaptors import tensorflow_hub as hub  # noqa: E402
from elmokit.adaptors.keras import (  # noqa: E402
    ElmoLayer,
    ElmoTextModel,
    import_keras,
    load,
    strings,
    text_input,
    texts,
)
from elmokit.errors import ConfigError, FormatError, InputError  # noqa: E402
from elmokit.inference.embedder import Embedder  # noqa: E402

# Keras makes arrays of tensors in a way that NumPy wants otherwise.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

TEXTS = ["the cat is on the mat.", "", "dogs are in the fog", "Money talks. Who listens?"]
LABELS = [0, 1, 1, 0]


def numbers(output: Any) -> Any:
    return keras.tree.map_structure(keras.ops.convert_to_numpy, output)


def spam_model(files: Any, **settings: Any) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            text_input(),
            ElmoLayer(files, **settings),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.05)
    model.compile(loss="binary_crossentropy", optimizer=optimizer, metrics=["accuracy"])
    return model


def words_read(layer: ElmoLayer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of texts whenever the biLM has to read some."""
    counts: list[int] = []
    embedder = layer._reader.embedder
    stream = embedder.embed_stream

    def counted(sentences: Any, layers: str) -> Any:
        listed = list(sentences)
        counts.append(len(listed))
        return stream(listed, layers)

    monkeypatch.setattr(embedder, "embed_stream", counted)
    return counts


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


def test_arrays_and_tuples_of_texts_are_taken_for_lists() -> None:
    assert np.array_equal(texts(np.array(TEXTS)), texts(TEXTS))
    assert np.array_equal(texts(tuple(TEXTS)), texts(TEXTS))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("one text", r"expected a list of texts, got one; write \['one text'\]"),
        ([], "there are no texts"),
        (["a", 1], r"text 1 is 1 \(int\), not a string"),
        (["a\0b"], "text 0 has a NUL character"),
        (None, "texts is None"),
    ],
)
def test_texts_that_cannot_be_are_one_line(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        texts(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, np.uint8), "not one of shape"),
        (np.array([[0.5]]), "no bytes"),
        (np.array([[300]]), "no bytes"),
        (np.array([[97, 0, 97]]), "row 0 continues behind its end"),
        (np.array([[97], [0xFF]]), "row 1 is not UTF-8"),
    ],
)
def test_arrays_that_texts_did_not_make_are_refused(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        strings(array)


# Outputs


def test_outputs_are_those_of_the_hub(files: Files) -> None:
    expected = numbers(hub.Module(files)(TEXTS, as_dict=True))

    outputs = numbers(ElmoLayer(files, as_dict=True)(texts(TEXTS)))

    assert outputs.keys() == expected.keys()
    for name, output in outputs.items():
        assert_close(output, expected[name])


@pytest.mark.parametrize("output", ["default", "elmo", "word_emb", "lstm_outputs2", "sequence_len"])
def test_one_output_is_that_of_the_dict(files: Files, output: str) -> None:
    expected = numbers(hub.Module(files)(TEXTS, as_dict=True))[output]

    found = numbers(ElmoLayer(files, output=output)(texts(TEXTS)))

    assert_close(found, expected)


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
    layer = ElmoLayer(files, tokenizer="default")

    found = numbers(layer(texts(TEXTS)))

    assert_close(found, Embedder.load(*files).encode(TEXTS))
    assert distance([found], [numbers(ElmoLayer(files)(texts(TEXTS)))]) > CLEARLY


def test_pooled_output_is_the_mean_and_the_maximum_of_each_layer(files: Files) -> None:
    layers = Embedder.load(*files).embed_layers([text.split() for text in TEXTS])
    zeros = np.zeros((LAYERS, 1, SIZE))  # in place of no words
    words = [found if found.shape[1] else zeros for found in layers]
    expected = [np.concatenate([*found.mean(1), *found.max(1)]) for found in words]
    layer = ElmoLayer(files, output="pooled")

    found = numbers(layer(texts(TEXTS)))

    assert_close(found, expected)
    assert layer.compute_output_shape((None, None)) == (None, 2 * LAYERS * SIZE)
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
    assert layer.compute_output_shape((None, None)) == (None, 4, SIZE)


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
    assert ElmoLayer(files).compute_output_shape((7, 30)) == (7, SIZE)


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


def test_layer_that_is_not_trainable_keeps_its_average(files: Files) -> None:
    model = spam_model(files, trainable=False)

    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)

    assert not numbers(model.layers[0].mix).any()
    assert model.layers[0].trainable_variables == []


def test_output_without_a_mix_trains_without_a_warning(files: Files) -> None:
    inputs = text_input()
    words = ElmoLayer(files, output="lstm_outputs1")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GRU(4)(words)))
    model.compile(loss="mse", optimizer="sgd")

    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)

    assert model.layers[1].trainable_variables == []


@pytest.mark.parametrize("output", ["default", "elmo"])
def test_texts_are_read_once_whatever_the_epochs(
    files: Files, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = ElmoLayer(files, output=output)
    counts = words_read(layer, monkeypatch)

    first = numbers(layer(texts(TEXTS)))
    second = numbers(layer(texts(TEXTS[::-1])))[::-1]

    assert sum(counts) == 3  # the empty text is not read
    assert np.array_equal(first, second)
    layer.forget()
    layer(texts(TEXTS))
    assert sum(counts) == 6


def test_layer_without_a_memory_reads_texts_anew(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = ElmoLayer(files, cache_megabytes=0)
    counts = words_read(layer, monkeypatch)

    first, second = (numbers(layer(texts(TEXTS))) for _ in range(2))

    assert sum(counts) == 6
    assert np.array_equal(first, second)


def test_sequential_model_without_an_input_takes_the_array_for_floats(files: Files) -> None:
    model = keras.Sequential([ElmoLayer(files)])

    for some in (TEXTS, TEXTS[:1]):  # of another width, too
        found = model.predict(texts(some), verbose=0)
        assert_close(found, numbers(hub.Module(files)(some)))


# Saving and loading


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


@pytest.fixture
def moved(files: Files, tmp_path: Path) -> tuple[Path, Any]:
    """A saved model whose model of ELMo has been moved since, and what it predicted."""
    folder = tmp_path / "before"
    shutil.copytree(files[0].parent, folder)
    model = spam_model(folder)
    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    model.save(tmp_path / "spam.keras")
    folder.rename(tmp_path / "after")
    return tmp_path / "spam.keras", model.predict(texts(TEXTS), verbose=0)


def test_model_that_was_moved_is_found_where_it_is_now(moved: tuple[Path, Any]) -> None:
    path, expected = moved

    with pytest.raises(InputError, match="before: there is no such file"):
        load(path)
    found = load(path, model=path.parent / "after")

    assert np.array_equal(found.predict(texts(TEXTS), verbose=0), expected)


def test_model_that_is_gone_is_one_line_with_the_remedy(moved: tuple[Path, Any]) -> None:
    path, _ = moved

    for read in (load, keras.saving.load_model, ElmoTextModel.load):
        with pytest.raises(InputError, match=r"before: .*keras\.load\(path, model=…\)") as error:
            read(path)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="elsewhere: there is no such file") as error:
        load(path, model="elsewhere")
    assert "load(path" not in str(error.value)  # which is what was done


@pytest.mark.parametrize("name", ["bm", ("bm/options.json", Path("bm/weights.hdf5"))])
def test_model_in_the_working_folder_is_found_from_another(
    files: Files, name: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bm").mkdir()
    shutil.copy(files[0], tmp_path / "bm/options.json")
    shutil.copy(files[1], tmp_path / "bm/weights.hdf5")
    monkeypatch.chdir(tmp_path)
    model = ElmoTextModel(spam_model(name))
    model.fit(TEXTS, LABELS, verbose=0)
    expected = model.predict(TEXTS, verbose=0)

    model.save("before.keras")
    monkeypatch.chdir("elsewhere")  # before the second is saved, and both are loaded
    model.save("after.keras")

    for path in ("../before.keras", "after.keras"):
        assert np.array_equal(ElmoTextModel.load(path).predict(TEXTS, verbose=0), expected)


def test_file_that_names_no_whole_path_has_the_remedy_too(files: Files) -> None:
    config = {**ElmoLayer(files).get_config(), "model": "bm"}  # as files of before have it

    with pytest.raises(InputError, match=r"^bm: there is no such .*load\(path, model=…\)"):
        ElmoLayer.from_config(config)


def test_names_of_models_are_kept_as_they_are() -> None:
    assert ElmoLayer("english-small").get_config()["model"] == "english-small"
    assert ElmoLayer().get_config()["model"] == "english-small"


def test_another_model_is_refused_in_one_line(moved: tuple[Path, Any], other_files: Files) -> None:
    path, _ = moved

    for model in (other_files, other_files[0].parent):
        with pytest.raises(InputError, match="another model than the one trained with") as error:
            load(path, model=model)
        assert "\n" not in str(error.value)


def test_files_in_place_of_those_trained_with_are_refused(
    files: Files, other_files: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(files[0].parent, folder)
    ElmoTextModel(spam_model(folder)).save(tmp_path / "spam.keras")
    shutil.copy(other_files[1], folder / files[1].name)

    with pytest.raises(InputError, match="another model"):
        keras.saving.load_model(tmp_path / "spam.keras")


def test_model_can_be_cloned_and_pickled(files: Files) -> None:
    model = spam_model(files)
    model.fit(texts(TEXTS), np.array(LABELS), verbose=0)
    expected = model.predict(texts(TEXTS), verbose=0)

    for copied in (keras.models.clone_model(model), pickle.loads(pickle.dumps(model))):
        copied.set_weights(model.get_weights())
        assert np.array_equal(copied.predict(texts(TEXTS), verbose=0), expected)


def test_what_is_no_saved_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.keras").write_bytes(b"nothing")

    with pytest.raises(FormatError, match=r"broken.keras: is not a Keras model") as error:
        load(tmp_path / "broken.keras")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="there is no such file"):
        load(tmp_path / "absent.keras")


# Plain lists of texts


def test_text_model_takes_lists_of_texts(files: Files, tmp_path: Path) -> None:
    model = ElmoTextModel(spam_model(files))
    plain = spam_model(files)
    told: list[tuple[int, int | None]] = []

    history = model.fit(
        TEXTS,
        LABELS,
        epochs=2,
        batch_size=2,
        shuffle=False,
        verbose=0,
        validation_data=(TEXTS, LABELS),
        progress=lambda *done: told.append(done),
    )
    expected = plain.fit(
        texts(TEXTS), np.array(LABELS), epochs=2, batch_size=2, shuffle=False, verbose=0
    )

    assert told == [(4, 4)]
    assert_close(history.history["loss"], expected.history["loss"])
    assert len(history.history["val_accuracy"]) == 2
    predicted = model.predict(TEXTS, verbose=0)
    assert_close(predicted, plain.predict(texts(TEXTS), verbose=0))
    assert np.array_equal(model.predict(np.array(TEXTS), verbose=0), predicted)
    loss, accuracy = model.evaluate(TEXTS, LABELS, verbose=0)
    assert accuracy == np.mean((predicted[:, 0] > 0.5) == LABELS)
    model.save(tmp_path / "spam.keras")
    loaded = ElmoTextModel.load(tmp_path / "spam.keras")
    assert np.array_equal(loaded.predict(TEXTS, verbose=0), predicted)
    assert loaded.evaluate(TEXTS, LABELS, verbose=0)[0] == loss


def test_text_model_reads_texts_before_the_first_epoch(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ElmoTextModel(spam_model(files))
    counts = words_read(model.model.layers[0], monkeypatch)

    model.fit(TEXTS, LABELS, epochs=2, batch_size=1, verbose=0)

    assert [count for count in counts if count] == [3]


def model_of_two_inputs(files: Files) -> Any:
    """Takes texts, written, and a number for each, lengths."""
    written, lengths = text_input("written"), keras.Input((1,), name="lengths")
    joined = keras.layers.Concatenate()([ElmoLayer(files)(written), lengths])
    model = keras.Model([written, lengths], keras.layers.Dense(1)(joined))
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.001))
    return model


COUNTS = np.array([[len(text)] for text in TEXTS], np.float32)


@pytest.mark.parametrize(
    "counts",
    [
        COUNTS,
        COUNTS.tolist(),
        COUNTS[:, 0].tolist(),
        tuple(map(len, TEXTS)),
        list(COUNTS[:, 0]),
    ],
)
@pytest.mark.parametrize("kind", [dict, tuple, list])
def test_texts_may_be_one_of_several_inputs(files: Files, kind: Any, counts: Any) -> None:
    model = model_of_two_inputs(files)
    inputs = {"written": TEXTS, "lengths": counts}

    found = ElmoTextModel(model).predict(
        inputs if kind is dict else kind(inputs.values()), verbose=0
    )

    assert np.array_equal(found, model.predict([texts(TEXTS), COUNTS], verbose=0))


def test_numbers_may_come_before_the_texts(files: Files) -> None:
    written, lengths = text_input("written"), keras.Input((1,), name="lengths")
    joined = keras.layers.Concatenate()([lengths, ElmoLayer(files)(written)])
    model = ElmoTextModel(keras.Model([lengths, written], joined))

    found = model.predict([COUNTS.tolist(), TEXTS], verbose=0)

    assert np.array_equal(found[:, :1], COUNTS)


def test_lists_of_numbers_train_as_arrays_do(files: Files) -> None:
    weights = [1.0, 2.0, 0.0, 4.0]
    settings: dict[str, Any] = {"epochs": 2, "shuffle": False, "verbose": 0}
    keras.utils.set_random_seed(1)
    listed = ElmoTextModel(model_of_two_inputs(files))
    keras.utils.set_random_seed(1)
    plain = model_of_two_inputs(files)
    inputs = {"written": TEXTS, "lengths": COUNTS[:, 0].tolist()}
    arrays = {"written": texts(TEXTS), "lengths": COUNTS}

    history = listed.fit(
        inputs,
        LABELS,
        sample_weight=weights,
        validation_data=(inputs, LABELS, tuple(weights)),
        **settings,
    )
    expected = plain.fit(
        arrays,
        np.array(LABELS),
        sample_weight=np.array(weights),
        validation_data=(arrays, np.array(LABELS), np.array(weights)),
        **settings,
    )

    for name, values in expected.history.items():
        assert_close(history.history[name], values)
    assert_close(
        listed.evaluate(inputs, LABELS, sample_weight=weights, verbose=0),
        plain.evaluate(arrays, np.array(LABELS), sample_weight=np.array(weights), verbose=0),
    )


def test_labels_of_several_outputs_are_given_by_name(files: Files) -> None:
    inputs = text_input()
    vectors = ElmoLayer(files)(inputs)
    outputs = {name: keras.layers.Dense(1, name=name)(vectors) for name in ("spam", "rude")}
    model = keras.Model(inputs, outputs)
    model.compile(loss={"spam": "mse", "rude": "mse"})
    labels = {"spam": LABELS, "rude": LABELS[::-1]}

    found = ElmoTextModel(model).evaluate(TEXTS, labels, verbose=0)

    arrays = {name: np.array(values) for name, values in labels.items()}
    assert_close(found, model.evaluate(texts(TEXTS), arrays, verbose=0))


def test_labels_out_of_a_table_of_objects_are_numbers(files: Files) -> None:
    table = np.array(list(zip(TEXTS, LABELS, strict=True)), dtype=object)
    model = ElmoTextModel(spam_model(files))

    found = model.evaluate(table[:, 0], table[:, 1], verbose=0)

    assert_close(found, model.evaluate(TEXTS, LABELS, verbose=0))


SPAM_OR_HAM = ["spam", "ham", "ham", "spam"]


@pytest.mark.parametrize(
    "labels",
    [
        SPAM_OR_HAM,
        tuple(SPAM_OR_HAM),
        np.array(SPAM_OR_HAM),
        np.array(SPAM_OR_HAM)[:, None],
        [[label] for label in SPAM_OR_HAM],
        [0, 1, 1, "spam"],
        {"dense": SPAM_OR_HAM},
    ],
)
def test_labels_that_are_texts_are_one_line(files: Files, labels: Any) -> None:
    model = ElmoTextModel(spam_model(files))
    message = r"^labels.*: 'spam' \(str_?\) is no number; give numbers, such as 0 and 1$"

    with pytest.raises(InputError, match=message):
        model.fit(TEXTS, labels)
    with pytest.raises(InputError, match=message):
        model.fit(TEXTS, LABELS, validation_data=(TEXTS, labels))
    with pytest.raises(InputError, match=message):
        model.evaluate(TEXTS, labels)


def test_numbers_that_a_model_cannot_take_are_one_line(files: Files) -> None:
    model = ElmoTextModel(model_of_two_inputs(files))
    calls: dict[str, Any] = {
        r"^input 'lengths': None \(NoneType\) is no number": lambda: model.predict(
            {"written": TEXTS, "lengths": [1, None, 3, 4]}
        ),
        "^input 1: rows differ in length": lambda: model.predict((TEXTS, [[1], [2, 3]])),
        "^sample_weight: 'a'": lambda: model.fit((TEXTS, COUNTS), LABELS, sample_weight=["a"] * 4),
        r"^labels: None": lambda: model.fit((TEXTS, COUNTS), [0, 1, None, 0]),
        r"^text 0 is 104 \(int\), not a string": lambda: model.predict([104, 105]),
        r"^text 0 is \[104\] \(list\), not a string": lambda: model.predict([[104], [105]]),
    }
    for message, call in calls.items():
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_texts_that_a_model_cannot_take_are_one_line(files: Files, tmp_path: Path) -> None:
    model = ElmoTextModel(spam_model(files))
    calls: dict[str, Any] = {
        "expected a list of texts, got one": lambda: model.predict("one text"),
        "there are no texts": lambda: model.predict([]),
        "text 1 is None": lambda: model.fit(["a", None], [0, 1]),
        "NUL": lambda: model.evaluate(["\0"], [1]),
        "ends in .keras": lambda: model.save(tmp_path / "spam.h5"),
        "give a Keras model": lambda: ElmoTextModel("spam.keras"),
        "use one of word_emb": lambda: ElmoLayer(files, output="lstm_outputs3"),
        "trainable is 'lstm'": lambda: ElmoLayer(files, trainable="lstm"),
        "3 entries; give": lambda: ElmoLayer([*files, files[0]]),
        "model is 1": lambda: ElmoLayer(1),
        "there is no such file": lambda: ElmoLayer("no-such-folder"),
    }
    for message, call in calls.items():
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="tokenizer is 'treebank'"):
        ElmoLayer(files, tokenizer="treebank")


# Keras itself


def test_other_backends_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")

    with pytest.raises(InputError, match=r"runs on 'jax'.*set KERAS_BACKEND=torch before"):
        import_keras()


def test_backend_that_is_set_is_refused_before_keras_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")

    with pytest.raises(InputError, match="runs on 'tensorflow'"):
        import_keras()

    assert "keras" not in sys.modules


def test_missing_keras_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)

    with pytest.raises(InputError, match=r'run: pip install "elmokit\[keras\]"'):
        import_keras()
