"""What an optimiser remembers, as tensors named after the weights, for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.optim import Optimizer


def optimiser_tensors(optimiser: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """What the optimiser remembers, by the names of the weights: `forward_lstm.….bias.sum`."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{names[weight]}.{key}": value
        for weight, memory in optimiser.state.items()
        for key, value in memory.items()
    }


def restore_optimiser(
    optimiser: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Remember again what `optimiser_tensors` gave."""
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    memories: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        weight_name, _, key = name.rpartition(".")
        memories.setdefault(weight_name, {})[key] = value
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    contents = optimiser.state_dict()
    contents["state"] = {
        number: memories[names[weight]]
        for number, weight in enumerate(weights)
        if names[weight] in memories
    }
    optimiser.load_state_dict(contents)
