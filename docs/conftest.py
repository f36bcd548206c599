"""Pages that need extras, or other packages: where one is not installed they are skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parent
SLOW = {
    DOCS / "search.md": ("lancedb",),
    DOCS / "spacy.md": ("spacy",),
    DOCS / "sentence-transformers.md": ("sentence_transformers", "langchain_huggingface"),
    DOCS / "tables.md": ("duckdb", "polars", "pyarrow"),
}
NEEDING = {
    DOCS / "lancedb.md": ("lancedb",),
    **SLOW,
    DOCS / "onnx.md": ("onnx", "onnxruntime"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these pages among all items, before the slow ones are left out."""
    for item in items:
        if item.path in NEEDING:
            missing = [name for name in NEEDING[item.path] if find_spec(name) is None]
            item.add_marker(pytest.mark.skipif(bool(missing), reason=f"needs {missing}"))
            if item.path in SLOW:
                item.add_marker(pytest.mark.slow)
                item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(autouse=True)
def _own_folder(request: pytest.FixtureRequest) -> None:
    """Pages that write files do so in a folder of their own."""
    if request.path.stem in ("lancedb", "sentence-transformers"):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
