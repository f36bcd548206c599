from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def pytest_report_header() -> str:
    return f"torch multiplies with {torch.backends.cpu.get_cpu_capability()}"


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Products this small lose by being shared: on a busy machine threads await each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
