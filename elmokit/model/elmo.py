"""ELMo for a task: one biLM, and the mixtures of its layers that the task learns."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from elmokit.config import Count, checked
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM, BiLMState, Layers, remove_markers
from elmokit.model.scalar_mix import DirectionalMix, Join, ScalarMix


class ElmoOutput(NamedTuple):
    """What a task network reads."""

    mixes: list[Tensor]  # each (batch, words, size), zero on padding
    mask: Tensor  # (batch, words), False on padding
    state: BiLMState  # to continue the same rows with the next batch


class Elmo(nn.Module):
    """A biLM and the mixes a task learns; all mixes share one biLM pass.

    Args:
        bilm: The language model.
        mixes: How many mixtures: one for the input of a task network, two for input and output.
        dropout: Applied to each mix.
        layer_norm: Normalise layers before mixing (see `ScalarMix`).
        keep_boundaries: Leave the two sentence markers in the result.
        finetune: Train the biLM too. Otherwise it is frozen, here and for whoever else uses it,
            and runs without gradients.
        mix_weights: Start the mixes from these values (before the softmax).
        train_mix: Whether mix weights and gamma learn.
        penalty: The paper's lambda on the mix weights; add `elmo.penalty()` to the loss.
        per_direction: Weigh the directions of each layer separately (see `DirectionalMix`).
        join: With `per_direction`, `"concat"` or `"add"`.
    """

    def __init__(
        self,
        bilm: BiLM,
        mixes: int = 1,
        *others: object,
        dropout: float = 0.5,
        layer_norm: bool = False,
        keep_boundaries: bool = False,
        finetune: bool = False,
        mix_weights: Sequence[float] | None = None,
        train_mix: bool = True,
        penalty: float = 0.0,
        per_direction: bool = False,
        join: Join = "concat",
    ) -> None:
        super().__init__()
        if others or isinstance(bilm, str | PathLike):
            raise InputError(
                "Elmo is made of a biLM: Elmo(Embedder.load(options, weights).bilm, mixes=2); "
                "AllenNLP's Elmo(options, weights, 2) is elmokit.adaptors.allennlp.Elmo"
            )
        if not isinstance(bilm, BiLM):
            got = type(bilm).__name__
            raise InputError(f"bilm is of type {got}, not BiLM; write Elmo(embedder.bilm)")
        checked("mixes", mixes, Count)
        if layer_norm and per_direction:
            raise ConfigError("layer_norm and per_direction cannot be combined; choose one")
        self.bilm = bilm.requires_grad_(finetune)
        self.finetune = finetune
        self.keep_boundaries = keep_boundaries
        self.dropout = nn.Dropout(dropout)
        layers = bilm.config.layer_count

        learning: Any = {"weights": mix_weights, "trainable": train_mix, "penalty": penalty}

        def new_mix() -> ScalarMix | DirectionalMix:
            if per_direction:
                return DirectionalMix(layers, join=join, **learning)
            return ScalarMix(layers, layer_norm=layer_norm, **learning)

        self.mixes: Sequence[ScalarMix | DirectionalMix]
        self.mixes = nn.ModuleList(new_mix() for _ in range(mixes))  # type: ignore[assignment]

    def forward(self, ids: Tensor, state: BiLMState | None = None) -> ElmoOutput:
        """Represent the words of (batch, words[, characters]) ids, once per mix."""
        with torch.set_grad_enabled(self.finetune and torch.is_grad_enabled()):
            layers, state = self.bilm(ids, state)
        return ElmoOutput(*self.mix(layers), state.detach())

    def mix(self, layers: Layers) -> tuple[list[Tensor], Tensor]:
        """Mix layers into each representation and mask; layer norm counts the markers."""
        mixed: Sequence[Tensor] = [mix(layers.vectors, layers.mask) for mix in self.mixes]
        mask = layers.mask
        if self.keep_boundaries:
            # The layer norm has moved padding away from zero.
            mixed = [vectors * mask[:, :, None] for vectors in mixed]
        else:
            mixed, masks = zip(*(remove_markers(vectors, mask) for vectors in mixed), strict=True)
            mask = masks[0]
        return [self.dropout(vectors) for vectors in mixed], mask

    def penalty(self) -> Tensor:
        """What lambda adds to the loss, summed over the mixes."""
        return torch.stack([mix.penalty() for mix in self.mixes]).sum()
