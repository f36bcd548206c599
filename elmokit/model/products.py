"""Matrix products with a fixed weight, as fast as the CPU at hand allows.

A recurrent step multiplies a few rows by the same large weight again and again. Each class here is
one way to do that; `best_product` chooses. They store weights in other layouts and serve inference
only.

Most ways call private operations of torch, which another version, another build or another CPU may
lack or compute differently. So each one proves itself on a small product before it is used: that it
runs, and that its error is within its promise. How fast a way is was measured beforehand
(`python -m benchmarks.products`): a measurement at run time would give other numbers on a busy day.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cache
from threading import Lock
from typing import Any, ClassVar

import torch
from torch import Tensor

from elmokit.config import Precision

INSTRUCTIONS = "ONEDNN_MAX_CPU_ISA"
"""The variable that bounds what oneDNN uses; it is read before the first product."""
WITHOUT_TILES = "AVX512_CORE_BF16"
CPUID = bytes.fromhex("53 89f8 89f1 0fa2 48c1e220 89c0 4809d0 5b c3")
"""f(leaf, part): what the CPU says, eax in the lower half and edx in the upper."""
FEATURES, TILE_SIZES = 7, 0x1D  # leaves
TILES = 1 << (32 + 24)  # a bit of edx


@cache
def leave_out_undescribed_tiles() -> bool:
    """Have oneDNN do without tiles of hidden sizes, unless the user chose; whether that is so."""
    if not are_undescribed():
        return False
    os.environ.setdefault(INSTRUCTIONS, WITHOUT_TILES)
    return True


def are_undescribed() -> bool:
    """Whether the CPU announces tiles, and says nothing of their sizes."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        highest_leaf = ask_cpu(0, 0) & 0xFFFFFFFF
        if not ask_cpu(FEATURES, 0) & TILES:
            return False
        return highest_leaf < TILE_SIZES or not ask_cpu(TILE_SIZES, 0) & 0xFFFFFFFF
    except OSError:  # a system that runs no code made at run time: nothing can be asked
        return False


def ask_cpu(leaf: int, part: int) -> int:
    """What the instruction CPUID gives: eax, and edx above it."""
    with mmap.mmap(
        -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    ) as code:
        code.write(CPUID)
        begin = ctypes.c_char.from_buffer(code)
        prototype = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        result = prototype(ctypes.addressof(begin))(leaf, part)
        del begin  # the map cannot be closed while something points into it
    return int(result)


@cache
def obeys() -> bool:
    """Whether oneDNN leaves tiles out: False if it had computed before it was told.

    What it says of float16, which comes after bfloat16 and before tiles, tells how far it goes.
    """
    return onednn_has("fp16") is False


def onednn_has(numbers: str) -> bool | None:
    """Whether oneDNN multiplies such numbers, as far as it was told to; None if it does not say."""
    question = getattr(torch.ops.mkldnn, f"_is_mkldnn_{numbers}_supported", None)
    return None if question is None else bool(question())


EIGHT_BITS_PAY = 2**21
"""Weights below this size multiply as fast in float32: rounding the rows costs what is gained. The
choice may not depend on the number of rows, or a sentence's vectors would depend on its batch."""


class Product(ABC):
    """A product with a weight (outputs, inputs)."""

    promise: ClassVar[float]  # the largest error, relative to the product of ordinary rows
    may_use_tiles: ClassVar[bool] = False  # of AMX, which may be undescribed

    @abstractmethod
    def __init__(self, weight: Tensor) -> None: ...

    @abstractmethod
    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        total.add_(self(rows))

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        result.copy_(self(rows))


def best_product(weight: Tensor, precision: Precision) -> Product:
    """The fastest product with `weight` (outputs, inputs) that keeps the promise of `precision`."""
    return best_way(weight, precision)(weight)


def best_way(weight: Tensor, precision: Precision) -> type[Product]:
    """The way to multiply by a weight, from its size and device alone."""
    device, fast = weight.device, precision == "fast"
    if weight.dtype != torch.float32:
        return PlainProduct
    if fast and device.type == "cuda" and has_bfloat16(device):
        return BFloat16Product
    if not is_x86(device):
        return PlainProduct
    if fast and weight.numel() >= EIGHT_BITS_PAY and (way := eight_bits()) is not None:
        return way
    return CPUProduct if works(CPUProduct) else PlainProduct


def is_x86(device: torch.device) -> bool:
    """Whether this is a CPU of the kind that the special products are made for."""
    return device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")


