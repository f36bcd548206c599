from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import Fails, Prints, write
from tasks.small_tasks import embedder, train

from elmokit.analysis.neighbours.store import FORMAT, VERSION, IndexDescription
from elmokit.bundled import BUNDLED_MODELS, known_versions
from elmokit.vectors.files import write_vectors


@pytest.fixture
def facts(prints: Prints) -> Any:
    return lambda *named: json.loads(prints("info", *map(str, named), "--json"))


def test_a_trained_task_tells_its_labels_and_scores(
    facts: Any, prints: Prints, tmp_path: Path
) -> None:
    result = train(tmp_path, "ner", {"training.epochs": 1}, bilm=embedder())
    found = facts(result.folder)
    assert (found["name"], found["kind"], found["labels"]) == ("ner", "tags", ["LOC", "PER"])
    assert found["bilm"] == "a model without a name"
    assert found["scores"]["dev"]["f1"] == result.dev.score.main
    assert "labels  LOC, PER\n" in prints("info", str(result.folder))
    (result.folder / "config.json").unlink()
    found = facts(result.folder)
    assert (found["trains"], found["measured"]["epoch"]) == ("ner", 1)
    assert "--resume" in found["format"]


@pytest.mark.parametrize("name", BUNDLED_MODELS)
def test_a_bundled_model_tells_its_version(facts: Any, name: str) -> None:
    found = facts(name)
    assert (found["model"], found["version"]) == (name, list_versions(name)[-1])


def list_versions(name: str) -> list[str]:
    return [each for each in known_versions().values() if each.startswith(name)]


def test_a_run_of_pretraining_tells_how_far_it_is(facts: Any, model: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    write(run / "metrics.jsonl", ['{"step": 7, "loss": 2.5}'])
    (run / "checkpoints").mkdir()
    found = facts(run)
    assert (found["trains"], found["measured"]) == ("a model", {"step": 7, "loss": 2.5})
    Path(model).rename(run / "model")
    found = facts(run)
    assert found["format"] == "model folder"
    assert found["run"]["measured"]["step"] == 7


def test_files_of_vectors_tell_their_shapes(facts: Any, tmp_path: Path) -> None:
    for name in ("v.h5", "v.npz", "v.jsonl"):
        path = tmp_path / name
        write_vectors(path, [(["a", "b"], np.ones((2, 3)))], description={"layers": "top"})
        found = facts(path)
        assert (found["vectors"], found["items"], found["layers"]) == (name, 1, "top")
        assert found["shape of the first"] == [2, 3]
    (tmp_path / "w.h5.parts").mkdir()
    assert "--resume completes it" in facts(tmp_path / "w.h5.parts")["format"]


def test_static_vectors_tell_their_words(facts: Any, vectors: str) -> None:
    assert facts(vectors)["words"] > 1
    found = facts("english-small-word2vec")
    assert (found["vector size"], found["method"]) == (128, "skip-gram")
    assert Path(found["path"]).is_dir()


def test_an_index_tells_what_it_was_made_of(facts: Any, fails: Fails, tmp_path: Path) -> None:
    about = IndexDescription("m", "f", "zero", "default", ("0", "average"), 12, sentences=3)
    values = {"format": FORMAT, "version": VERSION, **vars(about)}
    path = write(tmp_path / "index" / "index.json", json.dumps(values))
    found = facts(path.parent)
    assert (found["index"], found["model"], found["sentences"]) == ("index", "m", 3)
    path.write_text("{}")
    assert "build the index again" in fails("info", str(path.parent))
