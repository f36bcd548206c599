"""Files that 0.1 wrote (old_files/README.md) can still be opened, and give the same numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from closeness import assert_agree
from helpers import Elmo

from elmokit import (
    CachedEmbedder,
    Embedder,
    NeighbourIndex,
    StaticVectors,
    TrainedTask,
    open_vectors,
)

OLD = Path(__file__).parents[1] / "old_files"
SENTENCES = [line.split() for line in (OLD / "few.txt").read_text().splitlines()]
MUON = ("--set", "training.optimiser=muon", "--set", "training.reset_state=0.5")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder.load(OLD / "model")


@pytest.mark.parametrize("suffix", ["h5", "npz", "parquet", "jsonl"])
def test_vector_files_hold_what_the_model_gives(embedder: Embedder, suffix: str) -> None:
    path = OLD / f"vectors.{suffix}"
    with open_vectors(path) as file:
        assert_agree([item.vectors for item in file], embedder.embed_layers(SENTENCES))
    if suffix != "jsonl":
        assert_agree(CachedEmbedder(path).embed(SENTENCES, "top"), embedder.embed(SENTENCES, "top"))


def test_a_pair_of_allennlp_s_files_is_the_same_model(embedder: Embedder) -> None:
    pair = Embedder.load(OLD / "pair" / "options.json", OLD / "pair" / "weights.hdf5")
    assert_agree(pair.embed(SENTENCES), embedder.embed(SENTENCES))


def test_a_task_gives_the_same_probabilities(embedder: Embedder) -> None:
    task = TrainedTask.load(OLD / "task", bilm=embedder)
    (found,) = task.predict(["the old cat looked for a key under an empty garden !"])
    assert found.label == "spam"
    assert found.probabilities["spam"] == pytest.approx(0.5223427, abs=1e-5)


def test_an_index_finds_the_sentence_itself(embedder: Embedder) -> None:
    index = NeighbourIndex.open(OLD / "index", embedder)
    assert len(index) == 432
    assert index.query(["a", "red", "cat", "sat"], 2, top=1)[0].cosine > 0.9


def test_static_vectors_are_read() -> None:
    assert StaticVectors.load(OLD / "static.safetensors").embed([["cat"]])[0].shape == (1, 6)


def test_a_pretraining_run_is_resumed(
    elmo: Elmo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OLD / "run", tmp_path / "run")
    for name in ("text.txt", "run.toml"):
        shutil.copy(OLD / name, tmp_path)
    code, _, err = elmo("pretrain", "run.toml", *MUON, "--resume", "--set", "training.steps=9")
    assert code == 0, err
    assert "resumed at step 6" in err
