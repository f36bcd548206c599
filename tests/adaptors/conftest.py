from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adaptors.allennlp_samples import LAYERS, SIZE, Files
from random_models import Options, Weights, random_options, random_weights, write_files

from elmokit.inference.embedder import Embedder

collect_ignore_glob = ["programs/*", "allennlp_surroundings.py"]  # programs, not modules of tests


@pytest.fixture(scope="module")
def model() -> tuple[Options, Weights]:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return options, random_weights(options, seed=3)


@pytest.fixture(scope="module")
def files(model: tuple[Options, Weights], tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("model"), *model)


@pytest.fixture(scope="module")
def other_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return write_files(tmp_path_factory.mktemp("other"), options, random_weights(options, seed=4))


@pytest.fixture(scope="module")
def of_words(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of a model that reads words."""
    options = random_options(word_input=True)
    weights = random_weights(options, words=5)
    return write_files(tmp_path_factory.mktemp("words"), options, weights)


@pytest.fixture(params=["bm", ("bm/options.json", Path("bm/weights.hdf5"))])
def relative(
    request: pytest.FixtureRequest, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What names a model in the working folder, which has a folder `elsewhere` too."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(files[0].parent, tmp_path / "bm")
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.fixture
def count_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Embedder], list[int]]:
    """Gives a list that grows by the number of sentences whenever an embedder reads some."""

    def count(embedder: Embedder) -> list[int]:
        counts: list[int] = []
        stream = embedder.embed_stream

        def counted(sentences: Any, layers: str) -> Any:
            listed = list(sentences)
            counts.append(len(listed))
            return stream(listed, layers)

        monkeypatch.setattr(embedder, "embed_stream", counted)
        return counts

    return count
