from __future__ import annotations

import pytest
import torch


def pytest_report_header() -> str:
    return f"torch multiplies with {torch.backends.cpu.get_cpu_capability()}"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Products this small lose by being shared: on a busy machine threads await each other.

    Set for each test, since commands set the number of the process that they run in.
    """
    torch.set_num_threads(1)
