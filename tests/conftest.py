from __future__ import annotations

import pytest
import torch

from elmokit.model.products import FBGEMMProduct, leave_out_undescribed_tiles, weight_levels, works

leave_out_undescribed_tiles()  # before the first product in bfloat16 that a test makes


def pytest_report_header() -> str:
    levels = weight_levels(FBGEMMProduct) if works(FBGEMMProduct) else "no"
    capability = torch.backends.cpu.get_cpu_capability()
    return f"torch multiplies with {capability}, and 8-bit weights of {levels} levels"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Products this small lose by being shared: on a busy machine threads await each other.

    Set for each test, since commands set the number of the process that they run in.
    """
    torch.set_num_threads(1)
