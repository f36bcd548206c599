"""Whether weights have changed since something was made from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook


def version_of(weights: Iterable[Tensor]) -> tuple[object, ...]:
    """Changes whenever a weight is moved, or written to other than through `.data`."""
    return tuple((w.data_ptr(), w.device, w.dtype, writes_to(w)) for w in weights)


def writes_to(weight: Tensor) -> object:
    """How often a weight was written to; of inference mode's tensors nobody counts, so: anew."""
    return object() if weight.is_inference() else weight._version


def count_fused_writes(optimiser: Optimizer, *_: Any) -> None:
    """Count a step of a fused optimiser as the write that it is: torch does not."""
    for group in optimiser.param_groups:
        if group.get("fused"):
            for weight in group["params"]:
                if weight.grad is not None:
                    increment_version(weight)


register_optimizer_step_post_hook(count_fused_writes)
