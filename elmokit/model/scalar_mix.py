"""Scalar mix, equation 1 of the paper: a task's own mixture of the biLM's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError

LAYER_NORM_EPSILON = 1e-13
Join = Literal["concat", "add"]


class ScalarMix(nn.Module):
    """gamma * sum_j softmax(w)_j h_j, with w and gamma learnt by the task.

    Args:
        layers: How many layers are mixed.
        layer_norm: Normalise each layer over all words of the batch before mixing. A word's
            vector then depends on its batch mates.
        weights: Start from these values of w (before the softmax) instead of zeros.
        trainable: Whether w and gamma learn.
        penalty: The paper's lambda: `mix.penalty()` is lambda * |w|^2, to be added to the loss.

    >>> mix = ScalarMix(3)
    >>> mix(torch.ones(3, 1, 2, 4)).shape
    torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        layers: int,
        *,
        layer_norm: bool = False,
        weights: Sequence[float] | None = None,
        trainable: bool = True,
        penalty: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.layer_norm = layer_norm
        self.penalty_strength = penalty
        start = given_weights(weights, layers) if weights is not None else torch.zeros(layers)
        self.weights = nn.Parameter(start, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix (layers, batch, words, size) into (batch, words, size)."""
        if self.layer_norm:
            layers = normalise_layers(layers, mask)
        return self.gamma * torch.tensordot(self.shares(), layers, dims=1)

    def shares(self) -> Tensor:
        """The share s_j of each layer: positive, summing to one."""
        return self.weights.softmax(0)

    def penalty(self) -> Tensor:
        """Lambda * |w|^2: a large lambda keeps the mixture near a plain average."""
        return self.penalty_strength * self.weights.square().sum()


class DirectionalMix(nn.Module):
    """A weight for every layer and direction, used as they are: gamma (i x + sum f_j + sum b_j).

    Weights: the token layer's i, then f_1 .. f_L, then b_1 .. b_L. They start at 1 / (L + 1), a
    plain average. With i = s_0 and f_j = b_j = s_j it is the paper's mix.

    Args:
        layers: How many layers are mixed, L + 1.
        join: `"concat"` keeps the directions side by side (size 2 x projection); `"add"` sums
            them (size = projection).
        weights: Start from these 2L + 1 values.
        trainable: Whether the weights and gamma learn.
        penalty: lambda of `penalty()`. There is no softmax here: a large lambda pulls the weights
            to 0, and not towards a plain average as that of `ScalarMix` does; gamma makes up for
            their size.
    """

    def __init__(
        self,
        layers: int,
        *,
        join: Join = "concat",
        weights: Sequence[float] | None = None,
        trainable: bool = True,
        penalty: float = 0.0,
    ) -> None:
        super().__init__()
        if join not in ("concat", "add"):
            raise ConfigError(f"join is {join!r}; use 'concat' or 'add'")
        self.layers = layers
        self.join = join
        self.penalty_strength = penalty
        count = 2 * layers - 1
        plain = torch.full((count,), 1.0 / layers)
        start = given_weights(weights, count) if weights is not None else plain
        self.weights = nn.Parameter(start, requires_grad=trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix (layers, batch, words, 2 * projection) into (batch, words, size)."""
        del mask  # the same call as ScalarMix; nothing here depends on the batch
        token_weight, forward_weights, backward_weights = torch.split(
            self.weights, [1, len(layers) - 1, len(layers) - 1]
        )
        token, _ = layers[0].chunk(2, dim=-1)
        forward, backward = layers[1:].chunk(2, dim=-1)
        forward = torch.tensordot(forward_weights, forward, dims=1)
        backward = torch.tensordot(backward_weights, backward, dims=1)
        if self.join == "add":
            return self.gamma * (token_weight * token + forward + backward)
        token = token_weight * token
        return self.gamma * torch.cat([token + forward, token + backward], dim=-1)

    def penalty(self) -> Tensor:
        """Lambda * |w|^2: a large lambda keeps the weights themselves near 0."""
        return self.penalty_strength * self.weights.square().sum()


def given_weights(weights: Sequence[float], count: int) -> Tensor:
    """The user's weights as a (count,) tensor."""
    if len(weights) != count:
        raise ConfigError(f"{len(weights)} mix weights were given for {count}; give one for each")
    return torch.tensor([float(weight) for weight in weights])


def normalise_layers(layers: Tensor, mask: Tensor | None) -> Tensor:
    """Give each layer of (layers, batch, words, size) mean 0 and variance 1 over unmasked words."""
    if mask is None:
        mask = torch.ones(layers.shape[1:3], dtype=torch.bool, device=layers.device)
    kept = mask[None, :, :, None].to(layers.dtype)
    count = mask.sum() * layers.shape[-1]
    mean = (layers * kept).sum((1, 2, 3), keepdim=True) / count
    variance = ((layers - mean) * kept).square().sum((1, 2, 3), keepdim=True) / count
    # Padding (zero in every layer) is shifted too, exactly as AllenNLP leaves it.
    return (layers - mean) / torch.sqrt(variance + LAYER_NORM_EPSILON)
