"""Modules without the values they would start from, for weights that are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

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
