"""AllenNLP's ELMo: `from elmokit.adaptors.allennlp import Elmo, batch_to_ids`.

Signatures, defaults and results are those of AllenNLP, and what it saved can be loaded. So is the
state: each batch continues the one before, and the same sentence gives other vectors the next time.
`stateful=False` turns that off.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmokit.adaptors.allennlp_embedder import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoEmbedder,
)
from elmokit.config import CharacterEncoderConfig, Count, checked
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.find import Location, read_model
from elmokit.model.bilm import BiLM, BiLMState, Layers, check_ids, remove_markers
from elmokit.model.lstm import FORGET_BIAS
from elmokit.model.scalar_mix import given_weights, normalise_layers
from elmokit.model.weights import version_of
from elmokit.text.characters import (
    UnusualWords,
    batch_to_ids,
    character_ids,
    short,
    without_markers,
)

ENCODER = r"_token_embedder\."
LAYER = r"_elmo_lstm\.(forward|backward)_layer_(\d+)\."
DERIVED = re.compile(ENCODER + r"_(beginning|end)_of_sentence_characters")
CACHED_WORDS = "_word_embedding.weight"


def rename_weights(
    state_dict: dict[str, Any], old_prefix: str, new_prefix: str, *, keep_cached_words: bool
) -> None:
    """Replace the entries of an AllenNLP biLM by ours, in place; other entries stay.

    Its table of cached words is dropped, as it follows from the characters, unless it was trained.
    """
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        name = key.removeprefix(old_prefix)
        for pattern, new_names, change in RENAMES:
            if found := re.fullmatch(pattern, name):
                parts = change(state_dict.pop(key))
                for new_name, part in zip(new_names, parts, strict=True):
                    state_dict[new_prefix + found.expand(new_name)] = part
        if DERIVED.fullmatch(name) or (name == CACHED_WORDS and not keep_cached_words):
            del state_dict[key]


def _same(weight: Tensor) -> tuple[Tensor, ...]:
    return (weight,)


def _highway(weight: Tensor) -> tuple[Tensor, ...]:
    # AllenNLP gates the old value and we the new one: sigmoid(-x) == 1 - sigmoid(x).
    transform, gate = weight.chunk(2)
    return transform, -gate


def _gates(weight: Tensor) -> tuple[Tensor, ...]:
    """From AllenNLP's order i, f, j, o to ours: i, f, o, j."""
    i, f, j, o = weight.chunk(4)
    return (torch.cat([i, f, o, j]),)


def _bias(bias: Tensor) -> tuple[Tensor, ...]:
    input_gate, forget_gate, *others = bias.chunk(4)
    # AllenNLP's bias contains what our LSTM adds when it runs.
    return _gates(torch.cat([input_gate, forget_gate - FORGET_BIAS, *others]))


RENAMES: tuple[tuple[str, tuple[str, ...], Callable[[Tensor], tuple[Tensor, ...]]], ...] = (
    (ENCODER + "_char_embedding_weights", ("encoder.characters.weight",), _same),
    (ENCODER + r"char_conv_(\d+)\.(weight|bias)", (r"encoder.convolutions.\1.\2",), _same),
    (
        ENCODER + r"_highways\._layers\.(\d+)\.(weight|bias)",
        (r"encoder.highways.\1.transform.\2", r"encoder.highways.\1.gate.\2"),
        _highway,
    ),
    (ENCODER + r"_projection\.(weight|bias)", (r"encoder.projection.\1",), _same),
    (LAYER + r"input_linearity\.weight", (r"\1_lstm.layers.\2.input_weight",), _gates),
    (LAYER + r"state_linearity\.weight", (r"\1_lstm.layers.\2.recurrent_weight",), _gates),
    (LAYER + r"state_linearity\.bias", (r"\1_lstm.layers.\2.bias",), _bias),
    (LAYER + r"state_projection\.weight", (r"\1_lstm.layers.\2.projection_weight",), _same),
)
"""AllenNLP's names, ours, and what is to be done with the values."""


