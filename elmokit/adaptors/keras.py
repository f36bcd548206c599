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
from contextvars import ContextVar
from itertools import chain, repeat
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.adaptors.tensorflow_hub import outputs_of
from elmokit.adaptors.text_reader import (
    MEAN,
    Progress,
    Spec,
    Split,
    TextReader,
    absolute,
    check_checksum,
    check_there,
    checked_texts,
    load_shared,
    locations_of,
)
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.inference.layers import Vectors
from elmokit.io.files import write_atomically
from elmokit.model.bilm import Layers
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
    if array.ndim != 2:
        raise InputError(
            f"texts are an array (texts, bytes), not one of shape {array.shape}; use texts([…])"
        )
    found = array.astype(np.uint8)
    if not np.array_equal(found, array):
        raise InputError("the array has numbers that are no bytes; make it with texts([…])")
    return [string(row.tobytes().rstrip(b"\0"), number) for number, row in enumerate(found)]


def string(row: bytes, number: int) -> str:
    """The text of one row."""
    if b"\0" in row:
        raise InputError(f"row {number} continues behind its end; make the array with texts([…])")
    try:
        return row.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InputError(f"row {number} is not UTF-8; make the array with texts([…])") from None


BACKEND = "KERAS_BACKEND"


def import_keras() -> Any:
    """Import Keras with its torch backend, which is chosen here unless somebody chose before."""
    chosen_before = BACKEND in os.environ
    try:
        if "keras" not in sys.modules:
            check_backend(os.environ.setdefault(BACKEND, "torch"))
        import keras  # type: ignore[import-untyped]
    except ImportError as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f'Keras 3 cannot be imported ({why}); run: pip install "elmokit[keras]"'
        ) from error
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
REMEDY = "elmokit.adaptors.keras.load(path, model=…) names the right one"

