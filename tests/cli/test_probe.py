from __future__ import annotations

import json
from pathlib import Path

import pytest
from analysis.probes.small_texts import conllu, minimal_pair, write, write_senses
from small_language_models import write_language_model
from small_models import small_bilm
from static.small_vectors import small_vectors

from elmokit.formats.convert import write_pair
from elmokit.formats.native import SavedModel, write_model

ROWS = ["layer 0 (static)", "layer 1", "layer 2 (top)", "average"]


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    bilm = small_bilm()
    write_model(tmp_path / "model", SavedModel(bilm.config, bilm.state_dict(), "default"))
    return ["--model", str(tmp_path / "model"), "--static", "none"]


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


def test_parts_of_speech_have_a_row_for_each_layer(elmo, model, tags):
    code, out, err = elmo("probe", "pos", *tags, *model, "--quiet")
    assert (code, err) == (0, "")
    rows = rows_of(out)
    assert list(rows) == ["most frequent tag of the word", *ROWS, "words"]
    assert rows["most frequent tag of the word"] == ["100.0", "100.0"]
    assert rows["words"] == ["32", "32"]


def test_static_vectors_are_a_row_too(elmo, model, tags, tmp_path):
    small_vectors().save(tmp_path / "glove.txt")
    flags = [*model[:2], "--static", str(tmp_path / "glove.txt")]
    assert "glove (static)" in rows_of(elmo("probe", "pos", *tags, *flags)[1])


def test_senses_are_printed_as_json_for_programs(elmo, model, senses, tmp_path):
    picture = tmp_path / "a.png"
    _, out, err = elmo("probe", "wsd", *senses, *model, "--json", "--picture", str(picture))
    report = json.loads(out)
    assert report["scores"]["layer 1"]["ALL"] == pytest.approx(1 / 3)
    assert report["counts"]["words"] == {"senseval2": 3, "semeval2007": 3, "ALL": 6}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert err == f"the picture is in {picture}\n"


def test_the_files_of_a_published_model_are_a_model(elmo, senses, tmp_path):
    bilm = small_bilm()
    saved = SavedModel(bilm.config, bilm.state_dict(), "whitespace")
    write_pair(saved, tmp_path / "published", force=False)
    pair = [str(tmp_path / "published" / name) for name in ("options.json", "weights.hdf5")]
    code, out, _ = elmo("probe", "wsd", "--model", *pair, *senses, "--static", "none")
    assert code == 0
    assert list(rows_of(out))[1:5] == ROWS


def test_nearest_occurrences_are_compared_with_chance(elmo, model, tmp_path):
    line = "{0}\tDT\t-\t-\nbank\tNN\tbank\tbank%1:{1}:00::\n\n"
    text = "".join(line.format(word, kind) for word, kind in [("a", 14), ("b", 17), ("c", 14)])
    path = write(tmp_path / "a.tsv", text)
    code, out, _ = elmo("probe", "nearest", "--semcor", str(path), *model)
    assert code == 0
    assert rows_of(out)["chance"] == ["33.3", "33.3"]


def test_similarity_is_of_layer_0(elmo, model, tmp_path):
    path = write(tmp_path / "EN-toy.txt", "dog cat 7\nking queen 8\ncar banana 1\n")
    code, out, _ = elmo("probe", "similarity", str(path), *model)
    assert code == 0
    assert out.splitlines()[0].split()[-2:] == ["layer", "0"]
    assert out.splitlines()[1].startswith("EN-toy ")
    assert out.splitlines()[1].endswith("3 pairs")


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    lines = [minimal_pair("The cat sat.", "Cat the sat.", f"p_{n % 2}") for n in range(6)]
    return str(write(tmp_path / "blimp.jsonl.gz", "".join(lines)))


def test_minimal_pairs_have_a_row_for_each_phenomenon(elmo, pairs, tmp_path):
    model, picture = write_language_model(tmp_path / "model"), tmp_path / "a.svg"
    flags = ["--model", model, "--pairs", "2", "--threads", "1"]
    code, out, err = elmo("probe", "blimp", pairs, *flags, "--quiet")
    assert (code, err) == (0, "")
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


def test_minimal_pairs_need_a_softmax(elmo, model, pairs):
    code, out, err = elmo("probe", "blimp", pairs, *model[:2])
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"elmo: {model[1]}: this model has no softmax")


def test_bad_files_are_one_line_before_the_model_is_loaded(elmo, tags, senses, tmp_path):
    nowhere = ["--model", str(tmp_path / "nowhere")]
    bad = write(tmp_path / "bad.conllu", conllu("a/DET") + "2\tb\n")
    code, out, err = elmo("probe", "pos", *tags, "--test", str(bad), *nowhere)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{bad}, line 2: has 2 values" in err
    code, _, err = elmo("probe", "wsd", *senses, "--tests", str(tmp_path / "no"), *nowhere)
    assert (code, err.count("\n")) == (1, 1)
    assert "no: is no folder that can be read" in err
    code, _, err = elmo("probe", "similarity", str(tmp_path / "pairs.txt"), *nowhere)
    assert (code, err.count("\n")) == (1, 1)
    assert "pairs.txt: cannot be read" in err
    bad = write(tmp_path / "bad.jsonl", minimal_pair("A.", "B.") + "{}\n")
    code, _, err = elmo("probe", "blimp", str(bad), *nowhere)
    assert (code, err.count("\n")) == (1, 1)
    assert f"{bad}, line 2: has no 'sentence_good'" in err


def test_a_picture_that_cannot_be_written_is_told_first(elmo, tags, tmp_path):
    for name in ("a.txt", "no/a.png"):
        code, _, err = elmo(
            "probe", "pos", *tags, "--picture", str(tmp_path / name), "--model", "x"
        )
        assert (code, err.count("\n")) == (1, 1)
        assert name in err