UNKNOWN = "@@UNKNOWN@@"
"""The word whose id AllenNLP's vocabularies give to every word they do not have."""


class StatefulBiLM(nn.Module):
    """A biLM of characters in which row i of a batch continues row i of the batch before.

    The token vectors of `vocab_to_cache`, whose entry 0 is the padding, are computed once.
    """

    def __init__(self, bilm: BiLM, vocab_to_cache: Sequence[str] | None = None) -> None:
        super().__init__()
        if not isinstance(bilm.config.encoder, CharacterEncoderConfig):
            raise InputError("this model reads words, not characters; use elmokit.Embedder for it")
        self.bilm = bilm
        self.max_characters = bilm.config.encoder.max_characters
        self.vocabulary = (
            CachedVocabulary(vocab_to_cache, self.max_characters) if vocab_to_cache else None
        )
        self._state: BiLMState | None = None

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None, stateful: bool = True
    ) -> Layers:
        """Layers of character ids (batch, words, characters), markers included.

        `word_inputs` (batch, words) are ids of the cached vocabulary.
        """
        self.check(inputs, word_inputs)
        token_vectors, mask = self.token_vectors(inputs, word_inputs)
        state = self._state if stateful else None
        layers, after = self.bilm.contextualize(token_vectors, mask.sum(1), state)
        if stateful:
            self._state = after.detach()
        return layers

    def reset_state(self) -> None:
        """Start from zeros again."""
        self._state = None

    def check(self, inputs: Tensor, word_inputs: Tensor | None) -> None:
        """Raise for ids of the wrong shape."""
        if inputs.dim() != 3 or inputs.shape[-1] != self.max_characters:
            raise InputError(
                f"inputs have shape {tuple(inputs.shape)}; they must be "
                f"(batch, words, {self.max_characters}), as batch_to_ids makes them"
            )
        if word_inputs is not None and word_inputs.shape != inputs.shape[:2]:
            raise InputError(
                f"word_inputs have shape {tuple(word_inputs.shape)} beside inputs "
                f"{tuple(inputs.shape)}; give one id for each word"
            )

    def token_vectors(self, inputs: Tensor, word_inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words + 2, token_size), markers included, and their mask."""
        bilm, vocabulary = self.bilm, self.vocabulary
        if vocabulary is None or word_inputs is None:
            ids, mask = bilm.add_markers(inputs, bilm.mask(inputs))
            return bilm.encode(ids, mask), mask
        known, spellings = vocabulary.spell(word_inputs, inputs)
        ids, mask = bilm.add_markers(spellings, bilm.mask(spellings))
        if torch.is_grad_enabled() and any(p.requires_grad for p in bilm.encoder.parameters()):
            # Remembered vectors would have no gradients, and be out of date after a step.
            return bilm.encode(ids, mask), mask
        # What is left to encode: the two markers, and words that the vocabulary does not have.
        new = mask.clone()
        new[:, 1:-1] &= ~known
        vectors = bilm.encode(ids, new)
        vectors[:, 1:-1][known] = vocabulary.vectors(bilm)[word_inputs[known]]
        return vectors, mask

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Read what AllenNLP saved, too."""
        trained = any(parameter.requires_grad for parameter in self.bilm.parameters())
        rename_weights(state_dict, prefix, f"{prefix}bilm.", keep_cached_words=trained)
        super()._load_from_state_dict(state_dict, prefix, *args)


