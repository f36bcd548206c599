"""The features that are compared, where an Embedder is expected, and what is said of packages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from helpers import error_of
from tasks.small_tasks import write_examples

from elmokit.errors import InputError
from runs import choosing
from runs.choosing import Features, Sentences, StaticFeatures, TransformerFeatures
from runs.task_rows import ROWS


class Letters(Features):
    """Two layers of two numbers, of the word's length and place."""

    def __init__(self, weights: str = "one") -> None:
        super().__init__("letters", 2, 2, weights)

    def layers_of(self, sentences: Sentences, top: bool = False) -> list[np.ndarray]:
        rows = [[(len(word), place) for place, word in enumerate(words)] for words in sentences]
        return [np.array([row, row], np.float32) * [[[1]], [[2]]] for row in rows]


def test_features_are_kept_as_an_embedder_keeps_layers() -> None:
    features = Letters()
    sentence = ["a", "word"]
    assert features.embed_layers([sentence])[0].shape == (2, 2, 2)
    assert features.embed([sentence], "top")[0].tolist() == [[2, 0], [8, 2]]
    assert features.embed([sentence])[0].tolist() == [[1.5, 0], [6, 1.5]]
    assert features.fingerprint() != StaticFeatures().fingerprint()


def test_a_network_is_trained_once_on_a_part_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "FOLDER", tmp_path / "choosing")
    monkeypatch.setattr(choosing, "DATA", tmp_path)
    files = {part: write_examples(tmp_path, "ner", part).name for part in ("train", "dev", "test")}
    monkeypatch.setattr(choosing, "ROWS", {"ner": ROWS["ner"]._replace(**files)})
    short = choosing.task_config

    def one_epoch(name: str, settings: dict[str, object]) -> object:
        return short(name, settings={**settings, "training.epochs": 1})

    monkeypatch.setattr(choosing, "task_config", one_epoch)
    score = choosing.train("ner", Letters(), "letters", 12, 1)
    [results] = (tmp_path / "choosing").rglob("results.json")
    found = json.loads(results.read_text())
    assert found["examples"] == {"train": 12, "dev": 4, "test": 20}
    assert score == 100 * found["test"]["f1"]
    results.write_text(json.dumps({"test": {"f1": 0.5}}))
    assert choosing.train("ner", Letters(), "letters", 12, 1) == 50
    assert choosing.train("ner", Letters("other"), "letters", 12, 1) == score


def test_a_part_of_a_file_has_its_sentences_complete_and_is_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "DATA", tmp_path)
    blocks = [f"w{number} O\nx O" for number in range(20)]
    with gzip.open(tmp_path / "eng.gz", "wt") as file:
        file.write("-DOCSTART- -X- O O\n\n" + "\n\n".join(blocks) + "\n")
    parts = [choosing.part_of("eng.gz", 5, tmp_path / folder) for folder in ("one", "two")]
    one, two = (gzip.decompress(part.read_bytes()).decode() for part in parts)
    assert one == two
    assert len(one.strip().split("\n\n")) == 5
    assert set(one.strip().split("\n\n")) <= set(blocks)
    assert choosing.part_of("eng.gz", None, tmp_path) == tmp_path / "eng.gz"


def test_packages_are_counted_with_what_they_require() -> None:
    assert {"elmokit", "torch", "numpy", "safetensors"} <= choosing.required("elmokit")
    assert "spacy" not in choosing.required("elmokit")  # an extra
    assert choosing.required("no-such-package") == set()
    assert choosing.size_of_package("click") > 100_000
    assert choosing.packages_of("word2vec") > choosing.size_of_code() > 1_000_000


def test_a_missing_transformer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "TRANSFORMER_PACKAGE", "no-such-transformer")
    said = error_of(TransformerFeatures, kind=InputError)
    assert "no_such_transformer is missing: pip install --no-deps no-such-transformer" in said
