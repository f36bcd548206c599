from __future__ import annotations

from pathlib import Path

import pytest
from bulk.small_jobs import some_lines, write_text

from elmokit.bulk import pipeline


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few sentences make many parts."""
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", 60)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path, some_lines(80))
