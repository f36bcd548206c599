"""`fit`, `predict` and `evaluate` of Keras models, for plain lists of texts and of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptors.allennlp_samples import Files
from adaptors.small_keras import IGNORED, LABELS, TEXTS, keras, spam_model
from closeness import assert_close
from helpers import error_of

from elmokit.adaptors.keras import ElmoLayer, ElmoTextModel, text_input, texts
from elmokit.errors import ElmoError, InputError

pytestmark = IGNORED

COUNTS = np.array([[len(text)] for text in TEXTS], np.float32)
WEIGHTS = [1.0, 2.0, 0.0, 4.0]


def model_of_two_inputs(files: Files, numbers_first: bool = False) -> Any:
    """Takes texts, written, and a number for each, lengths."""
    keras.utils.set_random_seed(1)
    inputs = [text_input("written"), keras.Input((1,), name="lengths")]
    joined = keras.layers.Concatenate()([ElmoLayer(files)(inputs[0]), inputs[1]])
    order = inputs[::-1] if numbers_first else inputs
    model = keras.Model(order, keras.layers.Dense(1)(joined))
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.001))
    return model


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


def test_text_model_reads_texts_before_the_first_epoch(files: Files, count_reading: Any) -> None:
    model = ElmoTextModel(spam_model(files))
    counts = count_reading(model.model.layers[0]._reader.embedder)

    model.fit(TEXTS, LABELS, epochs=2, batch_size=1, verbose=0)

    assert [count for count in counts if count] == [3]


@pytest.mark.parametrize(
    "counts", [COUNTS, COUNTS.tolist(), tuple(map(len, TEXTS)), list(COUNTS[:, 0])]
)
@pytest.mark.parametrize("kind", [dict, tuple, list])
def test_texts_may_be_one_of_several_inputs(files: Files, kind: Any, counts: Any) -> None:
    model = model_of_two_inputs(files)
    inputs = {"written": TEXTS, "lengths": counts}

    found = ElmoTextModel(model).predict(
        inputs if kind is dict else kind(inputs.values()), verbose=0
    )

    expected = model.predict([texts(TEXTS), COUNTS], verbose=0)
    assert np.array_equal(found, expected)
    swapped = ElmoTextModel(model_of_two_inputs(files, numbers_first=True))
    assert np.array_equal(swapped.predict([counts, TEXTS], verbose=0), expected)


def test_lists_of_numbers_train_as_arrays_do(files: Files) -> None:
    settings: dict[str, Any] = {"epochs": 2, "shuffle": False, "verbose": 0}
    listed, plain = ElmoTextModel(model_of_two_inputs(files)), model_of_two_inputs(files)
    inputs = {"written": TEXTS, "lengths": COUNTS[:, 0].tolist()}
    arrays = {"written": texts(TEXTS), "lengths": COUNTS}
    labels, weights = np.array(LABELS), np.array(WEIGHTS)

    history = listed.fit(
        inputs,
        LABELS,
        sample_weight=WEIGHTS,
        validation_data=(inputs, LABELS, tuple(WEIGHTS)),
        **settings,
    )
    expected = plain.fit(
        arrays, labels, sample_weight=weights, validation_data=(arrays, labels, weights), **settings
    )

    for name, values in expected.history.items():
        assert_close(history.history[name], values)
    assert_close(
        listed.evaluate(inputs, LABELS, sample_weight=WEIGHTS, verbose=0),
        plain.evaluate(arrays, labels, sample_weight=weights, verbose=0),
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


@pytest.mark.parametrize(
    "labels",
    [
        ["spam", "ham", "ham", "spam"],
        np.array(["spam", "ham", "ham", "spam"])[:, None],
        [0, 1, 1, "spam"],
        {"dense": ("spam",) * 4},
    ],
)
def test_labels_that_are_texts_are_one_line(files: Files, labels: Any) -> None:
    model = ElmoTextModel(spam_model(files))

    for error in (
        error_of(model.fit, TEXTS, labels, kind=InputError, after="labels"),
        error_of(model.fit, TEXTS, LABELS, validation_data=(TEXTS, labels), after="labels"),
        error_of(model.evaluate, TEXTS, labels, kind=InputError, after="labels"),
    ):
        assert "'spam' (str" in error


def test_numbers_that_a_model_cannot_take_are_one_line(files: Files) -> None:
    model = ElmoTextModel(model_of_two_inputs(files))
    both = (TEXTS, COUNTS)
    bad = {"written": TEXTS, "lengths": [1, None, 3, 4]}

    error_of(model.predict, bad, kind=InputError, after="input 'lengths': None")
    error_of(model.predict, (TEXTS, [[1], [2, 3]]), kind=InputError, after="input 1: [1] (list)")
    error_of(model.fit, both, LABELS, sample_weight=["a"] * 4, after="sample_weight: 'a'")
    error_of(model.fit, both, [0, 1, None, 0], kind=InputError, after="labels: None")
    error_of(model.predict, [104, 105], kind=InputError, after="text 0 is 104")


def test_texts_that_a_model_cannot_take_are_one_line(files: Files, tmp_path: Path) -> None:
    model = ElmoTextModel(spam_model(files))
    calls: dict[str, Any] = {
        r"expected a list of texts, got one; write \['one text'\]": lambda: model.predict(
            "one text"
        ),
        "there are no texts": lambda: model.predict([]),
        r"text 1 is None \(NoneType\)": lambda: model.fit(["a", None], [0, 1]),
        "text 0 has a NUL": lambda: model.evaluate(["\0"], [1]),
        "texts is None": lambda: texts(None),
        "spam.h5: give a name that ends in .keras": lambda: model.save(tmp_path / "spam.h5"),
        "give a Keras model": lambda: ElmoTextModel("spam.keras"),
        "use one of word_emb": lambda: ElmoLayer(files, output="lstm_outputs3"),
        "trainable is 'lstm'": lambda: ElmoLayer(files, trainable="lstm"),
        "3 names; give": lambda: ElmoLayer([*files, files[0]]),
        "model is 1": lambda: ElmoLayer(1),
        "there is no such file": lambda: ElmoLayer("no-such-folder"),
        "tokenizer is 'treebank'": lambda: ElmoLayer(files, tokenizer="treebank"),
    }
    for message, call in calls.items():
        with pytest.raises(ElmoError, match=message):
            call()


def test_summary_is_that_of_the_model(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    ElmoTextModel(spam_model(files)).summary()
    assert "ElmoLayer" in capsys.readouterr().out
