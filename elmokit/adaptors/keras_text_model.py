"""A Keras model that is given texts as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmokit.adaptors.keras_backend import keras
from elmokit.adaptors.keras_layer import ElmoLayer, model_at
from elmokit.adaptors.keras_texts import texts
from elmokit.adaptors.text_reader import Progress, Spec
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.formats.files import write_atomically

SUFFIX = ".keras"


class ElmoTextModel:
    """`fit`, `predict` and `evaluate` of a Keras model, for plain lists of texts.

    Whatever else there is to do with the model, do with `text_model.model`.

    Args:
        model: A Keras model that begins with arrays of texts, and has an `ElmoLayer`. If it has
            several inputs, give them as it wants them, in a dict or a tuple: those that are lists
            of texts are turned into arrays.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, keras.Model):
            raise InputError(f"model is a {type(model).__name__}; give a Keras model")
        self.model = model

    @classmethod
    def load(cls, path: str | Path, model: Spec = None) -> ElmoTextModel:
        """Load what `save` wrote; see `load`."""
        return cls(load(path, model))

    def save(self, path: str | Path) -> None:
        """Write a `.keras` file, with the mix, the name and the checksum of the model of ELMo."""
        if Path(path).suffix != SUFFIX:
            raise InputError(f"{path}: give a name that ends in {SUFFIX}")
        with write_atomically(path) as temporary:
            self.model.save(temporary)

    def compile(self, *arguments: Any, **settings: Any) -> None:
        """As `keras.Model.compile`."""
        self.model.compile(*arguments, **settings)

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        validation_data: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Any:
        """As `keras.Model.fit`, with texts; returns the history.

        The texts are read before the first epoch, which is faster than a batch at a time;
        `progress` is told how many of how many texts are read.
        """
        if validation_data is not None:
            inputs, *labels = validation_data
            validation_data = (as_inputs(inputs), *map(as_labels, labels))
        arrays = as_inputs(x)
        self._read_ahead(x, progress)
        return self.model.fit(arrays, as_labels(y), validation_data=validation_data, **settings)

    def predict(self, x: Any, **settings: Any) -> Any:
        """As `keras.Model.predict`, with texts."""
        return self.model.predict(as_inputs(x), **settings)

    def evaluate(self, x: Any, y: Any = None, **settings: Any) -> Any:
        """As `keras.Model.evaluate`, with texts."""
        return self.model.evaluate(as_inputs(x), as_labels(y), **settings)

    def _read_ahead(self, x: Any, progress: Progress | None) -> None:
        # With several inputs only the network knows which of them a layer will read.
        if are_texts(x):
            for layer in elmo_layers(self.model):
                layer.read_ahead(x, progress)


def load(path: str | Path, model: Spec = None) -> Any:
    """Load a Keras model with an `ElmoLayer` in it from a `.keras` file.

    Args:
        path: The file.
        model: Where the model of ELMo is now, if it is no longer where it was. It must be the
            same model.
    """
    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such file; give the name of a {SUFFIX} file")
    with model_at(model):
        try:
            return keras.saving.load_model(path)
        except ElmoError:
            raise
        except (OSError, KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise FormatError(f"{path}: is not a Keras model that can be read ({why})") from error


def elmo_layers(model: Any) -> Iterator[ElmoLayer]:
    """The ELMo layers of a model, and of the models inside of it."""
    for layer in model.layers:
        if isinstance(layer, ElmoLayer):
            yield layer
        elif isinstance(layer, keras.Model):
            yield from elmo_layers(layer)


def as_inputs(x: Any) -> Any:
    """What a model is given, with lists of texts as arrays."""
    if isinstance(x, str | bytes) or are_texts(x):
        return texts(x)  # which says what is wrong with one text
    if isinstance(x, Mapping):
        return {name: as_inputs(value) for name, value in x.items()}
    if isinstance(x, tuple | list) and x:
        return tuple(map(as_inputs, x))
    return texts(x) if isinstance(x, tuple | list) else x


def are_texts(x: Any) -> bool:
    """Whether this is a list, an array or a column of texts."""
    if isinstance(x, str | bytes | Mapping) or not hasattr(x, "__len__") or not len(x):
        return False
    return isinstance(next(iter(x)), str)


def as_labels(y: Any) -> Any:
    """Labels as an array: to Keras, a list is one of several outputs."""
    return np.asarray(y) if isinstance(y, tuple | list) else y
