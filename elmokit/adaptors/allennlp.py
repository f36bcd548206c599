"""AllenNLP's ELMo: `from elmokit.adaptors.allennlp import Elmo, batch_to_ids`.

Signatures, defaults and results are those of AllenNLP, and what it saved can be loaded. So is the
state: each batch continues the one before, and the same sentence gives other vectors the next time.
`stateful=False` turns that off.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn

from elmokit.adaptors.allennlp_bilm import StatefulBiLM
from elmokit.adaptors.allennlp_embedder import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoEmbedder,
)
from elmokit.config import check_size
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.models import Location, read_model
from elmokit.model.bilm import BiLM, Layers, check_ids, remove_markers
from elmokit.model.scalar_mix import given_weights, normalise_layers
from elmokit.text.characters import batch_to_ids

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
        check_size("mixture_size", mixture_size)
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
        options_file: A path or an address; or the folder of a model, without weights.
        weight_file: A path or an address.
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
        check_size("num_output_representations", num_output_representations)
        if module is None:
            module = load_bilm(options_file, weight_file).requires_grad_(requires_grad)
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
        layers = self._elmo_lstm(inputs, word_inputs, self.stateful)
        mixed, mask = self.mix(layers)
        representations = [self._dropout(vectors) for vectors in mixed]
        return {
            "elmo_representations": [r.reshape(*leading, *r.shape[1:]) for r in representations],
            "mask": mask.reshape(*leading, mask.shape[1]),
        }

    def mix(self, layers: Layers) -> tuple[list[Tensor], Tensor]:
        """Mix layers, markers included, into each representation and the mask that fits them.

        Markers are removed last: the layer norm counts them.
        """
        numbers = range(self.num_output_representations)
        mixes = [self.get_submodule(f"scalar_mix_{number}") for number in numbers]
        mixed = [mix(layers.vectors, layers.mask) for mix in mixes]
        if self._keep_sentence_boundaries:
            return mixed, layers.mask
        pairs = [remove_markers(vectors, layers.mask) for vectors in mixed]
        return [vectors for vectors, _ in pairs], pairs[0][1]

    def get_output_dim(self) -> int:
        """Size of a representation."""
        return self._elmo_lstm.bilm.config.vector_size

    def reset_state(self) -> None:
        """Forget the batches read so far."""
        self._elmo_lstm.reset_state()


def load_bilm(options_file: Location | None, weight_file: Location | None) -> BiLM:
    """The biLM of AllenNLP's two files, or of a model folder."""
    if options_file is None:
        raise InputError("give options_file and weight_file, or a module")
    saved = read_model(options_file, weight_file)
    return BiLM.from_weights(saved.config, saved.weights)


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
