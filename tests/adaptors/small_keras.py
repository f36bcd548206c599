"""A small Keras model of texts, and Keras itself where it is installed."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is an extra: elmokit[keras]")

from elmokit.adaptors.keras import ElmoLayer, text_input  # noqa: E402

# Keras makes arrays of tensors in a way that NumPy wants otherwise.
IGNORED = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
TEXTS = ["the cat is on the mat.", "", "dogs are in the fog", "Money talks. Who listens?"]
LABELS = [0, 1, 1, 0]


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
