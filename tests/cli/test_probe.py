from __future__ import annotations

import json
from pathlib import Path

import pytest
from analysis.probes.small_texts import conllu, minimal_pair, write_senses
from helpers import write
from small_models import write_language_model, write_small_model
from static.small_vectors import small_vectors

ROWS = ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    return ["--model", write_small_model(tmp_path / "model"), "--static", "none"]


@pytest.fixture
def tags(tmp_path: Path) -> list[str]:
    path = write(tmp_path / "a.conllu.gz", conllu(*["The/DET bank/NOUN", "a/DET man/NOUN"] * 8))
    return [part for flag in ("--train", "--dev", "--test") for part in (flag, str(path))]


@pytest.fixture
def senses(tmp_path: Path) -> list[str]:
    write_senses(tmp_path)
    semcor, index = str(tmp_path / "sem*.tsv.gz"), str(tmp_path / "index.sense.gz")
    return ["--semcor", semcor, "--tests", str(tmp_path / "tests"), "--senses", index]


def rows_of(out: str) -> dict[str, list[str]]:
    """The cells of each row below the header."""
    cells = (line.split("   ") for line in out.splitlines()[1:])
    return {first.strip(): [one.strip() for one in rest if one.strip()] for first, *rest in cells}


def test_parts_of_speech_have_a_row_for_each_layer(prints_only, model, tags):
    out = prints_only("probe", "pos", *tags, *model, "--quiet")
    rows = rows_of(out)
    assert list(rows) == ["most frequent tag of the word", *ROWS, "words"]
    assert rows["most frequent tag of the word"] == ["100.0", "100.0"]
    assert rows["words"] == ["32", "32"]


def test_static_vectors_are_a_row_and_fewer_sentences_are_for_training(elmo, model, tags, tmp_path):
    small_vectors().save(tmp_path / "glove.txt")
    flags = [*model[:2], "--static", str(tmp_path / "glove.txt")]
    report = json.loads(elmo("probe", "pos", *tags, *flags, "--sentences", "2", "--json")[1])
    assert "glove (static)" in report["scores"]
    assert (report["training words"], report["counts"]["words"]["dev"]) == (4, 32)


def test_senses_are_printed_as_json_for_programs(elmo, model, senses, tmp_path):
    picture = tmp_path / "a.png"
    _, out, err = elmo("probe", "wsd", *senses, *model, "--json", "--picture", str(picture))
    report = json.loads(out)
    assert report["scores"]["layer 1"]["ALL"] == pytest.approx(1 / 3)
    assert report["counts"]["words"] == {"senseval2": 3, "semeval2007": 3, "ALL": 6}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert err == f"the picture is in {picture}\n"


def test_nearest_occurrences_are_compared_with_chance(prints, model, tmp_path):
    line = "{0}\tDT\t-\t-\nbank\tNN\tbank\tbank%1:{1}:00::\n\n"
    text = "".join(line.format(word, kind) for word, kind in [("a", 14), ("b", 17), ("c", 14)])
    path = write(tmp_path / "a.tsv", text)
    out = prints("probe", "nearest", "--semcor", str(path), *model)
    assert rows_of(out)["chance"] == ["33.3", "33.3"]


def test_similarity_is_of_layer_0(prints, model, tmp_path):
    path = write(tmp_path / "EN-toy.txt", "dog cat 7\nking queen 8\ncar banana 1\n")
    out = prints("probe", "similarity", str(path), *model)
    assert out.splitlines()[0].split()[-2:] == ["layer", "0"]
    assert out.splitlines()[1].startswith("EN-toy ")
    assert out.splitlines()[1].endswith("3 pairs")


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    lines = [minimal_pair("The cat sat.", "Cat the sat.", f"p_{n % 2}") for n in range(6)]
    return str(write(tmp_path / "blimp.jsonl.gz", "".join(lines)))


def test_minimal_pairs_have_a_row_for_each_phenomenon(elmo, prints_only, pairs, tmp_path):
    model, picture = write_language_model(tmp_path / "model"), tmp_path / "a.svg"
    flags = ["--model", model, "--pairs", "2", "--threads", "1"]
    out = prints_only("probe", "blimp", pairs, *flags, "--quiet")
    assert out.splitlines()[0].split()[-3:] == ["forward", "backward", "sum"]
    rows = rows_of(out)
    assert list(rows) == ["islands", "syntax (field)", "all"]
    assert rows["all"][-1] == "2 paradigms, 4 pairs"
    code, out, _ = elmo("probe", "blimp", pairs, *flags, "--json", "--picture", str(picture))
    report = json.loads(out)
    assert (code, picture.is_file()) == (0, True)
    assert [one["pairs"] for one in report["paradigms"]] == [2, 2]
    shown = [f"{100 * score:.1f}" for score in report["scores"]["all"].values()]
    assert shown == rows["all"][:-1]


def test_bad_files_are_one_line_before_the_model_is_loaded(fails, tags, senses, tmp_path):
    words = str(write(tmp_path / "bad.conllu", conllu("a/DET") + "2\tb\n"))
    pairs = str(write(tmp_path / "bad.jsonl", minimal_pair("A.", "B.") + "{}\n"))
    for arguments, message in (
        (["pos", *tags, "--test", words], f"{words}, line 2: has 2 values"),
        (["wsd", *senses, "--tests", "no"], "no/*.data.xml*: "),
        (["similarity", "pairs.txt"], "pairs.txt: cannot be read"),
        (["blimp", pairs], f"{pairs}, line 2: "),
    ):
        assert message in fails("probe", *arguments, "--model", "nowhere")
