"""Examples in docstrings are tested."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).with_name("tests")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave modules without an example alone: some import a library that may not be here."""
    if collection_path.suffix != ".py" or TESTS in collection_path.parents:
        return None
    return ">>>" not in collection_path.read_text(encoding="utf-8") or None
