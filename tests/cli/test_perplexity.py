from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_language_models import write_language_model

from elmokit.inference.language_model import LanguageModel

SENTENCES = [["the", "cat", "sat"], ["the", "aardvark"], ["on", "the", "mat", "."]]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return write_language_model(tmp_path / "model")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Three sentences in two files, one of them compressed, with a blank line between."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("the cat sat\n\nthe aardvark\n", encoding="utf-8")
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"on the mat .\n"))
    return folder


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_perplexity_of_files_is_that_of_their_sentences(elmo, model, texts, state):
    expected = LanguageModel.load(model).perplexity(SENTENCES, state)
    files = [str(texts / "a.txt"), str(texts / "b.*")]
    code, out, err = elmo("perplexity", *files, "--model", model, "--state", state)
    assert (code, out, err) == (0, expected.describe() + "\n", "")


def test_a_program_gets_json(elmo, model, texts):
    _, out, _ = elmo("perplexity", str(texts), "--model", model, "--json")
    result = json.loads(out)
    assert (result["targets"], result["words"], result["unknown"]) == (12, 9, 1)
    assert result["mean"] == pytest.approx((result["forward"] * result["backward"]) ** 0.5)
    assert result["state"] == "zero"


def test_raw_text_is_split_into_sentences(elmo, model, tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("The cat sat. It is on the mat.\n", encoding="utf-8")
    result = json.loads(elmo("perplexity", str(raw), "--model", model, "--split", "--json")[1])
    assert (result["words"], result["targets"]) == (10, 12)


def test_standard_input_is_a_text_too(elmo, model, monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"the cat sat\n\nthe aardvark\n"))
    )
    result = json.loads(elmo("perplexity", "-", "--model", model, "--json")[1])
    assert (result["words"], result["targets"]) == (5, 7)


def test_text_that_is_not_utf8_is_refused_or_read_with_replacements(elmo, model, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"the cat\nthe \xff cat\n")
    code, _, err = elmo("perplexity", str(bad), "--model", model)
    assert code == 1
    assert "line 2: is not UTF-8" in err
    assert err.count("\n") == 1
    code, out, _ = elmo("perplexity", str(bad), "--model", model, "--errors", "replace", "--json")
    assert (code, json.loads(out)["unknown"]) == (0, 1)


def test_text_of_another_encoding_is_read(elmo, model, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"the caf\xe9.\n")
    flags = ["--model", model, "--encoding", "latin-1", "--json"]
    code, out, err = elmo("perplexity", str(path), *flags)
    assert (code, err, json.loads(out)["words"]) == (0, "", 2)


@pytest.mark.parametrize(
    ("contents", "message"), [(None, "check the name"), ("\n", "there are no sentences")]
)
def test_a_text_without_sentences_is_one_line(elmo, model, tmp_path, contents, message):
    path = tmp_path / "nothing.txt"
    if contents is not None:
        path.write_text(contents, encoding="utf-8")
    code, out, err = elmo("perplexity", str(path), "--model", model)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
