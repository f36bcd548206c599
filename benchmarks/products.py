"""Ways to multiply a few rows by the same weight again and again: `python -m benchmarks.products`.

What `elmokit/model/products.py` chooses from, at the shapes of a recurrent step, in GFLOP/s. The
last column but one is what mixing two thread pools does: NumPy's product in turn with a torch
operation on many numbers, as a step would need it. A dash is a way that does not work on this CPU.
Another CPU than the one at hand:

    ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 FBGEMM_ENABLE_INSTRUCTIONS=AVX2 python -m …
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.machine import best_seconds, describe
from elmokit.model.products import (
    FBGEMMProduct,
    OneDNNProduct,
    PackedProduct,
    PlainProduct,
    Product,
    best_way,
    leave_out_undescribed_tiles,
    works,
)

SHAPES = {
    "original": (512, 16384),
    "original, projection": (4096, 512),
    "medium": (256, 8192),
    "small": (128, 4096),
    "small, projection": (1024, 128),
}
ROWS = (1, 8, 32, 128, 256, 512)


class ByColumn(PlainProduct):
    """float32, with the weight in the order in which a single row reads it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight.t().contiguous().t())


class PackedBFloat16(PackedProduct):
    """bfloat16 in, float32 out, with the weight laid out by oneDNN."""

    promise = 0.01

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight.bfloat16())

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return super().__call__(rows.bfloat16()).float()


class HalfWeight(Product):
    """float32 rows and a weight in half precision, by FBGEMM."""

    promise = 0.001

    def __init__(self, weight: Tensor) -> None:
        self.packed = torch.ops.quantized.linear_prepack_fp16(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return torch.ops.quantized.linear_dynamic_fp16(rows, self.packed)


class NumPy(Product):
    """NumPy's product, which has threads of its own."""

    promise = 1e-5

    def __init__(self, weight: Tensor) -> None:
        self.columns = weight.t().contiguous().numpy()

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply (rows, inputs) into (rows, outputs)."""
        return torch.from_numpy(np.dot(rows.numpy(), self.columns))


WAYS: dict[str, type[Product]] = {
    "plain": PlainProduct,
    "by column": ByColumn,
    "packed": PackedProduct,
    "NumPy": NumPy,
    "half": HalfWeight,
    "bfloat16": PackedBFloat16,
    "8-bit, oneDNN": OneDNNProduct,
    "8-bit, FBGEMM": FBGEMMProduct,
}


def calls(weight: Tensor, rows: Tensor) -> dict[str, Callable[[], object] | None]:
    """Each way to multiply, ready to call; None for one that does not work here."""

    def call(way: type[Product]) -> Callable[[], object] | None:
        return partial(way(weight), rows) if works(way) else None

    numpy, many = NumPy(weight), torch.randn(1 << 20)

    def numpy_in_turn() -> None:
        numpy(rows)
        many.tanh()

    return {name: call(way) for name, way in WAYS.items()} | {"NumPy in turn": numpy_in_turn}


def main() -> None:
    """Print the table."""
    leave_out_undescribed_tiles()  # before the first product
    print(f"{describe()}\n")
    torch.manual_seed(0)
    print("| weight, rows | " + " | ".join([*WAYS, "NumPy in turn", "`fast`"]) + " |")
    print("|---" * (len(WAYS) + 3) + "|")
    for size, (inputs, outputs) in SHAPES.items():
        weight = torch.randn(outputs, inputs)
        for count in ROWS:
            work = 2 * count * inputs * outputs / 1e9
            cells = [
                "-" if call is None else f"{work / best_seconds(call, 12):.0f}"
                for call in calls(weight, torch.randn(count, inputs)).values()
            ]
            chosen = best_way(weight, "fast").__name__
            print(f"| {size}, {count} | {' | '.join(cells)} | {chosen} |", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
