"""The scores of sentence vectors: by hand on a few texts, and the table of a small model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from closeness import assert_close
from helpers import write
from small_models import WORDS, small_embedder, write_language_model

from elmokit.text.vocabulary import Vocabulary
from runs import sentence_vectors
from runs.sentence_vectors import Frequencies, Pairs, Questions

PARAGRAPHS = ["the cat sat on the mat", "a dog ran", "the river bank"]
QUESTIONS = ["cat", "dog", "the bank", "the river"]
ASKED = Questions(QUESTIONS, PARAGRAPHS, [0, 1, 2, 2])


def test_a_rank_is_behind_all_that_are_as_near() -> None:
    likeness = np.array([[3.0, 2, 1], [2, 1, 3], [1, 1, 1], [0, 1, 2]])
    assert_close(ASKED.rank_scores(likeness), [100 * (1 + 1 / 3 + 1 / 3 + 1) / 4, 100])
    assert ASKED.score(likeness, np.eye(3)) == ASKED.rank_scores(likeness)


def test_pairs_are_scored_in_order_of_cosine() -> None:
    pytest.importorskip("scipy", reason="SciPy is an extra: elmokit[static]")
    turned = [[np.cos(angle), np.sin(angle)] for angle in (0.1, 0.9, 0.5)]
    found = Pairs([""] * 3, [""] * 3, [5.0, 1.0, 2.0]).score(np.eye(1, 2), np.array(turned))
    assert found == pytest.approx([100])


def test_words_are_weighted_by_how_rare_they_are() -> None:
    frequencies = Frequencies(Vocabulary(["the", "cat"], [999, 1]))
    assert frequencies.weight("The") == pytest.approx(0.001 / (0.001 + 0.999))
    assert frequencies.weight("cat") == frequencies.weight("unknown") == pytest.approx(0.5)
    layers = np.array([[[1.0, 0], [0, 2], [0, 0]]])
    found = sentence_vectors.pooled(layers, ["the", "cat", "zeros"], frequencies)[:, 0]
    share = frequencies.weight("the") / (frequencies.weight("the") + 0.5)
    assert_close(found, [[0.5, 1], [1, 2], [share, 2 * (1 - share)]])


def test_the_common_component_is_the_first_direction() -> None:
    vectors = np.array([[3.0, 0.1], [3, -0.1], [3, 0]])
    assert_close(sentence_vectors.without_common(vectors, vectors)[:, 0], [0, 0, 0])


def test_bm25_ranks_paragraphs_with_the_rare_words_of_a_question_first() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is an extra: elmokit[sklearn]")
    assert sentence_vectors.bm25(ASKED, small_embedder()) == [100, 100]


def test_a_part_of_a_set_keeps_answers_with_their_questions() -> None:
    found = ASKED.thinned(2)
    assert found == (["cat", "the bank", "the river"], [PARAGRAPHS[0], PARAGRAPHS[2]], [0, 1, 1])
    assert Pairs(["a", "b"], ["c", "d"], [1.0, 2.0]).thinned(2) == (["a"], ["c"], [1.0])


def test_the_table_has_a_row_for_each_layer_and_pooling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("scipy", "sklearn"):
        pytest.importorskip(name, reason=f"{name} is an extra")
    asked = [{"question": QUESTIONS[n]} for n in range(3)]
    paragraphs = [{"context": PARAGRAPHS[n], "qas": [asked[n]]} for n in range(3)]
    write(tmp_path / "qa.json", json.dumps({"data": [{"paragraphs": paragraphs}]}))
    write(tmp_path / "sts.tsv", "a\tb\ts\nthe cat\ta cat\t5\ndog\tmat\t1\nthey\tsat\t2\n")
    monkeypatch.setattr(sentence_vectors, "DATA", tmp_path)
    sets = {
        "sts*": lambda: sentence_vectors.read_table(["sts.tsv"], "abs"),
        "qa": lambda: sentence_vectors.read_questions("qa.json"),
    }
    monkeypatch.setitem(sentence_vectors.SETS, "english", sets)
    static = write(tmp_path / "v.txt", "the 1 0\ncat 0 1\nsat 1 1\ndog 1 0\nmat 1 0\n")
    model = write_language_model(tmp_path / "model", Vocabulary(WORDS))
    flags = ["--model", model, "--static", str(static), "--pools", "mean", "SIF - common"]
    sentence_vectors.main(["english", *flags])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| layer | pooling | sts* (3) | qa (3 of 3) | mean of * |"
    rows = [line.strip("| ").split(" | ") for line in lines[2:-2]]
    layers = ["v (static)", "layer 0 (static)", "layer 1", "layer 2 (top)", "average"]
    expected = [["BM25", ""], *([one, pool] for one in layers for pool in ("mean", "SIF - common"))]
    assert [row[:2] for row in rows] == expected
    assert rows[0][2:] == ["-", "100.0 / 100.0", "-"]
    assert all(row[4] == row[2] and row[3].endswith(" / 100.0") for row in rows[1:])
    assert f"--model {model}" in lines[-1]
