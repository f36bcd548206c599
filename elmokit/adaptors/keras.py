"""ELMo in Keras 3, on its torch backend: `from elmokit.adaptors.keras import ElmoLayer, texts`.

```
model = keras.Sequential([
    text_input(),
    ElmoLayer(trainable=True),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(texts(["Win a prize!", "See you at six."]), np.array([1, 0]))
```
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.adaptors.tensorflow_hub import Spec, locations_of, outputs_of
from elmokit.adaptors.text_reader import (
    MEAN,
    Split,
    TextReader,
    absolute,
    checked_texts,
    fetched,
    load_shared,
)
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.inference.layers import Vectors
from elmokit.io.fetch import Progress
from elmokit.io.files import write_atomically
from elmokit.model.bilm import Layers
from elmokit.system import import_extra
from elmokit.text.characters import short

Bytes = NDArray[np.uint8]


def texts(strings: Sequence[str]) -> Bytes:
    """Make an array (texts, bytes) of texts: their UTF-8, and zeros where a text has ended.

    It is as wide as the longest text; networks take arrays of any width.

    >>> texts(["hi", "é"])
    array([[104, 105],
           [195, 169]], dtype=uint8)
    """
    found = checked_texts(strings)
    for number, text in enumerate(found):
        if "\0" in text:
            raise InputError(f"text {number} has a NUL character, which ends a text; remove it")
    # Half a pair of surrogates is not a character, but the model has its own way with it.
    array = np.array([text.encode("utf-8", "surrogatepass") for text in found])
    return array.view(np.uint8).reshape(len(found), -1)


def strings(array: NDArray[Any]) -> list[str]:
    """The texts that an array (texts, bytes) was made of; it may have become one of floats since.

    >>> strings(texts(["hi", "é"]).astype("float32"))
    ['hi', 'é']
    """
    found = array.astype(np.uint8)
    if array.ndim == 2 and np.array_equal(found, array):
        with suppress(UnicodeDecodeError):
            rows = [row.tobytes().rstrip(b"\0").decode("utf-8", "surrogatepass") for row in found]
            if not any("\0" in text for text in rows):
                return rows
    raise InputError(f"an array {array.shape} is not one of texts; make it with texts([…])")


BACKEND = "KERAS_BACKEND"


def import_keras() -> Any:
    """Import Keras with its torch backend, which is chosen here unless somebody chose before."""
    chosen_before = BACKEND in os.environ
    try:
        if "keras" not in sys.modules:
            check_backend(os.environ.setdefault(BACKEND, "torch"))
        keras = import_extra("keras", "keras", "Keras 3")
    finally:
        if not chosen_before:  # Keras has read it: the programs that we start choose for themselves
            os.environ.pop(BACKEND, None)
    check_backend(keras.backend.backend())
    return keras


def check_backend(name: str) -> None:
    """Raise for any backend but torch."""
    if name != "torch":
        raise InputError(
            f"Keras runs on {name!r}, ELMo's layer on torch alone; "
            f"set {BACKEND}=torch before importing keras"
        )


keras: Any = import_keras()


__all__ = ["ElmoLayer", "ElmoTextModel", "load", "text_input", "texts"]

POOLED = "pooled"
MIXED = ("default", "elmo")
"""The outputs that the mix decides; without one of them there is nothing to train."""
ONE_PER_TEXT = ("default", "sequence_len", POOLED)
REMEDY = "name the right one: ElmoLayer(model=…), or elmokit.adaptors.keras.load(path, model=…)"

_model_elsewhere: ContextVar[Spec] = ContextVar("model_elsewhere", default=None)
"""Where layers that are being loaded find their model, if not where it was."""


@keras.saving.register_keras_serializable("elmokit")
class ElmoLayer(keras.layers.Layer):  # type: ignore[misc]
    """Contextual vectors of texts, given as arrays that `texts` makes.

    The biLM stays as it is: what it makes of a text is computed once and cached, so that an
    epoch after the first costs little. The mix of its layers and gamma are trained. A `.keras`
    file holds these, and the name and the checksum of the model, but not its weights.

    Args:
        model: A model folder, the name of a model, or a pair of options and weights; None for the
            bundled model of English.
        output: Which of the outputs of TF-Hub's module: "default" (batch, size), the mean over
            words; "elmo" (batch, words, size); "word_emb" (batch, words, size / 2);
            "lstm_outputs1", … (batch, words, size); "sequence_len" (batch,). One more is ours:
            "pooled" (batch, 2 * layers * size), for each layer the mean over words, then for each
            the maximum; it has no mix to train.
        as_dict: Give all outputs of TF-Hub's module, by name.
        tokenizer: "spaces" splits texts as the hub's module does; "default" uses the tokenizer
            that the model was trained with.
        words: Read this many words of a text and pad to as many; None reads all, and pads to the
            longest text of a batch.
        cache_megabytes: Size of the cache of texts; 0 for none.
        checksum: Of the model that it must be.
        trainable: Whether mix and gamma are trained.
        settings: Those of any layer: `name`, `dtype`.
    """

    def __init__(
        self,
        model: Spec = None,
        *,
        output: str = "default",
        as_dict: bool = False,
        tokenizer: Split = "spaces",
        words: int | None = None,
        cache_megabytes: int = 512,
        checksum: str | None = None,
        trainable: bool = True,
        **settings: Any,
    ) -> None:
        if not isinstance(trainable, bool):
            raise InputError(
                f"trainable is {trainable!r}; use True (the mix) or False; "
                "elmokit.adaptors.tensorflow_hub.Module can train the LSTM too"
            )
        super().__init__(trainable=trainable, **settings)
        self.supports_jit = False
        # Keras moves its own variables only: the model goes where they will be.
        device = keras.ops.zeros(()).device
        loaded = load_shared(model, device, expected=checksum, remedy=REMEDY)
        # Now, since the working folder may be another by the time that the layer is saved.
        self.model = locations_of(absolute(model))
        self.checksum = loaded.checksum
        self.output_name = output
        self.as_dict = as_dict
        self.tokenizer = tokenizer
        self.words = words
        self.cache_megabytes = cache_megabytes
        self._reader = TextReader(
            loaded.embedder, tokenizer, words=words, megabytes=cache_megabytes
        )
        self._layer_count = loaded.embedder.config.layer_count
        self._needs_words = as_dict or output not in ONE_PER_TEXT
        self._reads_pooled = not as_dict and output in ("default", POOLED)
        if output not in self.output_names:
            raise InputError(f"output is {output!r}; use one of {', '.join(self.output_names)}")

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs that there are."""
        layers = (f"lstm_outputs{number}" for number in range(1, self._layer_count))
        return ("word_emb", *layers, "elmo", "default", "sequence_len", POOLED)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Make the mix, a plain average at first."""
        if len(input_shape) != 2:
            raise InputError(f"texts are arrays (batch, bytes), not {input_shape}; use texts([…])")
        # Keras would warn, at each step, of what can be trained but has no gradient.
        learns = self.as_dict or self.output_name in MIXED
        self.mix = self.add_weight(
            name="mix", shape=(self._layer_count,), initializer="zeros", trainable=learns
        )
        self.gamma = self.add_weight(name="gamma", shape=(1,), initializer="ones", trainable=learns)

    def call(self, inputs: Any) -> Any:
        """Give the outputs of an array (batch, bytes)."""
        gamma = keras.ops.convert_to_tensor(self.gamma)
        if self.output_name == POOLED and not self.as_dict:
            return self._pooled(inputs).to(gamma)
        vectors, mask = self._batch(inputs)
        vectors = vectors.to(gamma)
        elmo = gamma * torch.tensordot(keras.ops.softmax(self.mix), vectors, dims=1)
        outputs = outputs_of(Layers(vectors, mask.to(gamma.device)), elmo)
        return outputs if self.as_dict else outputs[self.output_name]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Which positions of each output (batch, words) are words; None for one vector a text."""
        del previous_mask
        known = not isinstance(inputs, keras.KerasTensor) and not inputs.is_meta
        if not known or not self._needs_words:
            return None
        mask = mask_of(self._read(inputs), self.words).to(inputs.device)
        if not self.as_dict:
            return mask
        names = (name for name in self.output_names if name != POOLED)
        return {name: None if name in ONE_PER_TEXT else mask for name in names}

    def shares(self) -> dict[str, float]:
        """The share of each layer in the mix, and gamma, as they are now."""
        shares = keras.ops.convert_to_numpy(keras.ops.softmax(self.mix))
        return {
            **{f"layer {number}": float(share) for number, share in enumerate(shares)},
            "gamma": float(keras.ops.convert_to_numpy(self.gamma)[0]),
        }

    def read_ahead(self, strings: Sequence[str], progress: Progress | None = None) -> None:
        """Read texts now, those of like length together, as far as there is room for them."""
        found = checked_texts(strings)
        self._reader.read_ahead(found, pooled=self._reads_pooled, progress=progress)

    def forget(self) -> None:
        """Forget the texts that were read."""
        self._reader.forget()

    def get_config(self) -> dict[str, Any]:
        """What a `.keras` file has of the layer, besides its weights."""
        return {
            **super().get_config(),
            "model": self.model[0] if len(self.model) == 1 else list(self.model),
            "output": self.output_name,
            "as_dict": self.as_dict,
            "tokenizer": self.tokenizer,
            "words": self.words,
            "cache_megabytes": self.cache_megabytes,
            "checksum": self.checksum,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ElmoLayer:
        """The layer that `get_config` described, with the same model or none."""
        return cls(**{**config, "model": _model_elsewhere.get() or fetched(config.get("model"))})

    def _read(self, inputs: Tensor) -> list[Vectors]:
        """What the outputs need of each text: (layers, words, size).

        The mean of the mix is the mix of the means: for the mean alone, that of the words will do.
        """
        found = self._vectors(inputs)
        if not self._reads_pooled:
            return found
        return [rows[MEAN, : self._layer_count, None] for rows in found]

    def _vectors(self, inputs: Tensor) -> list[Vectors]:
        """The vectors of each text, pooled where no output needs those of single words."""
        read = strings(keras.ops.convert_to_numpy(inputs))
        return self._reader.read(read, pooled=self._reads_pooled)

    def _batch(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Layers (layers, batch, words, size) of texts, zero where a text has ended, and a mask."""
        size = self._reader.embedder.vector_size
        if inputs.is_meta:  # Keras asks for shapes; how many words there are, nobody can tell
            shape = (inputs.shape[0], self.words or inputs.shape[1])
            mask = torch.empty(shape, dtype=torch.bool, device="meta")
            return torch.empty(self._layer_count, *shape, size, device="meta"), mask
        found = self._read(inputs)
        mask = mask_of(found, self.words if self._needs_words else None)
        padded = torch.zeros(self._layer_count, *mask.shape, size)
        for row, layers in enumerate(found):
            padded[:, row, : layers.shape[1]] = torch.from_numpy(layers)
        return padded, mask

    def _pooled(self, inputs: Tensor) -> Tensor:
        """Mean and maximum of each layer (batch, 2 * layers * size)."""
        if inputs.is_meta:
            size = 2 * self._layer_count * self._reader.embedder.vector_size
            return torch.empty(inputs.shape[0], size, device="meta")
        pooled = np.stack(self._vectors(inputs))
        return torch.from_numpy(pooled[:, :, : self._layer_count].reshape(len(pooled), -1))


def mask_of(layers: Sequence[Vectors], words: int | None) -> Tensor:
    """Where texts of (layers, words, size) have words: (batch, words), one of these at least."""
    lengths = torch.tensor([found.shape[1] for found in layers], dtype=torch.long)
    width = max(1, int(lengths.max())) if words is None else words
    return torch.arange(width) < lengths[:, None]


def text_input(name: str | None = None) -> Any:
    """Where arrays of texts enter a functional or sequential model: `keras.Input` for bytes."""
    return keras.Input(shape=(None,), dtype="uint8", name=name)


SUFFIX = ".keras"
LABELS = "labels"
WEIGHTS = "sample_weight"


class ElmoTextModel:
    """`fit`, `predict` and `evaluate` of a Keras model, for plain lists of texts and of numbers.

    The model begins with arrays of texts, and has an `ElmoLayer`. If it has several inputs, give
    them as it wants them, in a dict or a tuple: those that are lists of texts or of numbers are
    turned into arrays. Whatever else there is to do with it, do with `text_model.model`.
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

    def summary(self, **settings: Any) -> None:
        """As `keras.Model.summary`: print the layers, their shapes and their weights."""
        self.model.summary(**settings)

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
            numbers = map(as_numbers, others, (LABELS, WEIGHTS))
            validation_data = (as_inputs(inputs), *numbers)
        arrays, labels = as_inputs(x), as_numbers(y, LABELS)
        weights = as_numbers(sample_weight, WEIGHTS)
        if are_texts(x):  # with several inputs only the network knows which of them a layer reads
            for layer in elmo_layers(self.model):
                layer.read_ahead(x, progress)
        return self.model.fit(
            arrays, labels, sample_weight=weights, validation_data=validation_data, **settings
        )

    def predict(self, x: Any, **settings: Any) -> Any:
        """As `keras.Model.predict`, with texts."""
        return self.model.predict(as_inputs(x), **settings)

    def evaluate(self, x: Any, y: Any = None, *, sample_weight: Any = None, **settings: Any) -> Any:
        """As `keras.Model.evaluate`, with texts."""
        weights = as_numbers(sample_weight, WEIGHTS)
        return self.model.evaluate(
            as_inputs(x), as_numbers(y, LABELS), sample_weight=weights, **settings
        )


def load(path: str | Path, model: Spec = None) -> Any:
    """Load a `.keras` file with an `ElmoLayer`; `model` says where ELMo's is, if elsewhere."""
    token = _model_elsewhere.set(model)
    try:
        return keras.saving.load_model(path)
    except ElmoError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: is not a Keras model that can be read ({why})") from error
    finally:
        _model_elsewhere.reset(token)


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
    if is_list and x and all(hasattr(part, "__len__") and not isinstance(part, str) for part in x):
        return tuple(as_input(value, f"input {number}") for number, value in enumerate(x))
    # Of one text, of none and of numbers alone, `texts` says what is wrong.
    return texts(x) if is_list or isinstance(x, str | bytes) or are_texts(x) else x


def as_input(value: Any, name: str) -> Any:
    """One of several inputs."""
    return texts(value) if are_texts(value) else as_numbers(value, name)


def are_texts(x: Any) -> bool:
    """Whether this is a list, an array or a column of texts."""
    if isinstance(x, str | bytes | Mapping) or not hasattr(x, "__len__") or not len(x):
        return False
    return isinstance(next(iter(x)), str)


def as_numbers(values: Any, name: str) -> Any:
    """Numbers of examples as an array, or as one for each output by name.

    To Keras, a list is one of several inputs or outputs. What is not a list stays as it is.
    """
    if isinstance(values, Mapping):
        return {output: as_numbers(one, f"{name} of {output!r}") for output, one in values.items()}
    is_list = isinstance(values, tuple | list | str) or are_texts(values)
    if not is_list and not (isinstance(values, np.ndarray) and values.dtype.kind in "OSU"):
        return values
    objects = np.asarray(values, dtype=object)
    for one in objects.flat:
        if not isinstance(one, Real | np.bool_):
            raise InputError(
                f"{name}: {short(one)} is not a number; give numbers, as many for each example"
            )
    return np.asarray(objects.tolist())
