"""AllenNLP's ELMo: `from elmokit.adaptors.allennlp import Elmo, batch_to_ids`.

Signatures, defaults and results are those of AllenNLP, and what it saved can be loaded. So is the
state: each batch continues the one before, and the same sentence gives other vectors the next time.
`stateful=False` turns that off.

After `install()` the old imports work, and `python -m elmokit.adaptors.allennlp SCRIPT …` calls it
for a script that stays as it is.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmokit.adaptors.allennlp_bilm import (
    ElmoLstm,
    StatefulBiLM,
    _ElmoBiLm,
    stateful_bilm,
)
from elmokit.adaptors.allennlp_bilm import _ElmoCharacterEncoder as _ElmoCharacterEncoder
from elmokit.adaptors.allennlp_embedder import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoEmbedder,
)
from elmokit.config import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    WORD_PADDING,
    Count,
    checked,
)
from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.formats.find import Location
from elmokit.io.files import disk_errors
from elmokit.model.bilm import BiLM, check_ids, remove_markers
from elmokit.model.scalar_mix import given_weights, normalise_layers
from elmokit.text.characters import MAX_CHARACTERS, batch_to_ids, character_ids, short

__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "ELMoCharacterMapper",
    "ELMoTokenCharactersIndexer",
    "Elmo",
    "ElmoEmbedder",
    "ElmoLstm",
    "ElmoTokenEmbedder",
    "ScalarMix",
    "add_sentence_boundary_token_ids",
    "batch_to_ids",
    "install",
    "main",
    "remove_sentence_boundaries",
]


class ElmoRepresentations(TypedDict):
    """What `Elmo` returns."""

    elmo_representations: list[Tensor]  # each (batch, words, size)
    mask: Tensor  # (batch, words), False on padding


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j tensor_j, each w_j a parameter of its own.

    The layer norm is of each tensor, over all its unmasked elements.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        checked("mixture_size", mixture_size, Count)
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        start = torch.zeros(mixture_size)
        if initial_scalar_parameters is not None:
            start = given_weights(initial_scalar_parameters, mixture_size)
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(value.clone(), requires_grad=trainable) for value in torch.split(start, 1)
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor] | Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix tensors (…, words, size), with a mask (…, words), into one of the same shape."""
        if len(tensors) != self.mixture_size:
            raise InputError(f"{len(tensors)} tensors were given to a mix of {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(tuple(tensors))
        if self.do_layer_norm:
            # Whatever the dimensions before the last, they are so many words.
            words = layers.reshape(len(layers), 1, -1, layers.shape[-1])
            flat_mask = None if mask is None else mask.reshape(1, -1)
            layers = normalise_layers(words, flat_mask).view_as(layers)
        shares = torch.cat(tuple(self.scalar_parameters)).softmax(0)
        return self.gamma * torch.tensordot(shares, layers, dims=1)


class Elmo(nn.Module):
    """AllenNLP's module: character ids to as many mixtures of the biLM's layers as a task wants.

    Args:
        options_file: A path or a URL; or the folder of a model, without weights.
        weight_file: A path or a URL.
        num_output_representations: How many mixtures.
        requires_grad: Train the biLM too.
        do_layer_norm: Normalise layers before mixing.
        dropout: Applied to each mixture.
        vocab_to_cache: Words whose token vectors are computed once, for `word_inputs`.
        keep_sentence_boundaries: Leave the two sentence markers in the result.
        scalar_mix_parameters: Fixed w of every mixture, before the softmax; gamma is fixed too.
        module: A biLM already made, instead of the two files. It is used as it is.
        stateful: Continue the batch before, row by row. Not AllenNLP's: there it cannot be chosen.
    """

    def __init__(
        self,
        options_file: Location | None,
        weight_file: Location | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: BiLM | StatefulBiLM | None = None,
        stateful: bool = True,
    ) -> None:
        super().__init__()
        checked("num_output_representations", num_output_representations, Count)
        if module is None:
            if options_file is None:
                raise InputError("give options_file and weight_file, or a module")
            module = _ElmoBiLm(options_file, weight_file, requires_grad).bilm
        elif options_file is not None or weight_file is not None:
            raise InputError("options_file and weight_file must be None where a module is given")
        self._elmo_lstm = stateful_bilm(module, vocab_to_cache)
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        if not stateful:
            self.stateful = False
        self.num_output_representations = num_output_representations
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.bilm.config.layer_count,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoRepresentations:
        """Represent the words of character ids (batch, …, words, characters).

        `word_inputs` (batch, …, words) are ids of `vocab_to_cache`; the token vectors of words it
        does not have, and of no others, are computed from their characters in `inputs`.
        """
        if word_inputs is not None and self._elmo_lstm.vocabulary is None:
            warnings.warn(
                "word_inputs are not used: this Elmo was made without vocab_to_cache",
                ElmoWarning,
                stacklevel=2,
            )
            word_inputs = None
        check_ids(inputs)
        inputs = self._elmo_lstm.spelt(inputs, word_inputs)
        leading = inputs.shape[:-2]
        if inputs.dim() > 3:
            inputs = inputs.flatten(0, -3)
        if word_inputs is not None and word_inputs.dim() > 2:
            word_inputs = word_inputs.flatten(0, -2)
        layers, mask = self._elmo_lstm.read(inputs, word_inputs)
        mixed = [mix(layers, mask) for mix in self._scalar_mixes]
        if not self._keep_sentence_boundaries:  # removed last: the layer norm counts them
            pairs = [remove_markers(vectors, mask) for vectors in mixed]
            mixed, mask = [vectors for vectors, _ in pairs], pairs[0][1]
        representations = [self._dropout(vectors) for vectors in mixed]
        return {
            "elmo_representations": [r.reshape(*leading, *r.shape[1:]) for r in representations],
            "mask": mask.reshape(*leading, mask.shape[1]),
        }

    def get_output_dim(self) -> int:
        """Size of a representation."""
        return self._elmo_lstm.bilm.config.vector_size

    @property
    def stateful(self) -> bool:
        """Whether each batch continues the one before."""
        return self._elmo_lstm._elmo_lstm.stateful

    @stateful.setter
    def stateful(self, stateful: bool) -> None:
        self._elmo_lstm._elmo_lstm.stateful = stateful

    @property
    def _scalar_mixes(self) -> list[nn.Module]:
        numbers = range(self.num_output_representations)
        return [self.get_submodule(f"scalar_mix_{number}") for number in numbers]

    def reset_state(self) -> None:
        """Forget the batches read so far."""
        self._elmo_lstm._elmo_lstm.reset_states()


class ElmoTokenEmbedder(nn.Module):
    """One mixture of an `Elmo`, projected to `projection_dim` if that is given."""

    def __init__(
        self,
        options_file: Location,
        weight_file: Location | None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        size = self._elmo.get_output_dim()
        self._projection = nn.Linear(size, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or size

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """Represent words (batch, …, words, size) of character ids, as `Elmo` does."""
        [vectors] = self._elmo(inputs, word_inputs)["elmo_representations"]
        return vectors if self._projection is None else self._projection(vectors)

    def get_output_dim(self) -> int:
        """Size of a representation."""
        return self.output_dim

    @classmethod
    def from_params(cls, vocab: Any, params: Mapping[str, Any]) -> ElmoTokenEmbedder:
        """Make one from a table of settings; `namespace_to_cache` names words of `vocab`."""
        settings = {name: value for name, value in params.items() if name != "type"}
        namespace = settings.pop("namespace_to_cache", None)
        if namespace is not None:
            settings["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
        return cls(**settings)


class ELMoCharacterMapper:
    """Spells words as character ids; `tokens_to_add` gives words a character of their own.

    Its constants are AllenNLP's, one less than the ids that models read.
    """

    max_word_length = MAX_CHARACTERS
    beginning_of_sentence_character = BEGIN_SENTENCE - 1
    end_of_sentence_character = END_SENTENCE - 1
    beginning_of_word_character = BEGIN_WORD - 1
    end_of_word_character = END_WORD - 1
    padding_character = WORD_PADDING - 1
    bos_token = "<S>"
    eos_token = "</S>"
    beginning_of_sentence_characters, end_of_sentence_characters = (
        character_ids([bos_token, eos_token]) - 1
    ).tolist()  # fmt: skip

    def __init__(self, tokens_to_add: Mapping[str, int] | None = None) -> None:
        self.tokens_to_add = dict(tokens_to_add or {})
        for token, character in self.tokens_to_add.items():
            if character not in range(self.padding_character + 1):
                most = self.padding_character
                raise InputError(f"tokens_to_add: {token!r} is {character!r}; give 0 to {most}")

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        """The ids of a word."""
        if word not in self.tokens_to_add:
            return character_ids([word])[0].tolist()
        ids = [WORD_PADDING] * self.max_word_length
        ids[:3] = BEGIN_WORD, self.tokens_to_add[word] + 1, END_WORD
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoCharacterMapper) and self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]


class ELMoTokenCharactersIndexer:
    """Turns tokens, texts or whatever has one, into lists of character ids."""

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        self._namespace = namespace
        self._token_min_padding_length = token_min_padding_length
        self._mapper = ELMoCharacterMapper(tokens_to_add)

    def count_vocab_items(self, token: Any, counter: Any) -> None:
        """Count nothing: there is no vocabulary of characters."""

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: Any = None, index_name: str = "elmo_tokens"
    ) -> dict[str, list[list[int]]]:
        """The ids of each token, under a name."""
        texts = [getattr(token, "text", token) for token in tokens]
        for text in texts:
            if not isinstance(text, str):
                raise InputError(f"a token's text is {short(text)}; give tokens that have a text")
        return {index_name: [self._mapper.convert_word_to_char_ids(text) for text in texts]}

    def get_padding_lengths(self, token: Any) -> dict[str, int]:
        """Nothing: all words have one length."""
        return {}

    def as_padded_tensor(
        self,
        tokens: Mapping[str, list[list[int]]],
        desired_num_tokens: Mapping[str, int],
        padding_lengths: Any = None,
    ) -> dict[str, Tensor]:
        """Ids (words, characters) under each name, cut or padded with zeros to so many words."""
        padded = {}
        for name, ids in tokens.items():
            shape = desired_num_tokens[name], ELMoCharacterMapper.max_word_length
            padded[name] = torch.zeros(shape, dtype=torch.long)
            for row, word in zip(padded[name], ids, strict=False):
                row[:] = torch.tensor(word)
        return padded


def add_sentence_boundary_token_ids(
    tensor: Tensor, mask: Tensor, sentence_begin_token: Any, sentence_end_token: Any
) -> tuple[Tensor, Tensor]:
    """Wrap each sentence of ids (batch, words, …) in markers; give the mask of the result too."""
    lengths = (mask != 0).sum(1)
    marked = tensor.new_zeros(tensor.shape[0], tensor.shape[1] + 2, *tensor.shape[2:])
    marked[:, 1:-1] = tensor
    marked[:, 0] = sentence_begin_token
    marked[torch.arange(len(tensor), device=tensor.device), lengths + 1] = sentence_end_token
    known = marked != 0
    return marked, known.any(-1) if known.dim() == 3 else known


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Cut the markers from vectors (batch, words + 2, size) and their mask; padding is zero."""
    return remove_markers(tensor, mask != 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `allennlp`, of which `elmo` is here; its arguments are those of the process."""
    parser = argparse.ArgumentParser(prog="allennlp")
    command = parser.add_subparsers(required=True, metavar="elmo").add_parser("elmo")
    command.add_argument("input_file")
    command.add_argument("output_file")
    output = command.add_mutually_exclusive_group(required=True)
    for name in ("all", "top", "average"):
        output.add_argument(f"--{name}", dest="output_format", action="store_const", const=name)
    command.add_argument("--options-file", default=DEFAULT_OPTIONS_FILE)
    command.add_argument("--weight-file", default=DEFAULT_WEIGHT_FILE)
    command.add_argument("--batch-size", type=int, default=64)
    command.add_argument("--cuda-device", type=int, default=-1)
    command.add_argument("--forget-sentences", action="store_true")
    command.add_argument("--use-sentence-keys", action="store_true")
    for unused in ("--vocab-path", "--include-package"):
        command.add_argument(unused, action="append", help="accepted, and not used")
    command.add_argument("--file-friendly-logging", action="store_true", help="the same")
    told = parser.parse_args(arguments)
    path = Path(told.input_file)
    with disk_errors(path, "read"), path.open(encoding="utf-8") as file:
        ElmoEmbedder(told.options_file, told.weight_file, told.cuda_device).embed_file(
            file,
            told.output_file,
            told.output_format,
            told.batch_size,
            told.forget_sentences,
            told.use_sentence_keys,
        )


ConfigurationError = ElmoError
MODULES = {
    "": "",
    ".commands": "main",
    ".commands.elmo": "ElmoEmbedder batch_to_ids DEFAULT_OPTIONS_FILE DEFAULT_WEIGHT_FILE",
    ".common": "",
    ".common.checks": "ConfigurationError",
    ".data": "",
    ".data.token_indexers": "ELMoTokenCharactersIndexer",
    ".data.token_indexers.elmo_indexer": "ELMoTokenCharactersIndexer ELMoCharacterMapper",
    ".modules": "Elmo ScalarMix",
    ".modules.elmo": "Elmo ScalarMix batch_to_ids _ElmoBiLm _ElmoCharacterEncoder "
    "ELMoCharacterMapper ELMoTokenCharactersIndexer ElmoLstm "
    "add_sentence_boundary_token_ids remove_sentence_boundaries",
    ".modules.elmo_lstm": "ElmoLstm",
    ".modules.scalar_mix": "ScalarMix",
    ".modules.token_embedders": "ElmoTokenEmbedder",
    ".modules.token_embedders.elmo_token_embedder": "ElmoTokenEmbedder",
    ".nn": "",
    ".nn.util": "add_sentence_boundary_token_ids remove_sentence_boundaries",
}
"""The modules of AllenNLP that `install` stands in for, and what each has."""


def install() -> None:
    """Make the old imports work in this process: `from allennlp.modules.elmo import Elmo`.

    What of AllenNLP is not about ELMo is not there. Where AllenNLP itself is installed, that is an
    error.
    """
    there = sys.modules.get("allennlp")
    if getattr(there, "stands_in", False):
        return
    if there is not None or find_spec("allennlp") is not None:
        raise InputError(
            "allennlp is installed; uninstall it (pip uninstall allennlp), or import from "
            "elmokit.adaptors.allennlp instead"
        )
    for suffix, names in MODULES.items():
        name = f"allennlp{suffix}"
        module = ModuleType(name, f"What elmokit has of {name}.")
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        vars(module).update((each, globals()[each]) for each in names.split())
        sys.modules[name] = module
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)
    vars(sys.modules["allennlp"]).update(stands_in=True, __version__="0.9.0")


def run(arguments: Sequence[str]) -> None:
    """Run a program with its arguments: `SCRIPT …`, `-m MODULE …` or AllenNLP's `elmo …`."""
    program, *rest = arguments or ["--help"]
    try:
        install()
        if program == "elmo":
            main(arguments)
            return
        if program in ("-h", "--help") or (program == "-m" and not rest):
            raise InputError("name a SCRIPT, -m MODULE, or elmo, and what it is to be given")
        if program != "-m" and not os.path.exists(program):
            raise InputError(f"{program}: there is no such script")
    except ElmoError as error:
        sys.exit(f"elmokit.adaptors.allennlp: {error}")
    if program == "-m":
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":  # as the module that programs import, not a second one
    from elmokit.adaptors import allennlp

    allennlp.run(sys.argv[1:])
