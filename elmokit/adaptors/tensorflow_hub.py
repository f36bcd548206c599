"""The TF-Hub module of 2018: `from elmokit.adaptors import tensorflow_hub as hub`.

Inputs and outputs are those of `https://tfhub.dev/google/elmo/3`, as torch tensors. Every sentence
starts from zeros, and padded positions are zero.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from torch import Tensor, nn

from elmokit.config import CharacterEncoderConfig
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.find import Location
from elmokit.inference.embedder import Embedder
from elmokit.model.bilm import Layers, remove_markers
from elmokit.model.scalar_mix import ScalarMix
from elmokit.text.characters import UnusualWords, batch_to_ids, check_sentences, short

HUB_HOSTS = ("tfhub.dev", "www.tfhub.dev", "kaggle.com", "www.kaggle.com", "storage.googleapis.com")
HUB_MODEL = "/google/elmo/"
CHOSEN_MODEL = "ELMOKIT_HUB_MODEL"

Trainable = bool | Literal["lstm"]
Spec = Location | tuple[Location, Location] | list[Location]


class Module(nn.Module):
    """What `hub.Module("https://tfhub.dev/google/elmo/3")` was.

    Args:
        spec: A model folder, a pair of options and weights, or the hub's old address. The address
            loads the model named in `ELMOKIT_HUB_MODEL`, else the bundled one.
        trainable: True trains the four scalars of the mix; "lstm" the LSTM cells too, as version 1
            of the hub's module did.
        name: Accepted for old code; it changes nothing.
    """

    def __init__(self, spec: Spec, trainable: Trainable = False, name: str | None = None) -> None:
        super().__init__()
        del name
        if trainable not in (True, False, "lstm"):
            raise InputError(f"trainable is {trainable!r}; use True, False or 'lstm'")
        self.bilm = read_spec(spec).bilm.requires_grad_(False)
        encoder = self.bilm.config.encoder
        if not isinstance(encoder, CharacterEncoderConfig):
            raise InputError("this model reads words, not characters; use elmokit.Embedder for it")
        if trainable == "lstm":
            self.bilm.forward_lstm.requires_grad_(True)
            self.bilm.backward_lstm.requires_grad_(True)
        self.mix = ScalarMix(self.bilm.config.layer_count, trainable=bool(trainable))
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
            sentences = split_texts(inputs)
            width = max(map(len, sentences), default=0)
        elif signature == "tokens":
            sentences, width = cut_padding(inputs)
        else:
            raise InputError(f"signature is {signature!r}; use 'default' or 'tokens'")
        layers = self.read(sentences, width)
        outputs = outputs_of(layers, self.mix(layers.vectors))
        return outputs if as_dict else outputs["default"]

    def read(self, sentences: Sequence[Sequence[str]], width: int) -> Layers:
        """Layers of sentences, without markers, padded to `width` words."""
        ids = batch_to_ids(sentences, self.max_characters, self._unusual)
        ids = nn.functional.pad(ids, (0, 0, 0, width - ids.shape[1]))
        layers, _ = self.bilm(ids.to(self.mix.gamma.device))
        return Layers(*remove_markers(*layers))


def outputs_of(layers: Layers, elmo: Tensor) -> dict[str, Tensor]:
    """The hub's outputs by name, of layers and their mix (batch, words, size)."""
    lengths = layers.mask.sum(1)
    tokens, *lstm_outputs = layers.vectors
    return {
        "word_emb": tokens[:, :, : tokens.shape[-1] // 2],  # both halves are the token vector
        **{f"lstm_outputs{n}": vectors for n, vectors in enumerate(lstm_outputs, start=1)},
        "elmo": elmo,
        "default": elmo.sum(1) / lengths.clamp(min=1)[:, None],
        "sequence_len": lengths,
    }


def read_spec(spec: Spec) -> Embedder:
    """The model that a spec names."""
    if isinstance(spec, tuple | list):
        if len(spec) != 2:
            raise InputError(f"spec has {len(spec)} entries; give (options, weights)")
        return Embedder.load(*spec)
    if is_hub_address(spec):
        return load_instead_of_hub(str(spec))
    if "://" in str(spec):
        raise InputError(f"{spec}: is not the hub's ELMo; give a folder, or (options, weights)")
    return Embedder.load(spec)


def is_hub_address(spec: Location) -> bool:
    """Whether this is where the hub kept ELMo, of any version and spelling.

    >>> is_hub_address("https://tfhub.dev/google/elmo/3")
    True
    """
    try:
        address = urlsplit(str(spec))
    except ValueError:
        return False
    return address.hostname in HUB_HOSTS and HUB_MODEL in f"{address.path}/".lower()


def load_instead_of_hub(address: str) -> Embedder:
    """The model that `ELMOKIT_HUB_MODEL` names, else the bundled one, with a warning."""
    chosen = os.environ.get(CHOSEN_MODEL, "").strip()
    try:
        embedder = Embedder.load(*(chosen_locations(chosen) if chosen else ()))
    except InputError as error:
        raise InputError(f"{CHOSEN_MODEL}: {error}") from error
    warnings.warn(
        f"{address}: the hub is gone; {chosen or 'the bundled model'} is used instead, whose "
        f"weights differ from the hub's; {CHOSEN_MODEL} names another",
        ElmoWarning,
        stacklevel=4,
    )
    return embedder


def chosen_locations(chosen: str) -> list[str]:
    """A folder, or options and weights, quoted where a name has a space in it."""
    if Path(chosen).exists():
        return [chosen]
    try:
        locations = shlex.split(chosen, posix=os.name != "nt")
    except ValueError as error:
        raise InputError(f"{chosen!r} cannot be read ({error})") from None
    if len(locations) > 2:
        raise InputError(f"{chosen!r} are {len(locations)} names; give one folder or two files")
    return locations


def split_texts(texts: object) -> list[list[str]]:
    """Split texts on spaces; empty pieces are dropped."""
    if isinstance(texts, str | bytes):
        raise InputError(f"expected a list of texts, got one; write [{texts[:40]!r}]")
    if isinstance(texts, Mapping):
        raise InputError('a dict of tokens needs signature="tokens"')
    sentences = []
    for number, text in enumerate(as_list(texts, "inputs")):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {short(text)}, not a string")
        sentences.append([piece for piece in text.split(" ") if piece])
    return sentences


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
        whole = isinstance(length, Integral) and not isinstance(length, bool)
        if not whole or not 0 <= length <= len(row):
            raise InputError(
                f"sequence_len of sentence {number} is {length!r}; "
                f"it must be a whole number from 0 to {len(row)}"
            )
    sentences = [list(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    return sentences, max(map(len, rows), default=0)


def as_list(values: object, name: str) -> list[Any]:
    """A list of what a list, a tuple, an array, a tensor or a column of a table holds."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputError(f"{name} is {short(values)}; give a list")
    return list(values)
