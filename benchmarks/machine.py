"""What a result was measured on, and with: kept beside every number."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import torch


def describe() -> str:
    """Processor, cores, versions, commit and date in one line."""
    return (
        f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}, commit {commit()}, {date.today()}"
    )


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit that was measured, marked where files had been changed."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs: what disturbs a run only ever makes it longer."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def float32_peak(size: int = 3072, repeats: int = 8) -> float:
    """Floating-point operations per second of the best large matrix product at hand."""
    first, second = torch.randn(size, size), torch.randn(size, size)
    one, other = first.numpy(), second.numpy()
    packed = torch.ops.mkldnn._reorder_linear_weight(second, size)
    products: list[Callable[[], object]] = [
        lambda: first @ second,
        lambda: np.matmul(one, other),
        lambda: torch.ops.mkldnn._linear_pointwise(first, packed, None, "none", [], ""),
    ]
    return 2 * size**3 / min(best_seconds(product, repeats) for product in products)
