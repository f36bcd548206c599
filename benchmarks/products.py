"""Ways to multiply a few rows by the same weight again and again: `python -m benchmarks.products`.

What `elmokit/model/products.py` chooses from, at the shapes of a recurrent step, in GFLOP/s. The
last column is what mixing two thread pools does: NumPy's product in turn with a torch operation on
many numbers, as a step would need it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.machine import best_seconds, describe
from elmokit.model.products import BFloat16Product, Int8Product, PackedProduct, PlainProduct

SHAPES = {"original": (512, 16384), "small": (128, 4096)}
ROWS = (1, 32, 128, 256, 512)


def ways(weight: Tensor, rows: Tensor) -> dict[str, Callable[[], object]]:
    """Each way to multiply, ready to call."""
    plain, packed = PlainProduct(weight), PackedProduct(weight)
    bfloat16, int8 = BFloat16Product(weight), Int8Product(weight)
    by_column = PlainProduct(weight.t().contiguous().t())
    inputs, columns = rows.numpy(), weight.t().contiguous().numpy()
    many = torch.randn(1 << 20)

    def numpy_in_turn() -> None:
        np.dot(inputs, columns)
        many.tanh()

    return {
        "plain": lambda: plain(rows),
        "by column": lambda: by_column(rows),
        "packed": lambda: packed(rows),
        "NumPy": lambda: np.dot(inputs, columns),
        "bfloat16": lambda: bfloat16(rows),
        "8-bit": lambda: int8(rows),
        "NumPy in turn": numpy_in_turn,
    }


def main() -> None:
    """Print the table."""
    print(f"{describe()}\n")
    torch.manual_seed(0)
    header: list[str] = []
    for size, (inputs, outputs) in SHAPES.items():
        weight = torch.randn(outputs, inputs)
        for count in ROWS:
            calls = ways(weight, torch.randn(count, inputs))
            if not header:
                header = ["weight, rows", *calls]
                print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
            work = 2 * count * inputs * outputs
            speeds = [work / best_seconds(call, 12) / 1e9 for call in calls.values()]
            cells = " | ".join(f"{speed:.0f}" for speed in speeds)
            print(f"| {size}, {count} | {cells} |", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
