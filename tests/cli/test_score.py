from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_models import write_small_model

from elmokit.inference.language_model import LanguageModel

LINES = ["the cat sat", "", "the aardvark"]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(path)


def test_each_line_has_a_row(prints_only, model, text):
    out = prints_only("score", text, "--model", model)
    header, *rows = out.splitlines()
    assert header.split() == ["line", "total", "forward", "backward", "sentence"]
    scores = LanguageModel.load(model).score([line.split() for line in LINES])
    for number, (row, score) in enumerate(zip(rows, scores, strict=True), start=1):
        line, *values = row.split()[:4]
        assert line == str(number)
        expected = (score.total, score.total_forward, score.total_backward)
        assert [float(value) for value in values] == pytest.approx(expected, abs=1e-3)
    assert rows[0].endswith("  the cat sat")
    assert rows[2].endswith("  the aardvark?")


def test_each_word_has_a_row_between_the_markers(elmo, model, text):
    _, out, _ = elmo("score", text, "--model", model, "--words")
    rows = [row.split() for row in out.splitlines()[1:]]
    assert [row[-1] for row in rows if row[0] == "1"] == ["<S>", "the", "cat", "sat", "</S>"]
    assert [row[-1] for row in rows if row[0] == "2"] == ["<S>", "</S>"]
    score = LanguageModel.load(model).score([["the", "cat", "sat"]])[0]
    assert float(rows[0][1]) == pytest.approx(score.backward_end, abs=1e-3)
    assert [float(row[1]) for row in rows[1:4]] == pytest.approx(score.forward.tolist(), abs=1e-3)
    assert [float(row[2]) for row in rows[1:4]] == pytest.approx(score.backward.tolist(), abs=1e-3)
    assert float(rows[4][1]) == pytest.approx(score.forward_end, abs=1e-3)


def test_each_sentence_is_a_line_of_json(elmo, model, text):
    _, out, _ = elmo("score", text, "--model", model, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert [row["words"] for row in rows] == [["the", "cat", "sat"], [], ["the", "aardvark"]]
    assert rows[2]["unknown"] == [False, True]
    assert rows[0]["total"] == pytest.approx(rows[0]["total_forward"] + rows[0]["total_backward"])


def test_raw_text_of_standard_input_is_split(elmo, model, monkeypatch):
    raw = io.BytesIO(b"The cat\nsat. It is on the mat.")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=raw))
    _, out, _ = elmo("score", "-", "--model", model, "--split", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 2]
    words = [row["words"] for row in rows]
    assert words == [["The", "cat"], ["sat", "."], ["It", "is", "on", "the", "mat", "."]]


def test_a_compressed_text_of_another_encoding_is_read(elmo, fails, model, tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"the caf\xe9\n"))
    code, out, _ = elmo("score", str(path), "--model", model, "--encoding", "latin-1", "--json")
    assert (code, json.loads(out)["words"]) == (0, ["the", "caf\xe9"])
    _, out, _ = elmo("score", str(path), "--model", model, "--errors", "replace", "--json")
    assert json.loads(out)["words"] == ["the", "caf\ufffd"]
    assert "--encoding latin-1" in fails("score", str(path), "--model", model)


def test_a_model_without_a_softmax_is_one_line(fails, text, tmp_path):
    write_small_model(tmp_path / "bare")
    err = fails("score", text, "--model", str(tmp_path / "bare"))
    assert err.startswith(f"elmo: {tmp_path / 'bare'}: this model has no softmax")


@pytest.mark.parametrize("flags", [[], ["--state", "carry"], ["--split"]])
def test_the_first_answer_comes_before_the_last_line(answers_at_once, model, flags):
    arguments = ["score", "-", "--model", model, "--json", *flags]
    found = answers_at_once("the cat sat.", "the last", *arguments)
    assert (found[0]["line"], found[-1]["line"]) == (1, 101)


def test_a_table_is_scored_by_its_lines(elmo, model, tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("id,document\n1,the cat\n2,\n", encoding="utf-8")
    _, out, _ = elmo("score", str(path), "--model", model, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(row["line"], row["words"]) for row in found] == [(2, ["the", "cat"]), (3, [])]