class CachedVocabulary(nn.Module):
    """Words by number: their spellings, and their token vectors once computed.

    Word i has id i. Entry 0 is the padding symbol, whatever it is.
    """

    spellings: Tensor  # (words, max_characters), zeros for the padding

    def __init__(self, words: Sequence[str], max_characters: int) -> None:
        super().__init__()
        if isinstance(words, str):
            raise InputError(f"vocab_to_cache is {short(words)}; give a list of words")
        words = list(words)
        UnusualWords(max_characters).note_all([without_markers(words[1:])])
        spellings = torch.from_numpy(character_ids(words, max_characters))
        spellings[0] = 0
        self.register_buffer("spellings", spellings, persistent=False)
        self.unknown_id = words.index(UNKNOWN) if UNKNOWN in words else -1
        self._vectors: Tensor | None = None
        self._made_from: object = None

    def spell(self, word_ids: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Which words (batch, words) are known, and the spelling of each word.

        A word that the vocabulary does not have is spelt as in `inputs`.
        """
        spelt = (inputs != 0).any(-1)
        known = (word_ids > 0) & (word_ids < len(self.spellings))
        known &= ~((word_ids == self.unknown_id) & spelt)
        nowhere = (word_ids != 0) & ~known & ~spelt
        if bool(nowhere.any()):
            raise InputError(
                f"word_inputs have id {int(word_ids[nowhere][0])}, vocab_to_cache has "
                f"{len(self.spellings)} words; give the characters of other words in inputs"
            )
        spellings = torch.where((word_ids != 0)[..., None], inputs, 0)
        spellings[known] = self.spellings[word_ids[known]].to(inputs)
        return known, spellings

    def vectors(self, bilm: BiLM) -> Tensor:
        """Token vectors (words, token_size), computed again when the encoder has changed."""
        version = version_of(bilm.encoder.parameters())
        if self._vectors is None or version != self._made_from:
            with torch.no_grad():
                self._vectors = bilm.encoder(self.spellings)
            self._made_from = version
        return self._vectors


__all__ = [
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "Elmo",
    "ElmoEmbedder",
    "ScalarMix",
    "batch_to_ids",
]


class ElmoRepresentations(TypedDict):
    """What `Elmo` returns."""

    elmo_representations: list[Tensor]  # each (batch, words, size)
    mask: Tensor  # (batch, words), False on padding


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j tensor_j, each w_j a parameter of its own.

    Args:
        mixture_size: How many tensors are mixed.
        do_layer_norm: Normalise each tensor over all its unmasked elements before mixing.
        initial_scalar_parameters: Start from these w (before the softmax) instead of zeros.
        trainable: Whether w and gamma learn.
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
            saved = read_model(options_file, weight_file)
            module = BiLM.from_weights(saved.config, saved.weights).requires_grad_(requires_grad)
        elif options_file is not None or weight_file is not None:
            raise InputError("options_file and weight_file must be None where a module is given")
        self._elmo_lstm = stateful_bilm(module, vocab_to_cache)
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self.stateful = stateful
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
        leading = inputs.shape[:-2]
        if inputs.dim() > 3:
            inputs = inputs.flatten(0, -3)
        if word_inputs is not None and word_inputs.dim() > 2:
            word_inputs = word_inputs.flatten(0, -2)
        layers, mask = self._elmo_lstm(inputs, word_inputs, self.stateful)
        numbers = range(self.num_output_representations)
        mixes = [self.get_submodule(f"scalar_mix_{number}") for number in numbers]
        mixed = [mix(layers, mask) for mix in mixes]
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

    def reset_state(self) -> None:
        """Forget the batches read so far."""
        self._elmo_lstm.reset_state()


def stateful_bilm(
    module: BiLM | StatefulBiLM, vocab_to_cache: Sequence[str] | None
) -> StatefulBiLM:
    """The biLM of another `Elmo`, with its state and vocabulary, or one around `module`."""
    if isinstance(module, BiLM):
        return StatefulBiLM(module, vocab_to_cache)
    if not isinstance(module, StatefulBiLM):
        raise InputError(
            f"module is a {type(module).__name__}; give an elmokit BiLM, or another Elmo's biLM"
        )
    if vocab_to_cache:
        raise InputError("vocab_to_cache must be given to the Elmo that the module comes from")
    return module
