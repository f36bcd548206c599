"""Versions of weights: whether they have changed since something was made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode

_watching = False


def version_of(weights: Iterable[Tensor]) -> tuple[object, ...]:
    """Changes whenever a weight is moved, or written to other than through `.data`.

    Torch does not count writes to tensors of inference mode: their version is always another.
    """
    return tuple(
        (w.data_ptr(), w.device, w.dtype, object() if w.is_inference() else w._version)
        for w in weights
    )


def track_writes(module: nn.Module) -> None:
    """Put ordinary copies in the place of weights whose writes torch does not count."""
    with torch.inference_mode(False):
        for part in module.modules():
            for name, weight in list(part.named_parameters(recurse=False)):
                if weight.is_inference():
                    copy = nn.Parameter(weight.detach().clone(), weight.requires_grad)
                    part.register_parameter(name, copy)


def watch_optimisers() -> None:
    """From now on count a step of any fused optimiser as the write that it is: torch does not.

    This is a hook of the process, so only programs that train have it: modules call this when they
    record gradients.
    """
    global _watching
    if not _watching:  # no `cache`, of which torch.compile warns
        _watching = True
        register_optimizer_step_post_hook(count_fused_writes)


def count_fused_writes(optimiser: Optimizer, *_: Any) -> None:
    """Count the step that a fused optimiser has just taken."""
    for group in optimiser.param_groups:
        if group.get("fused"):
            for weight in group["params"]:
                if weight.grad is not None:
                    increment_version(weight)


DRAWN = ("normal_", "uniform_", "kaiming_uniform_", "kaiming_normal_", "trunc_normal_")
"""What fills a tensor with random numbers, in torch.nn.init and of tensors themselves."""


class _NothingDrawn(TorchFunctionMode):
    """Leaves out random numbers: on the meta device, drawing none imports torch's compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call anything but what draws."""
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in DRAWN:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def without_values() -> Iterator[None]:
    """Make modules whose tensors have shapes and take no memory."""
    with torch.device("meta"), _NothingDrawn():
        yield
