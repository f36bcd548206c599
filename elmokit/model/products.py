"""Matrix products with a fixed weight, as fast as the processor at hand allows.

A recurrent step multiplies a few rows by the same large weight again and again. Each class here is
one way to do that; `best_product` chooses. They keep weights in other layouts and serve inference
only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor

from elmokit.config import Precision
from elmokit.model.tiles import leave_out_undescribed_tiles, obeys

leave_out_undescribed_tiles()  # before the first product

INT8_PAYS = 2**21
"""Weights below this size multiply as fast in float32: rounding the rows costs what is gained. The
choice may not depend on the number of rows, or a sentence's vectors would depend on its batch."""


class Product(Protocol):
    """A product with a weight (outputs, inputs)."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""


def best_product(weight: Tensor, precision: Precision) -> Product:
    """The fastest product with `weight` (outputs, inputs) that keeps the promise of `precision`."""
    if weight.dtype != torch.float32:
        return PlainProduct(weight)
    if precision == "fast":
        if has_bfloat16(weight.device):
            return BFloat16Product(weight)
        if has_int8(weight.device) and weight.numel() >= INT8_PAYS:
            return Int8Product(weight)
    if has_onednn(weight.device):
        return ProcessorProduct(weight)
    return PlainProduct(weight)


def has_onednn(device: torch.device) -> bool:
    """Whether this is a processor, with the library of kernels that packed weights are for."""
    return device.type == "cpu" and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 products are faster than float32 ones on this device."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if leave_out_undescribed_tiles():  # without tiles they are slower (docs/log.md)
        return False
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return has_onednn(device) and any(processor_says(name) for name in names)


def has_int8(device: torch.device) -> bool:
    """Whether the processor multiplies 8-bit integers faster than floats."""
    if leave_out_undescribed_tiles() and not obeys():
        return False
    return has_onednn(device) and processor_says("_is_vnni_supported")


def processor_says(name: str) -> bool:
    """What torch knows of the processor; versions that do not know the question say no."""
    return bool(getattr(torch.cpu, name, lambda: False)())


class AllocatingProduct(ABC):
    """A product whose kernel makes new memory for its result."""

    @abstractmethod
    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        total.add_(self(rows))

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        result.copy_(self(rows))


class PlainProduct:
    """What torch does by itself, on any device and in any precision."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach().t()

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return rows @ self.weight

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        total.addmm_(rows, self.weight)

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        torch.mm(rows, self.weight, out=result)


class PackedProduct(AllocatingProduct):
    """float32 on a processor, with the weight laid out once as the kernel wants it."""

    def __init__(self, weight: Tensor) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 128)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, None, "none", [], "")


class ProcessorProduct:
    """float32 on a processor: each number of rows by what is fastest for it.

    The layouts other than the weight's own are made when first needed.
    """

    # Above this many rows the ordinary product is as fast and needs no other layout.
    many_rows = 384

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()
        self._plain = PlainProduct(self.weight)
        self._packed: PackedProduct | None = None
        self._single: PlainProduct | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return self.best(rows.shape[0])(rows)

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        self.best(rows.shape[0]).add_to(total, rows)

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        self.best(rows.shape[0]).write_to(result, rows)

    def best(self, rows: int) -> Product:
        """The product to use for so many rows."""
        if rows > self.many_rows:
            return self._plain
        if rows > 1:
            if self._packed is None:
                self._packed = PackedProduct(self.weight)
            return self._packed
        if self._single is None:
            # A single row reads the weight once: fastest where it lies in reading order.
            self._single = PlainProduct(self.weight.t().contiguous().t())
        return self._single


class BFloat16Product(AllocatingProduct):
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


class Int8Product(AllocatingProduct):
    """8-bit integers: a scale for each output and for each row, sums in 32 bits, float32 out.

    Rows are scaled one by one, so that a sentence's vectors do not depend on its batch mates.
    """

    zero = 128  # the kernel wants rows without a sign

    def __init__(self, weight: Tensor) -> None:
        weight = weight.detach()
        self.scales = largest(weight)[:, 0] / 127
        quantised = (weight / self.scales[:, None]).round_().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(quantised, [128, weight.shape[1]])
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        scale = largest(rows)
        # To whole numbers from 1 to 255: what the conversion cuts off rounds.
        quantised = (rows * (127 / scale)).add_(self.zero + 0.5).to(torch.uint8)
        product = torch.ops.onednn.qlinear_pointwise(
            quantised, 1 / 127, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product.mul_(scale)


def largest(rows: Tensor) -> Tensor:
    """Largest magnitude of each row (rows, 1), never zero."""
    return rows.abs().amax(1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).tiny)
