"""Examples in pages: each page has a folder of its own; what is not installed is skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest

from elmokit import convert_model
from elmokit.bundled import BUNDLED_MODELS

DOCS = Path(__file__).parent
SLOW = {
    "search-a-table": ("lancedb",),
    "train-in-spacy": ("spacy",),
    "use-in-langchain": ("sentence_transformers", "langchain_huggingface"),
    "use-in-polars-and-duckdb": ("duckdb", "polars", "pyarrow"),
    "use-in-sentence-transformers": ("sentence_transformers",),
    "use-in-spacy": ("spacy",),
}
NEEDING = {
    "find-neighbours": ("lancedb",),
    "find-senses": ("lancedb", "sklearn"),
    "make-static-vectors-from-a-model": ("gensim",),
    "use-in-lancedb": ("lancedb",),
    "use-korean": ("kiwipiepy",),
    "use-without-torch": ("onnx", "onnxruntime"),
    **SLOW,
}
OLD_PROGRAMS = ("come-from-", "keep-an-allennlp", "old-programs")
"""Pages whose examples read options.json and weights.hdf5."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these pages among all items, before the slow ones are left out."""
    for item in items:
        korean = "ko" in item.path.parts
        if not item.path.is_relative_to(DOCS) or not (korean or item.path.stem in NEEDING):
            continue
        needed = [*NEEDING.get(item.path.stem, ()), *(["kiwipiepy"] if korean else [])]
        missing = [name for name in needed if find_spec(name) is None]
        if "kiwipiepy" in needed and "korean-small" not in BUNDLED_MODELS:
            missing.append("the model korean-small")
        item.add_marker(pytest.mark.skipif(bool(missing), reason=f"needs {missing}"))
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def allennlp_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model as AllenNLP's two files, which have no place for its softmax."""
    folder = tmp_path_factory.mktemp("allennlp")
    with catch_warnings():
        simplefilter("ignore")
        convert_model(["english-small"], folder)
    return folder


@pytest.fixture(autouse=True)
def _own_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page has a folder to write files in, and a cache, of its own."""
    if request.path.is_relative_to(DOCS):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
        if request.path.stem.startswith(OLD_PROGRAMS):
            for file in request.getfixturevalue("allennlp_files").iterdir():
                (tmp_path / file.name).symlink_to(file)
