"""Matrix products with a fixed weight, as fast as the processor at hand allows.

A recurrent step multiplies a few rows by the same large weight again and again. Each class here is
one way to do that; `best_product` chooses. All but `PlainProduct` keep the weight in another layout
and so serve inference only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from elmokit.config import Precision

Product = Callable[[Tensor], Tensor]
"""Multiplies (rows, inputs) by a weight (outputs, inputs) into (rows, outputs)."""


def best_product(weight: Tensor, precision: Precision) -> Product:
    """The fastest product with `weight` (outputs, inputs) that keeps the promise of `precision`."""
    if precision == "fast":
        if has_bfloat16(weight.device):
            return BFloat16Product(weight)
        if has_int8(weight.device):
            return Int8Product(weight)
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        return PackedProduct(weight)
    return PlainProduct(weight)


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 products are faster than float32 ones on this device."""
    if device.type == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def has_int8(device: torch.device) -> bool:
    """Whether the processor multiplies 8-bit integers faster than floats."""
    return device.type == "cpu" and torch.cpu._is_vnni_supported()


class PlainProduct:
    """What torch does by itself, on any device and in any precision."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach().t()

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return rows @ self.weight


class PackedProduct:
    """float32 on a processor, with the weight laid out once as the kernel wants it."""

    # Above this many rows the ordinary product amortises its own packing.
    many_rows = 512

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, 128)
        self._by_column: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        if len(rows) == 1:
            return rows @ self.by_column
        if len(rows) > self.many_rows:
            return rows @ self.weight.t()
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, None, "none", [], "")

    @property
    def by_column(self) -> Tensor:
        """The weight as (inputs, outputs) in memory: a single row streams it once, in order."""
        if self._by_column is None:
            self._by_column = self.weight.t().contiguous()
        return self._by_column


class BFloat16Product:
    """bfloat16 in, float32 out."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach().bfloat16()
        self.packed = None
        if weight.device.type == "cpu":
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, 128)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        rows = rows.bfloat16()
        if self.packed is None:
            return (rows @ self.weight.t()).float()
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, None, "none", [], "").float()


class Int8Product:
    """8-bit integers: a scale for each row and for each output, sums in 32 bits."""

    def __init__(self, weight: Tensor) -> None:
        weight = weight.detach()
        self.weight_scale = largest(weight)[:, 0] / 127
        self.weight = (weight / self.weight_scale[:, None]).round_().to(torch.int8).t()

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        row_scale = largest(rows) / 127
        quantised = (rows / row_scale).round_().to(torch.int8)
        sums = torch._int_mm(quantised, self.weight)
        return sums.float().mul_(self.weight_scale).mul_(row_scale)


def largest(rows: Tensor) -> Tensor:
    """Largest magnitude of each row (rows, 1), never zero."""
    return rows.abs().amax(1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).tiny)
