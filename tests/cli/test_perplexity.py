from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from elmokit.inference.language_model import LanguageModel

SENTENCES = [["the", "cat", "sat"], ["the", "aardvark"], ["on", "the", "mat", "."]]


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


@pytest.mark.parametrize(
    ("contents", "message"), [(None, "check the name"), ("\n", "there are no sentences")]
)
def test_a_text_without_sentences_is_one_line(fails, model, tmp_path, contents, message):
    path = tmp_path / "nothing.txt"
    if contents is not None:
        path.write_text(contents, encoding="utf-8")
    assert message in fails("perplexity", str(path), "--model", model)
