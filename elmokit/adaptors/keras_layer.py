"""ELMo as a layer of Keras: arrays of texts in, the outputs of TF-Hub's module out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from elmokit.adaptors import tensorflow_hub as hub
from elmokit.adaptors.keras_backend import keras
from elmokit.adaptors.keras_texts import strings
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
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, Layers
from elmokit.model.scalar_mix import ScalarMix
from elmokit.reductions import Vectors

POOLED = "pooled"
MIXED = ("default", "elmo")
"""The outputs that the mix decides; without one of them there is nothing to train."""
ONE_PER_TEXT = ("default", "sequence_len", POOLED)
REMEDY = "elmokit.adaptors.keras.load(path, model=…) names the right one"

Shape = tuple[int | None, ...]

_model_elsewhere: ContextVar[Spec] = ContextVar("model_elsewhere", default=None)


@contextmanager
def model_at(spec: Spec) -> Iterator[None]:
    """Layers that are loaded meanwhile find their model here, not where it was."""
    token = _model_elsewhere.set(spec)
    try:
        yield
    finally:
        _model_elsewhere.reset(token)


class LayerOutputs(hub.Module):
    """The hub's outputs of layers that are there already."""

    def __init__(self, bilm: BiLM) -> None:
        nn.Module.__init__(self)  # the hub's own would load the model once more
        self.bilm = bilm
        self.mix = ScalarMix(bilm.config.layer_count)

    def forward(self, layers: Layers) -> dict[str, Tensor]:  # type: ignore[override]
        """All outputs, by name."""
        return self.outputs(layers)


@keras.saving.register_keras_serializable("elmokit")
class ElmoLayer(keras.layers.Layer):  # type: ignore[misc]
    """Contextual vectors of texts, given as arrays that `texts` makes.

    The biLM stays as it is: what it makes of a text is computed once and remembered, so that an
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
        cache_megabytes: How much is remembered of texts; 0 for nothing.
        checksum: Refuse any other model.
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
        super().__init__(trainable=checked_trainable(trainable), **settings)
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
        # In a tuple, where Keras does not take the biLM's weights for weights of the layer.
        self._hub_outputs = (LayerOutputs(loaded.embedder.bilm),)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs that there are."""
        return tuple(self._shapes(None))

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
        if self.output_name == POOLED and not self.as_dict:
            pooled = np.stack(self._reader.pooled(some_texts))[:, :, : self._layer_count]
            return self._as_tensor(pooled.reshape(len(pooled), -1))
        mix = {
            "mix.weights": keras.ops.convert_to_tensor(self.mix),
            "mix.gamma": keras.ops.convert_to_tensor(self.gamma),
        }
        layers = self._batch(some_texts)
        return self._chosen(functional_call(self._hub_outputs[0], mix, (layers,)))

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
        return self._chosen(self._shapes(input_shape[0]))

    def compute_output_spec(self, inputs: Any) -> Any:
        """Shape and type of the output, or of all by name, before anything is computed."""
        specs = {
            name: keras.KerasTensor(
                shape, dtype="int64" if name == "sequence_len" else self.compute_dtype
            )
            for name, shape in self._shapes(inputs.shape[0]).items()
        }
        return self._chosen(specs)

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

    def _shapes(self, batch: int | None) -> dict[str, Shape]:
        """The shape of each output."""
        config = self._reader.embedder.config
        words = (batch, self.words)
        return {
            "word_emb": (*words, config.token_size),
            **{
                f"lstm_outputs{number}": (*words, config.vector_size)
                for number in range(1, self._layer_count)
            },
            "elmo": (*words, config.vector_size),
            "default": (batch, config.vector_size),
            "sequence_len": (batch,),
            POOLED: (batch, 2 * self._layer_count * config.vector_size),
        }

    def _of_no_values(self, inputs: Tensor) -> Any:
        """Outputs of the right shape and type; how many words there are, nobody can tell."""
        float_type = keras.ops.convert_to_tensor(self.gamma).dtype
        outputs = {
            name: inputs.new_empty(
                [inputs.shape[1] if size is None else size for size in shape],
                dtype=torch.int64 if name == "sequence_len" else float_type,
            )
            for name, shape in self._shapes(inputs.shape[0]).items()
        }
        return self._chosen(outputs)

    def _as_tensor(self, array: Vectors) -> Tensor:
        """An array as a tensor where, and of the type that, the mix is."""
        return torch.from_numpy(array).to(keras.ops.convert_to_tensor(self.gamma))

    def _read(self, some_texts: Sequence[str]) -> list[Vectors]:
        """What the outputs need of each text: (layers, words, size).

        The mean of the mix is the mix of the means: for the mean alone, that of the words will do.
        """
        if not self._reads_pooled:
            return self._reader.layers(some_texts)
        pooled = self._reader.pooled(some_texts)
        return [rows[MEAN, : self._layer_count, None] for rows in pooled]

    def _batch(self, some_texts: Sequence[str]) -> Layers:
        """Layers (layers, batch, words, size) of texts, zero where a text has ended."""
        found = self._read(some_texts)
        mask = mask_of(found, self.words if self._needs_words else None)
        size = self._reader.embedder.vector_size
        padded = np.zeros((self._layer_count, *mask.shape, size), np.float32)
        for row, layers in enumerate(found):
            padded[:, row, : layers.shape[1]] = layers
        vectors = self._as_tensor(padded)
        return Layers(vectors, mask.to(vectors.device))


def mask_of(layers: Sequence[Vectors], words: int | None) -> Tensor:
    """Where texts of (layers, words, size) have words: (batch, words), one of these at least."""
    lengths = torch.tensor([found.shape[1] for found in layers], dtype=torch.long)
    width = max(1, int(lengths.max())) if words is None else words
    return torch.arange(width) < lengths[:, None]


def array_of(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array, without gradients."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # no bfloat16 there


def checked_trainable(trainable: object) -> bool:
    """Refuse what the hub's module could train but a layer with a memory cannot."""
    if not isinstance(trainable, bool):
        raise InputError(
            f"trainable is {trainable!r}; use True (the mix) or False; "
            "elmokit.adaptors.tensorflow_hub.Module can train the LSTM too"
        )
    return trainable


def text_input(name: str | None = None) -> Any:
    """Where arrays of texts enter a functional or sequential model: `keras.Input` for bytes."""
    return keras.Input(shape=(None,), dtype="uint8", name=name)