@cache
def works(way: type[Product]) -> bool:
    """Whether a way to multiply runs here and is as exact as it promises: tried once."""
    if way.may_use_tiles:
        leave_out_undescribed_tiles()  # with hidden sizes, a try would end the process
    generator = torch.Generator().manual_seed(0)
    # Doubles, on the CPU: nothing that a caller has set (autocast, defaults) changes those.
    kind: Any = {"dtype": torch.float64, "device": "cpu", "generator": generator}
    weight, rows = torch.randn(48, 64, **kind), torch.randn(5, 64, **kind)
    exact = rows @ weight.t()
    try:
        with torch.no_grad():
            error = (way(weight.float())(rows.float()) - exact).norm() / exact.norm()
    except Exception:  # of what kind is up to the operation that is missing or cannot run
        return False
    return bool(error <= way.promise)


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 products are faster than float32 ones on this device."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    # Where tiles had to be left out, bfloat16 is slower than float32 (docs/log.md).
    if not is_x86(device) or leave_out_undescribed_tiles():
        return False
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    # The CPU may have what oneDNN was told not to use (ONEDNN_MAX_CPU_ISA).
    return any(map(cpu_has, names)) and bool(onednn_has("bf16")) and works(BFloat16Product)


@cache
def eight_bits() -> type[EightBitProduct] | None:
    """The best way to multiply 8-bit integers that works here."""
    if works(FBGEMMProduct):
        return FBGEMMProduct
    # Told too late, oneDNN would use tiles of hidden sizes, and end the process.
    if leave_out_undescribed_tiles() and not obeys():
        return None
    return OneDNNProduct if cpu_has("_is_vnni_supported") and works(OneDNNProduct) else None


def cpu_has(name: str) -> bool:
    """What torch knows of the CPU; versions that do not know the question say no."""
    return bool(getattr(torch.cpu, name, lambda: False)())


class PlainProduct(Product):
    """What torch does by itself, on any device and in any precision."""

    promise = 1e-5

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


class PackedProduct(Product):
    """float32 on a CPU, with the weight laid out once as the kernel wants it."""

    promise = 1e-5

    def __init__(self, weight: Tensor) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 128)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, None, "none", [], "")


class CPUProduct(Product):
    """float32 on a CPU, by what is fastest for so many rows; other layouts are made when needed."""

    promise = 1e-5
    rows_at_once = 256  # of more, the product leaves the cache before it is added

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()
        self._packed: PackedProduct | None = None
        self._single: PlainProduct | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return self.best(rows.shape[0])(rows)

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        product = self.best(rows.shape[0])
        for part, some in in_parts(total, rows, self.rows_at_once):
            product.add_to(part, some)

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        product = self.best(rows.shape[0])
        for part, some in in_parts(result, rows, self.rows_at_once):
            product.write_to(part, some)

    def best(self, rows: int) -> Product:
        """The product to use for so many rows."""
        if rows == 1 and torch.get_num_threads() == 1:
            if self._single is None:
                # A single row reads the weight once: fastest where it lies in reading order.
                self._single = PlainProduct(self.weight.t().contiguous().t())
            return self._single
        if self._packed is None:
            self._packed = PackedProduct(self.weight)
        return self._packed


class BFloat16Product(Product):
    """bfloat16 in, float32 out."""

    promise = 0.01
    may_use_tiles = True

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach().t().bfloat16()

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return (rows.bfloat16() @ self.weight).float()


class EightBitProduct(Product):
    """8-bit integers: a scale for each output and for each row, sums in 32 bits, float32 out.

    Rows are scaled one by one, so that a sentence's vectors do not depend on its batch mates.
    """

    promise = 0.025
    rows_at_once = 128  # of more, the sums leave the cache before they are scaled
    zero = 128  # kernels want rows without a sign
    rounding = 1 / 127  # of rows whose largest number is 1

    def __init__(self, weight: Tensor, levels: int | None = None) -> None:
        weight = weight.detach()
        self.outputs = len(weight)
        scales = largest(weight) / (levels or weight_levels(type(self)))
        self.pack((weight / scales).round_().to(torch.int8), scales[:, 0])

    @abstractmethod
    def pack(self, weight: Tensor, scales: Tensor) -> None:
        """Lay out an 8-bit weight (outputs, inputs), of which `scales` (outputs,) are left out."""

    @abstractmethod
    def multiply(self, rows: Tensor) -> Tensor:
        """Multiply rows (rows, inputs) of numbers from -1 to 1 into (rows, outputs)."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        result = rows.new_empty(len(rows), self.outputs)
        self.write_to(result, rows)
        return result

    def add_to(self, total: Tensor, rows: Tensor) -> None:
        """Add the product of (rows, inputs) to `total` (rows, outputs)."""
        for part, product, scale in self.parts(total, rows):
            part.addcmul_(product, scale)

    def write_to(self, result: Tensor, rows: Tensor) -> None:
        """Write the product of (rows, inputs) to `result` (rows, outputs)."""
        for part, product, scale in self.parts(result, rows):
            torch.mul(product, scale, out=part)

    def parts(self, result: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Some rows of the result at a time, with their product and the scale that it lacks."""
        for part, some in in_parts(result, rows, self.rows_at_once):
            scale = largest(some)
            yield part, self.multiply(some / scale), scale


