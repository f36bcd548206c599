"""A Keras model that is given texts as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.adaptors.keras_backend import keras
from elmokit.adaptors.keras_layer import ElmoLayer, model_at
from elmokit.adaptors.keras_texts import texts
from elmokit.adaptors.text_reader import Progress, Spec
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.formats.files import write_atomically
from elmokit.text.characters import short

SUFFIX = ".keras"
LABELS = "labels"
WEIGHTS = "sample_weight"
NUMBER_KINDS = "biuf"
"""What NumPy calls the types that Keras takes: booleans, whole numbers, floats."""


class ElmoTextModel:
    """`fit`, `predict` and `evaluate` of a Keras model, for plain lists of texts and of numbers.

    Whatever else there is to do with the model, do with `text_model.model`.

    Args:
        model: A Keras model that begins with arrays of texts, and has an `ElmoLayer`. If it has
            several inputs, give them as it wants them, in a dict or a tuple: those that are lists
            of texts or of numbers are turned into arrays.
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
        sample_weight: Any = None,
        validation_data: tuple[Any, ...] | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Any:
        """As `keras.Model.fit`, with texts; returns the history.

        The texts are read before the first epoch, which is faster than a batch at a time;
        `progress` is told how many of how many texts are read.
        """
        if validation_data is not None:
            inputs, *others = validation_data
            names = chain([LABELS], repeat(WEIGHTS))
            validation_data = (as_inputs(inputs), *map(as_targets, others, names))
        arrays, labels = as_inputs(x), as_targets(y, LABELS)
        weights = as_targets(sample_weight, WEIGHTS)
        self._read_ahead(x, progress)
        return self.model.fit(
            arrays, labels, sample_weight=weights, validation_data=validation_data, **settings
        )

    def predict(self, x: Any, **settings: Any) -> Any:
        """As `keras.Model.predict`, with texts."""
        return self.model.predict(as_inputs(x), **settings)

    def evaluate(self, x: Any, y: Any = None, *, sample_weight: Any = None, **settings: Any) -> Any:
        """As `keras.Model.evaluate`, with texts."""
        weights = as_targets(sample_weight, WEIGHTS)
        return self.model.evaluate(
            as_inputs(x), as_targets(y, LABELS), sample_weight=weights, **settings
        )

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
    """What a model is given: lists of texts as arrays, and beside them those of numbers."""
    if isinstance(x, Mapping):
        return {name: as_input(value, f"input {name!r}") for name, value in x.items()}
    is_list = isinstance(x, tuple | list)
    if is_list and x and not are_texts(x) and not are_numbers(x):
        return tuple(as_input(value, f"input {number}") for number, value in enumerate(x))
    # Of one text, of none and of numbers alone, `texts` says what is wrong.
    return texts(x) if is_list or isinstance(x, str | bytes) or are_texts(x) else x


def as_input(value: Any, name: str) -> Any:
    """One of several inputs."""
    return as_numbers(value, name) if are_numbers(value) else as_inputs(value)


def are_texts(x: Any) -> bool:
    """Whether this is a list, an array or a column of texts."""
    if isinstance(x, str | bytes | Mapping) or not hasattr(x, "__len__") or not len(x):
        return False
    return isinstance(next(iter(x)), str)


def are_numbers(x: Any) -> bool:
    """Whether this is a list with numbers in it, or one of such lists.

    >>> are_numbers([3, 4]), are_numbers([(3,), (4,)]), are_numbers([["a"], [3]])
    (True, True, False)
    """
    if not isinstance(x, tuple | list) or not x:
        return False
    return any(map(is_number, x)) or all(map(are_numbers, x))


def is_number(x: object) -> bool:
    """Whether this is a number of Python or NumPy, or a boolean of theirs."""
    return isinstance(x, Real | np.bool_)


def as_targets(values: Any, name: str) -> Any:
    """Labels or weights of examples as an array, or as one for each output by name."""
    if isinstance(values, Mapping):
        return {output: as_targets(one, f"{name} of {output!r}") for output, one in values.items()}
    if isinstance(values, tuple | list | str | np.ndarray) or are_texts(values):
        return as_numbers(values, name)
    return values


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """An array of numbers: to Keras, a list is one of several inputs or outputs."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":  # a column of a table of many kinds may be of numbers alone
            array = np.asarray(array.tolist())
    except ValueError as error:
        raise InputError(f"{name}: rows differ in length; give as many numbers in each") from error
    if array.dtype.kind not in NUMBER_KINDS:
        among = np.asarray(values, dtype=object).flat
        odd = next((value for value in among if not is_number(value)), values)
        raise InputError(f"{name}: {short(odd)} is no number; give numbers, such as 0 and 1")
    return array
