"""The numeric tests once more, with the instructions of an older CPU than this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

NUMERIC_TESTS = (
    "tests/test_golden.py",
    "tests/test_oracle.py",
    "tests/test_properties.py",
    "tests/model/test_bilm.py",
    "tests/model/test_lstm.py",
    "tests/model/test_one_sentence.py",
    "tests/model/test_products.py",
)
# Each library asks the CPU for itself; FBGEMM is the one that adds pairs of bytes in 16 bits.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
}
OTHERS = "not test_oracle_gives"  # these multiply nothing with torch
REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512",
    reason="this CPU has no avx512, so that no other test used more than avx2",
)
def test_numbers_are_right_on_a_cpu_with_avx2_alone() -> None:
    ended = run_tests(NUMERIC_TESTS, AVX2)

    assert "torch multiplies with AVX2, and 8-bit weights of 64 levels" in ended.stdout
    if ended.returncode:
        pytest.fail(f"with {AVX2}:\n{ended.stdout}{ended.stderr}", pytrace=False)


def run_tests(
    files: tuple[str, ...], variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run pytest on `files` in a process of its own, neither measured nor shared by workers."""
    of_this_run = ("PYTEST_", "SLIPCOVER_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(of_this_run)}
    variables = variables | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plain = ("--tb=short", "-p", "no:cacheprovider", "-k", OTHERS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *files],
        cwd=REPOSITORY,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