class FBGEMMProduct(EightBitProduct):
    """8-bit integers by the library FBGEMM, which torch carries on x86."""

    engine = Lock()  # torch has one setting for all threads

    def pack(self, weight: Tensor, scales: Tensor) -> None:
        """Lay out an 8-bit weight (outputs, inputs), of which `scales` (outputs,) are left out."""
        with self.engine, warnings.catch_warnings():
            # Where a later torch has no such tensors, the probe fails and another way is taken.
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor.*deprecated")
            quantised = torch._make_per_channel_quantized_tensor(
                weight,
                scales.double(),
                torch.zeros(len(weight), dtype=torch.long, device=weight.device),
                0,
            )
            before = torch.backends.quantized.engine
            torch.backends.quantized.engine = "fbgemm"
            try:
                self.packed = torch.ops.quantized.linear_prepack(quantised, None)
            finally:
                torch.backends.quantized.engine = before

    def multiply(self, rows: Tensor) -> Tensor:
        """Multiply rows (rows, inputs) of numbers from -1 to 1 into (rows, outputs)."""
        return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows, self.rounding, self.zero, self.packed
        )


class OneDNNProduct(EightBitProduct):
    """8-bit integers by the library oneDNN."""

    may_use_tiles = True

    def pack(self, weight: Tensor, scales: Tensor) -> None:
        """Lay out an 8-bit weight (outputs, inputs), of which `scales` (outputs,) are left out."""
        self.packed = torch.ops.onednn.qlinear_prepack(weight, [128, weight.shape[1]])
        self.scales = scales
        self.zeros = torch.zeros_like(scales, dtype=torch.int32)

    def multiply(self, rows: Tensor) -> Tensor:
        """Multiply rows (rows, inputs) of numbers from -1 to 1 into (rows, outputs)."""
        # To whole numbers from 1 to 255: what the conversion cuts off rounds.
        quantised = (rows * 127).add_(self.zero + 0.5).to(torch.uint8)
        return torch.ops.onednn.qlinear_pointwise(
            quantised, self.rounding, self.zero, self.packed, self.scales, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip


@cache
def weight_levels(way: type[EightBitProduct]) -> int:
    """The largest whole number that a weight may be in this way to multiply.

    CPUs without VNNI add the products of two neighbours in 16 bits and cut off what is more. Then
    weights have 7 bits: 2 * 255 * 64 is just below the limit. The largest possible product tells.
    """
    full, inputs = 127, 64
    ones = torch.ones(16, inputs, dtype=torch.float32, device="cpu")
    return full if bool((way(ones, full)(ones) > 0.99 * inputs).all()) else 64


def in_parts(result: Tensor, rows: Tensor, count: int) -> Iterable[tuple[Tensor, Tensor]]:
    """So many rows of the result at a time, with what they are made from."""
    if rows.shape[0] <= count:
        return [(result, rows)]
    return zip(torch.split(result, count), torch.split(rows, count), strict=True)


def largest(rows: Tensor) -> Tensor:
    """Largest magnitude of each row (rows, 1), never zero."""
    return rows.abs().amax(1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).tiny)


class MixedProduct:
    """Matrix products in a precision of their own, `inside`, between tensors of type `outside`."""

    def __init__(self, outside: torch.dtype, inside: torch.dtype) -> None:
        self.outside = outside
        self.inside = inside

    def prepare(self, weight: Tensor) -> Tensor:
        """A matrix that is used in several products, converted once."""
        return weight.to(self.inside)

    def times(self, rows: Tensor, weight: Tensor | None) -> Tensor:
        """The product, or the rows themselves where there is nothing to multiply by."""
        if weight is None:
            return rows.clone()
        return (rows.to(self.inside) @ weight.to(self.inside)).to(self.outside)

    def add(self, total: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """A new tensor: `total` plus the product."""
        if self.inside == self.outside:
            return torch.addmm(total, rows, weight)
        return self.times(rows, weight).add_(total)

    def add_to(self, total: Tensor, rows: Tensor, weight: Tensor) -> None:
        """Add the product to `total`, in place."""
        if self.inside == self.outside:
            total.addmm_(rows, weight)
        else:
            total.add_(self.times(rows, weight))

    def write_to(self, result: Tensor, rows: Tensor, weight: Tensor | None) -> None:
        """Write the product to `result`."""
        if self.inside == self.outside and weight is not None:
            torch.mm(rows, weight, out=result)
        else:
            result.copy_(self.times(rows, weight))
