"""The graph of a model in ONNX Runtime, and its reader, against the library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from closeness import assert_agree
from helpers import ROOT, error_of, loaded_by
from small_models import small_saved_model, write_small_model

from elmokit import Embedder, convert_model
from elmokit.cli import elmo as command
from elmokit.config import CharacterEncoderConfig, WordEncoderConfig
from elmokit.errors import ConfigError, ElmoWarning, FormatError, InputError, MissingFileError
from elmokit.formats import onnx as exporter
from elmokit.formats.native import write_model

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from elmokit.adaptors.onnx import OnnxEmbedder

GOLDEN = ROOT.parent / "shared" / "data"
WORDS = ("the", "bank", "은행", "강가에서", "naïve", "🦜", "antidisestablishmentarian" * 2, ".", "")
LONG = ("The bank of the river was steep , and nobody came . " * 20).split()[:200]


def converted(folder: Path, *source: str | Path, **settings: Any) -> OnnxEmbedder:
    convert_model(source, folder / "onnx", target="onnx", **settings)
    return OnnxEmbedder(folder / "onnx", threads=1)


def random_sentences(batches: int, longest: int = 12) -> list[list[list[str]]]:
    """Batches of one to six sentences, words of several scripts among them; some are empty."""
    random = np.random.default_rng(0)
    return [
        [random.choice(WORDS, size=length).tolist() for length in random.integers(0, longest, rows)]
        for rows in random.integers(1, 7, batches)
    ]


ENCODER = {"filters": ((1, 4), (2, 6), (3, 8)), "character_size": 4}


@pytest.mark.filterwarnings("ignore:unusual word")
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"cell_clip": None, "projection_clip": None, "skip_connections": False},
        {"cell_size": 6, "lstm_layers": 3},
        {"lstm_layers": 1, "cell_clip": 1, "projection_clip": 0.1},
        {"encoder": CharacterEncoderConfig(**ENCODER, highways=0, activation="tanh")},
        {"encoder": CharacterEncoderConfig(**ENCODER, max_characters=9), "token_size": 18},
    ],
)
def test_a_graph_gives_the_layers_of_the_library_in_any_batch(tmp_path, shape):
    source = write_small_model(tmp_path / "model", "whitespace", **shape)
    elmo, graph = Embedder.load(source), converted(tmp_path, source)
    for batch in random_sentences(batches=20):
        assert_agree(graph.embed(batch, "all"), elmo.embed(batch, "all"))


@pytest.mark.parametrize(
    ("model", "sentences"),
    [
        (
            "english-small",
            [LONG, ["Money"], [], ["A", "bank", ",", "은행", "too", "."]],
        ),
        ("korean-small", [["강", "가", "에", "은행", "이", "있", "다", "."] * 25, ["은행"]]),
    ],
)
def test_bundled_models_agree_in_every_layer_and_choice(tmp_path, model, sentences):
    elmo, graph = Embedder.load(model), converted(tmp_path, model)
    for layers in ("all", "average", "top", 1):
        assert_agree(graph.embed(sentences, layers), elmo.embed(sentences, layers))
    if model == "english-small":
        text = "He can't go. Why?"
        assert graph.split(text) == elmo.split(text)
    assert graph.description["compared"]["largest_difference"] <= exporter.TOLERANCE


@pytest.mark.parametrize("model", ["golden-allennlp", "golden-bilm-tf"])
def test_a_graph_gives_what_the_original_gave_for_its_first_batch(tmp_path, model):
    if not (GOLDEN / model).is_dir():
        pytest.skip("the golden files are in ../shared/data, which is not here")
    from test_golden import golden_batches, golden_top_layers, model_files

    graph = converted(tmp_path, *model_files(model))
    assert_agree(graph.embed(golden_batches(model)[0], "top"), golden_top_layers(model)[0])
    elmo = Embedder.load(*model_files(model))
    sentences = [sentence for batch in golden_batches(model) for sentence in batch]
    assert_agree(graph.embed(sentences, "all"), elmo.embed(sentences, "all"))


def test_weights_of_8_bits_take_a_third_and_keep_the_direction(tmp_path):
    exact, small = (
        converted(tmp_path, "english-small"),
        converted(tmp_path / "8", "english-small", int8=True),
    )
    sizes = [(path / "onnx" / "model.onnx").stat().st_size for path in (tmp_path / "8", tmp_path)]
    assert sizes[0] < 0.3 * sizes[1]
    sentences = [LONG[:30], ["A", "bank", "account"]]
    for one, other in zip(small.embed(sentences), exact.embed(sentences), strict=True):
        lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
        assert ((one * other).sum(-1) / lengths).min() > 0.995
    alone, beside = small.embed([["Money"]])[0], small.embed([["Money"], LONG])[0]
    assert_agree([alone], [beside])  # inputs are scaled word by word
    assert 0.99 < small.description["compared"]["least_cosine"] < 1


def test_weights_of_large_models_are_in_a_second_file(tmp_path, monkeypatch):
    source = write_small_model(tmp_path / "model", "whitespace")
    monkeypatch.setattr(exporter, "LARGEST", 1000)
    graph = converted(tmp_path, source)
    names = sorted(path.name for path in (tmp_path / "onnx").iterdir())
    assert names == ["elmokit.json", "model.onnx", "model.onnx.data"]
    assert_agree(graph.embed([["a", "b"]]), Embedder.load(source).embed([["a", "b"]]))


def test_the_reader_needs_no_torch(tmp_path):
    converted(tmp_path, "english-small")
    program = (
        "import sys; from elmokit.adaptors.onnx import OnnxEmbedder\n"
        "elmo = OnnxEmbedder(sys.argv[1])\n"
        "assert elmo.embed(elmo.split('The river bank.'))[0].shape == (4, 256)"
    )
    assert loaded_by(program, ["torch", "h5py", "onnx"], tmp_path / "onnx") == set()


def test_the_reader_checks_what_it_is_given(tmp_path):
    graph = converted(tmp_path, write_small_model(tmp_path / "model", "whitespace"))
    assert "layers is 'middle'" in error_of(graph.embed, [["a"]], "middle", kind=ConfigError)
    assert "expected a list of sentences" in error_of(graph.embed, "a b", kind=InputError)
    with pytest.warns(ElmoWarning, match="longer than the model reads"):
        assert graph.embed([["x" * 99]], 0)[0].shape == (1, 12)
    assert graph.embed([]) == []
    folder = tmp_path / "onnx"
    (folder / "model.onnx").write_bytes(b"damaged")
    message = error_of(OnnxEmbedder, folder, kind=FormatError)
    assert "model.onnx" in message
    assert "pip install --upgrade onnxruntime" in message
    (folder / "elmokit.json").write_text(json.dumps({"format": "elmokit-onnx", "version": 2}))
    assert "elmokit.json" in error_of(OnnxEmbedder, folder, kind=FormatError)
    assert "elmokit.json" in error_of(OnnxEmbedder, tmp_path / "none", kind=MissingFileError)


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "TOLERANCE", 0.0)
    message = error_of(converted, tmp_path, write_small_model(tmp_path / "model"), kind=FormatError)
    assert "ONNX Runtime differs by" in message
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("kind", ["word input", "words", "characters", "words-and-characters"])
def test_a_model_with_a_vocabulary_of_its_own_is_refused(tmp_path, kind):
    source = GOLDEN / "golden-efml" / kind  # of ELMoForManyLangs
    if kind == "word input":
        source = tmp_path / "model"
        write_model(source, small_saved_model(encoder=WordEncoderConfig(9)))
    elif not source.is_dir():
        pytest.skip("the golden files are in ../shared/data, which is not here")
    message = error_of(converted, tmp_path, source, kind=InputError, after=f"{source}: ")
    assert message.startswith("has a vocabulary of its own")
    assert not (tmp_path / "onnx").exists()


def test_the_command_writes_a_graph_that_the_reader_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "convert english-small my-onnx --to onnx"  # as README.md has it
    assert f"`elmo {line}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert CliRunner().invoke(command, line.split()).exit_code == 0
    found = OnnxEmbedder("my-onnx").embed([["A", "bank"]], "all")
    assert_agree(found, Embedder.load().embed([["A", "bank"]], "all"))


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_a_missing_library_is_one_line_that_names_the_extra(tmp_path, monkeypatch, library):
    source = write_small_model(tmp_path / "model")
    monkeypatch.setitem(sys.modules, library, None)
    message = error_of(converted, tmp_path, source, kind=InputError)
    assert message == f'{library} is not installed; run: pip install "elmokit[onnx]"'
