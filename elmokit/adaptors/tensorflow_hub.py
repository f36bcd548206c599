"""The TF-Hub module of 2018: `from elmokit.adaptors import tensorflow_hub as hub`.

Inputs and outputs are those of `https://tfhub.dev/google/elmo/3`, as torch tensors. Every sentence
starts from zeros, and padded positions are zero. `Module` is what TF 1 called, `load` and
`KerasLayer` what TF 2 does.
"""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from elmokit.bundled import ENGLISH_SMALL
from elmokit.config import CharacterEncoderConfig
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.find import Location, find_model
from elmokit.formats.published import HF_PREFIX
from elmokit.formats.tf_checkpoint import TensorBundle, is_checkpoint
from elmokit.inference.embedder import Embedder
from elmokit.model.bilm import Layers, remove_markers
from elmokit.model.scalar_mix import ScalarMix
from elmokit.text.characters import UnusualWords, batch_to_ids, check_sentences, short

HUB_URL = re.compile(
    r"https?://(www\.)?(tfhub\.dev|kaggle\.com|storage\.googleapis\.com)/(.*/)?google/elmo([/?].*)?",
    re.IGNORECASE,
)
"""Where the hub had ELMo, of any version and spelling."""
CHOSEN_MODEL = "ELMOKIT_HUB_MODEL"

Trainable = bool | Literal["lstm"]
Spec = Location | tuple[Location, Location] | list[Location] | list[str] | None


class Module(nn.Module):
    """What `hub.Module("https://tfhub.dev/google/elmo/3")` was.

    Args:
        spec: A model, a pair of options and weights, or the hub's old URL. That loads the model
            named in `ELMOKIT_HUB_MODEL`, else the bundled one. A module's own mix is where the mix
            begins; that of other models begins as an average.
        trainable: True trains the four scalars of the mix; "lstm" the LSTM cells too, as version 1
            of the hub's module did.
        name: Accepted for old code; it changes nothing.
    """

    def __init__(self, spec: Spec, trainable: Trainable = False, name: str | None = None) -> None:
        super().__init__()
        del name
        if trainable not in (True, False, "lstm"):
            raise InputError(f"trainable is {trainable!r}; use True, False or 'lstm'")
        locations = locations_of(spec)
        self.bilm = load_model(locations).bilm.requires_grad_(False)
        encoder = self.bilm.config.encoder
        if not isinstance(encoder, CharacterEncoderConfig):
            raise InputError("this model reads words by a list of its own; use elmokit.Embedder")
        if trainable == "lstm":
            self.bilm.forward_lstm.requires_grad_(True)
            self.bilm.backward_lstm.requires_grad_(True)
        weights, gamma = mix_of(locations) or (None, 1.0)
        layers = self.bilm.config.layer_count
        self.mix = ScalarMix(layers, weights=weights, trainable=bool(trainable))
        nn.init.constant_(self.mix.gamma, gamma)
        self.max_characters = encoder.max_characters
        self._unusual = UnusualWords(self.max_characters)

    def forward(
        self, inputs: Any, signature: str = "default", as_dict: bool = False
    ) -> Tensor | dict[str, Tensor]:
        """Embed sentences; give the output `default`, or with `as_dict` all outputs.

        Args:
            inputs: A list of texts, split on spaces; with the signature "tokens" a dict of
                `tokens`, lists of words padded to one length, and `sequence_len`.
            signature: "default" or "tokens".
            as_dict: Give all outputs: `word_emb` (batch, words, size), `lstm_outputs1`, … and
                `elmo` (batch, words, 2 * size), `default` (batch, 2 * size), the mean of `elmo`
                over a sentence's words, and `sequence_len` (batch,).
        """
        if signature == "default":
            texts = list_of_texts(inputs)
            sentences = [[piece for piece in text.split(" ") if piece] for text in texts]
            width = max(map(len, sentences), default=0)
        elif signature == "tokens":
            sentences, width = cut_padding(inputs)
        else:
            raise InputError(f"signature is {signature!r}; use 'default' or 'tokens'")
        ids = batch_to_ids(sentences, self.max_characters, self._unusual)
        ids = nn.functional.pad(ids, (0, 0, 0, width - ids.shape[1]))
        with_markers, _ = self.bilm(ids.to(self.mix.gamma.device))
        layers = Layers(*remove_markers(*with_markers))
        outputs = outputs_of(layers, self.mix(layers.vectors))
        return outputs if as_dict else outputs["default"]

    @property
    def signatures(self) -> dict[str, Callable[..., Any]]:
        """TF 2's functions of texts, or of `tokens` and `sequence_len`, to all outputs."""
        return {name: partial(self._call, name) for name in ("default", "tokens")}

    def _call(self, signature: str, *inputs: Any, **named: Any) -> Any:
        given = [*inputs, *(named.values() if signature == "default" else [named] if named else [])]
        if len(given) != 1:
            raise InputError(f"the signature {signature!r} has one input; {len(given)} are given")
        return self(given[0], signature, as_dict=True)