Shape = tuple[int | None, ...]

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
        loaded = load_shared(model, keras.ops.zeros(()).device)
        check_checksum(loaded, checksum, model, REMEDY)
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
        if output not in self.output_names:
            raise InputError(f"output is {output!r}; use one of {', '.join(self.output_names)}")

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs that there are."""
        return tuple(self._specs(None))

    def build(self, input_shape: Shape) -> None:
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
        if inputs.is_meta:  # Keras asks for shapes this way, too
            return self._of_no_values(inputs)
        some_texts = strings(array_of(inputs))
        gamma = keras.ops.convert_to_tensor(self.gamma)
        if self.output_name == POOLED and not self.as_dict:
            pooled = np.stack(self._reader.pooled(some_texts))[:, :, : self._layer_count]
            return torch.from_numpy(pooled.reshape(len(pooled), -1)).to(gamma)
        array, mask = self._batch(some_texts)
        vectors = torch.from_numpy(array).to(gamma)
        elmo = gamma * torch.tensordot(keras.ops.softmax(self.mix), vectors, dims=1)
        return self._chosen(outputs_of(Layers(vectors, mask.to(gamma.device)), elmo))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Which positions of each output (batch, words) are words; None for one vector a text."""
        del previous_mask
        known = not isinstance(inputs, keras.KerasTensor) and not inputs.is_meta
        if not known or not self._needs_words:
            return None
        mask = mask_of(self._read(strings(array_of(inputs))), self.words).to(inputs.device)
        masks = {name: None if name in ONE_PER_TEXT else mask for name in self.output_names}
        return self._chosen(masks)

    def compute_output_shape(self, input_shape: Shape) -> Any:
        """The shape of the output, or of all by name."""
        return self._chosen(
            {name: spec.shape for name, spec in self._specs(input_shape[0]).items()}
        )

    def compute_output_spec(self, inputs: Any) -> Any:
        """Shape and type of the output, or of all by name, before anything is computed."""
        return self._chosen(self._specs(inputs.shape[0]))

    def shares(self) -> dict[str, float]:
        """The share of each layer in the mix, and gamma, as they are now."""
        shares = array_of(keras.ops.softmax(self.mix))
        return {
            **{f"layer {number}": float(share) for number, share in enumerate(shares)},
            "gamma": float(array_of(self.gamma.value)[0]),
        }

    def read_ahead(self, some_texts: Sequence[str], progress: Progress | None = None) -> None:
        """Read texts now, those of like length together: faster than a batch of each kind.

        What there is no room for will be read when it is needed.
        """
        self._reader.read_ahead(
            checked_texts(some_texts), pooled=self._reads_pooled, progress=progress
        )

    def forget(self) -> None:
        """Forget the texts that were read."""
        self._reader.forget()

    def get_config(self) -> dict[str, Any]:
        """What a `.keras` file keeps of the layer, besides its weights."""
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
        elsewhere = _model_elsewhere.get()
        if elsewhere is not None:
            return cls(**{**config, "model": elsewhere})
        check_there(config.get("model"), REMEDY, was_there=True)
        return cls(**config)

    @property
    def _needs_words(self) -> bool:
        return self.as_dict or self.output_name not in ONE_PER_TEXT

    @property
    def _reads_pooled(self) -> bool:
        return not self.as_dict and self.output_name in ("default", POOLED)

    def _chosen(self, outputs: dict[str, Any]) -> Any:
        """Of what there is for each output, that of the one asked for, or of all of the hub's."""
        if not self.as_dict:
            return outputs[self.output_name]
        return {name: output for name, output in outputs.items() if name != POOLED}

    @property
    def _layer_count(self) -> int:
        return self._reader.embedder.config.layer_count

    def _specs(self, batch: int | None) -> dict[str, Any]:
        """Shape and type of each output."""
        config = self._reader.embedder.config
        size, layers = config.vector_size, range(1, self._layer_count)
        words = (batch, self.words)
        shapes: dict[str, Shape] = {
            "word_emb": (*words, config.token_size),
            **{f"lstm_outputs{number}": (*words, size) for number in layers},
            "elmo": (*words, size),
            "default": (batch, size),
            "sequence_len": (batch,),
            POOLED: (batch, 2 * self._layer_count * size),
        }
        return {
            name: keras.KerasTensor(
                shape, "int64" if name == "sequence_len" else self.compute_dtype
            )
            for name, shape in shapes.items()
        }

    def _of_no_values(self, inputs: Tensor) -> Any:
        """Outputs of the right shape and type; how many words there are, nobody can tell."""
        outputs = {
            name: inputs.new_empty(
                [inputs.shape[1] if size is None else size for size in spec.shape],
                dtype=getattr(torch, spec.dtype),
            )
            for name, spec in self._specs(inputs.shape[0]).items()
        }
        return self._chosen(outputs)

    def _read(self, some_texts: Sequence[str]) -> list[Vectors]:
        """What the outputs need of each text: (layers, words, size).

        The mean of the mix is the mix of the means: for the mean alone, that of the words will do.
        """
        if not self._reads_pooled:
            return self._reader.layers(some_texts)
        pooled = self._reader.pooled(some_texts)
        return [rows[MEAN, : self._layer_count, None] for rows in pooled]

    def _batch(self, some_texts: Sequence[str]) -> tuple[Vectors, Tensor]:
        """Layers (layers, batch, words, size) of texts, zero where a text has ended, and a mask."""
        found = self._read(some_texts)
        mask = mask_of(found, self.words if self._needs_words else None)
        padded = np.zeros((self._layer_count, *mask.shape, found[0].shape[-1]), np.float32)
        for row, layers in enumerate(found):
            padded[:, row, : layers.shape[1]] = layers
        return padded, mask


def mask_of(layers: Sequence[Vectors], words: int | None) -> Tensor:
    """Where texts of (layers, words, size) have words: (batch, words), one of these at least."""
    lengths = torch.tensor([found.shape[1] for found in layers], dtype=torch.long)
    width = max(1, int(lengths.max())) if words is None else words
    return torch.arange(width) < lengths[:, None]


def array_of(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array, without gradients."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # no bfloat16 there


def text_input(name: str | None = None) -> Any:
    """Where arrays of texts enter a functional or sequential model: `keras.Input` for bytes."""
    return keras.Input(shape=(None,), dtype="uint8", name=name)


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
