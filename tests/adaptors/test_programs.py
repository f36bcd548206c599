"""Programs as people wrote them for the old packages, run as they are or with one line changed."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from adaptors.allennlp_samples import SENTENCES, Files
from closeness import assert_agree
from helpers import write, write_sentences

from elmokit import Embedder
from elmokit.adaptors.allennlp import run

PROGRAMS = Path(__file__).with_name("programs")
HUB = ("import tensorflow_hub as hub", "from elmokit.adaptors import tensorflow_hub as hub")
SIMPLE_ELMO = ("from simple_elmo", "from elmokit.adaptors.simple_elmo")
BILM = ("from bilm", "from elmokit.adaptors.bilm")
TEXTS = ["the cat is on the mat", "dogs are in the fog"]

Run = Callable[..., Any]


class TensorOfTF:
    """An eager tensor, as far as programs use one."""

    def __init__(self, values: Any) -> None:
        array = np.asarray(values)
        encode = np.vectorize(str.encode, otypes=[object])
        self._array = encode(array) if array.dtype.kind in "UO" else array

    def numpy(self) -> Any:
        return self._array


TENSORFLOW = ModuleType("tensorflow")
vars(TENSORFLOW).update(
    __spec__=ModuleSpec("tensorflow", None),
    string="string",
    constant=TensorOfTF,
    convert_to_tensor=TensorOfTF,
    reduce_mean=lambda values, axis: TensorOfTF(np.asarray(values).mean(axis)),
)


@pytest.fixture
def run_changed(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a program whose import line is changed, if it is to be; gives what it has saved."""

    def run_one(name: str, change: tuple[str, str] | None, *arguments: object) -> Any:
        output = tmp_path / "out"
        path, given = PROGRAMS / name, [*map(str, arguments), f"{output}"]
        if change is None:
            run([str(path), *given])
        else:
            text = path.read_text(encoding="utf-8")
            assert text.count(change[0]) == 1
            path = write(tmp_path / name, text.replace(*change))
            monkeypatch.setattr(sys, "argv", [str(path), *given])
            runpy.run_path(str(path), run_name="__main__")
        [saved] = [*tmp_path.glob("out.np[yz]")]
        return np.load(saved)

    monkeypatch.setenv("ELMOKIT_HUB_MODEL", str(files[0].parent))
    if find_spec("tensorflow") is None:
        monkeypatch.setitem(sys.modules, "tensorflow", TENSORFLOW)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield run_one
    for name in [name for name in sys.modules if name.split(".")[0] == "allennlp"]:
        del sys.modules[name]


def test_proteins(run_changed: Run, files: Files, tmp_path: Path) -> None:
    fasta = write(tmp_path / "two.fasta", [">long one", "MKTAYIAKQR", "QISFVK", ">short", "SEQV"])

    found = run_changed("proteins.py", None, files[0].parent, fasta)

    sequences = [list("SEQV"), list("MKTAYIAKQRQISFVK")]
    expected = [one.sum(0).mean(0) for one in Embedder.load(*files).embed_layers(sequences)]
    assert_agree([found["short"], found["long"]], expected)
    assert found["SEQVENCE"].shape[:2] == (3, 8)


def test_a_class_of_embeddings(run_changed: Run, files: Files) -> None:
    found = run_changed("embeddings_class.py", None, *files)

    embedder = Embedder.load(*files, state="carry")
    embedder.embed([["hello"]])
    [layers] = embedder.embed_layers([["The", "grass", "is", "green", "."]])
    assert_agree([found], [np.concatenate(list(layers), axis=-1)])


def test_a_classifier(run_changed: Run, files: Files) -> None:
    found = run_changed("classifier.py", None, *files)

    sentences = [["First", "sentence", "."], ["Another", "."]]
    assert_agree([found[0], found[1, :2]], Embedder.load(*files).embed(sentences, "top"))


@pytest.mark.filterwarnings("ignore::elmokit.errors.ElmoWarning")
@pytest.mark.parametrize("name", ["hub_page.py", "hub_in_tf2.py"])
def test_the_hub(run_changed: Run, files: Files, name: str) -> None:
    found = run_changed(name, HUB)

    texts = TEXTS if name == "hub_page.py" else [TEXTS[0], f"{TEXTS[1]} now"]
    sentences = [text.split() for text in texts]
    expected = Embedder.load(*files).embed(sentences)
    assert_agree([row[: len(words)] for row, words in zip(found, sentences, strict=True)], expected)


def test_vectors_of_a_file(run_changed: Run, files: Files, tmp_path: Path) -> None:
    text = write_sentences(tmp_path / "text", SENTENCES)

    found = run_changed("vectors_of_a_file.py", SIMPLE_ELMO, files[0].parent, text)

    embedder = Embedder.load(*files, state="carry")
    embedder.embed(SENTENCES[:2])
    expected = [*embedder.embed(SENTENCES[:2], "top"), *embedder.embed(SENTENCES[2:], "top")]
    lengths = map(len, SENTENCES)
    assert_agree([row[:length] for row, length in zip(found, lengths, strict=True)], expected)


def test_features_of_documents(run_changed: Run, files: Files, tmp_path: Path) -> None:
    text = write_sentences(tmp_path / "text", SENTENCES)

    found = run_changed("features_of_documents.py", SIMPLE_ELMO, files[0].parent, text)

    expected = Embedder.load(*files).embed(SENTENCES)
    lengths = map(len, SENTENCES)
    assert_agree([row[:length] for row, length in zip(found, lengths, strict=True)], expected)


def test_a_dump_of_a_file(run_changed: Run, files: Files, tmp_path: Path) -> None:
    text = write_sentences(tmp_path / "text", SENTENCES)

    found = run_changed("dump_of_a_file.py", BILM, *files, text)

    embedder = Embedder.load(*files, state="carry")
    embedder.embed(SENTENCES[:1])
    assert_agree([found], embedder.embed_layers(SENTENCES[1:2]))