def load(handle: Spec, *_: object, **__: object) -> Module:
    """What `hub.load` was: call one of its `signatures`. Tags and options change nothing."""
    return Module(handle)


class KerasLayer(Module):
    """What `hub.KerasLayer` was, called as a function; it stands in no Keras model.

    A call gives the output of `output_key`, or all with `signature_outputs_as_dict`. The model and
    `trainable` are as for `Module`; Keras's own settings change nothing.
    """

    def __init__(
        self,
        handle: Spec,
        trainable: Trainable = False,
        signature: str | None = None,
        output_key: str | None = None,
        signature_outputs_as_dict: bool = False,
        **settings: object,
    ) -> None:
        super().__init__(handle, trainable)
        self.signature = signature or "default"
        self.output_key = None if signature_outputs_as_dict else output_key or "default"

    def forward(self, inputs: Any, *_: object, **__: object) -> Any:
        """Embed sentences; whether in training changes nothing."""
        outputs: Any = super().forward(inputs, self.signature, as_dict=True)
        if self.output_key is not None and self.output_key not in outputs:
            names = ", ".join(outputs)
            raise InputError(f"output_key is {self.output_key!r}; use one of {names}")
        return outputs if self.output_key is None else outputs[self.output_key]


class Output(Tensor):
    """A tensor that becomes an array though it has gradients, as one of TensorFlow does."""

    def numpy(self, *, force: bool = True) -> NDArray[Any]:
        """The values, without gradients."""
        return self.as_subclass(Tensor).numpy(force=force)

    def __array__(self, dtype: Any = None, *_: object, **__: object) -> NDArray[Any]:
        return self.numpy().astype(dtype or np.float32, copy=False)


