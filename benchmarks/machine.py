"""Machine, command and table of a result: what every script prints beside its numbers."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import torch

from elmokit.errors import ElmoError
from elmokit.io.files import write_atomically


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


def command_line(script: str, arguments: Sequence[str] | None = None) -> str:
    """A script with its arguments, or with those of this process, and what it was run on."""
    given = sys.argv[1:] if arguments is None else arguments
    return f"`{shlex.join(['python', '-m', script, *given])}`: {describe()}"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End a script with one line where its user can fix what went wrong; decorates its `main`."""
    try:
        yield
    except ElmoError as error:
        raise SystemExit(str(error)) from None


def heading(*names: str) -> str:
    """The first two lines of a Markdown table."""
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join([heading(*names), *(f"| {' | '.join(cells)} |" for cells in rows)])


def mean_and_deviation(numbers: Sequence[float], digits: int = 2) -> str:
    """As a table shows them.

    >>> mean_and_deviation([88.0, 89.0])
    '88.50 ± 0.71'
    """
    mean = f"{fmean(numbers):.{digits}f}"
    return mean if len(numbers) == 1 else f"{mean} ± {stdev(numbers):.{digits}f}"


def write_numbers(path: Path | None, numbers: object) -> None:
    """Write results as JSON, where a file is named."""
    if path is not None:
        with write_atomically(path) as temporary:
            temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


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