def outputs_of(layers: Layers, elmo: Tensor) -> dict[str, Tensor]:
    """The hub's outputs by name, of layers and their mix (batch, words, size)."""
    lengths = layers.mask.sum(1)
    tokens, *lstm_outputs = layers.vectors
    outputs = {
        "word_emb": tokens[:, :, : tokens.shape[-1] // 2],  # both halves are the token vector
        **{f"lstm_outputs{n}": vectors for n, vectors in enumerate(lstm_outputs, start=1)},
        "elmo": elmo,
        "default": elmo.sum(1) / lengths.clamp(min=1)[:, None],
        "sequence_len": lengths,
    }
    return {n: o.as_subclass(Output) if o.requires_grad else o for n, o in outputs.items()}


def locations_of(spec: Spec) -> tuple[str, ...]:
    """What a spec names, as text: a folder, a name or a URL, or options and weights.

    >>> locations_of(None), locations_of(["options.json", "weights.hdf5"])
    (('english-small',), ('options.json', 'weights.hdf5'))
    """
    if spec is None:
        return (ENGLISH_SMALL,)
    locations = spec if isinstance(spec, tuple | list) else (spec,)
    if isinstance(spec, tuple | list) and len(spec) != 2:
        raise InputError(f"the model has {len(spec)} names; give (options, weights)")
    for location in locations:
        if not isinstance(location, str | Path):
            raise InputError(f"model is {short(location)}; give a folder, a name, or two files")
    return tuple(os.fspath(location) for location in locations)


def load_model(locations: tuple[str, ...], **settings: Any) -> Embedder:
    """The model at one or two locations, with settings of `Embedder.load`."""
    first = locations[0]
    if HUB_URL.fullmatch(first):
        return load_instead_of_hub(first, **settings)
    if "://" in first and len(locations) == 1 and not first.startswith(HF_PREFIX):
        raise InputError(f"{first}: is not the hub's ELMo; give a folder, or (options, weights)")
    return Embedder.load(*locations, **settings)


def mix_of(locations: tuple[str, ...]) -> tuple[list[float], float] | None:
    """The mix that comes with a module's folder, or with a user's checkpoint of one."""
    if HUB_URL.fullmatch(locations[0]):
        locations = chosen_locations(os.environ.get(CHOSEN_MODEL, ""))
    pair = find_model(*locations).pair
    is_bundle = pair is not None and is_checkpoint(pair[1])
    return TensorBundle(str(pair[1])).mix() if pair is not None and is_bundle else None


def load_instead_of_hub(url: str, **settings: Any) -> Embedder:
    """The model that `ELMOKIT_HUB_MODEL` names, else the bundled one, with a warning."""
    chosen = os.environ.get(CHOSEN_MODEL, "")
    try:
        embedder = Embedder.load(*chosen_locations(chosen), **settings)
    except ValueError as error:  # an InputError, or a quote that has no end
        raise InputError(f"{CHOSEN_MODEL}: {error}") from error
    warnings.warn(
        f"{url}: the hub is gone; {chosen.strip() or 'the bundled model'} is used instead, whose "
        f"weights differ from the hub's; {CHOSEN_MODEL} names another",
        ElmoWarning,
        stacklevel=4,
    )
    return embedder


def chosen_locations(chosen: str) -> tuple[str, ...]:
    """A folder, or options and weights, quoted where a name has a space in it; or the bundled."""
    chosen = chosen.strip()
    if not chosen:
        return (ENGLISH_SMALL,)
    if os.path.exists(chosen):
        return (chosen,)
    names: list[Location] = [*shlex.split(chosen, posix=os.name != "nt")]
    return locations_of(names[0] if len(names) == 1 else names)


def cut_padding(inputs: object) -> tuple[list[list[str]], int]:
    """The words of each sentence without its padding, and the length they were padded to."""
    if not isinstance(inputs, Mapping) or not {"tokens", "sequence_len"} <= inputs.keys():
        raise InputError(
            "the signature 'tokens' needs a dict: "
            '{"tokens": [["The", "bank"], ["Money", ""]], "sequence_len": [2, 1]}'
        )
    rows = as_list(inputs["tokens"], "tokens")
    check_sentences(rows)
    lengths = as_list(inputs["sequence_len"], "sequence_len")
    if len(lengths) != len(rows):
        raise InputError(f"sequence_len has {len(lengths)} lengths for {len(rows)} sentences")
    for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        if not isinstance(length, int | np.integer) or not 0 <= length <= len(row):
            raise InputError(
                f"sequence_len of sentence {number} is {length!r}; "
                f"it must be a whole number from 0 to {len(row)}"
            )
    sentences = [list(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    return sentences, max(map(len, rows), default=0)


def as_list(values: object, name: str) -> list[Any]:
    """A list of what a list, an array, a tensor or a column holds; bytes are texts in UTF-8."""
    if hasattr(values, "numpy") and not isinstance(values, Tensor):
        values = values.numpy()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputError(f"{name} is {short(values)}; give a list")
    return [as_text(value) for value in values]


def as_text(value: Any) -> Any:
    """The text of bytes, of those in a list too; anything else as it is."""
    if isinstance(value, list | tuple):
        return [as_text(one) for one in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{short(value)} is not UTF-8 ({error.reason})") from error


def list_of_texts(texts: object) -> list[str]:
    """A list of the texts that a list, an array or a column of a table holds."""
    if isinstance(texts, str | bytes):
        raise InputError(f"expected a list of texts, got one; write [{texts[:40]!r}]")
    found = as_list(texts, "texts")
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {short(text)}, not a string")
    return found
