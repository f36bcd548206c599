from __future__ import annotations

import json

import pytest
from helpers import error_of
from static.small_vectors import small_vectors

from elmokit.analysis.comparison import find_occurrence
from elmokit.errors import InputError

BANKS = ("A river bank.", "The bank lends.")


def test_static_vectors_are_shown_beside(elmo, model, vectors):
    _, out, _ = elmo("compare", "bank", *BANKS, "--model", model, "--static", vectors)
    assert out.splitlines()[4].split() == ["glove", "(static)", "1.000"]
    assert "layer 0 (static)" in out


def test_the_bundled_vectors_are_shown_where_they_are(elmo, model, tmp_path, monkeypatch):
    monkeypatch.setattr("elmokit.static.vectors.BUNDLED", tmp_path)
    arguments = ["compare", "bank", *BANKS, "--model", model]
    assert "word2vec" not in elmo(*arguments)[1]
    static = small_vectors(description={"method": "skip-gram"})
    static.save(tmp_path / "english-small-word2vec" / "vectors.safetensors")
    assert elmo(*arguments)[1].splitlines()[4].split() == ["word2vec", "(static)", "1.000"]
    assert "word2vec" not in elmo(*arguments, "--static", "none")[1]


@pytest.mark.parametrize("flags", [[], ["--heat-map"]])
def test_sentences_without_a_word_give_a_heat_map(prints, model, flags):
    arguments = ["compare", *BANKS, "--model", model, "--static", "none", *flags]
    out = prints(*arguments)
    lines = out.splitlines()
    heads = [line for line in lines if line.endswith("cosine x 100")]
    assert heads[1] == "layer 1, cosine x 100"
    assert len(heads) == 4
    first = lines.index(heads[0])
    assert lines[first + 1].split() == [str(number) for number in range(1, 9)]
    assert lines[first + 2].split()[:3] == ["1", "A", "100"]
    assert "\x1b" not in out


def test_a_heat_map_wider_than_the_terminal_is_cut(elmo, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = elmo("compare", *BANKS, "--model", model, "--static", "none")
    assert max(map(len, out.splitlines())) <= 40
    assert sum(line.split()[:2] == ["3", "bank"] for line in out.splitlines()) == 4 * 2


def test_unknown_words_have_dashes_in_the_static_map(elmo, model, vectors):
    _, out, _ = elmo("compare", *BANKS, "--model", model, "--static", vectors)
    lines = out.splitlines()
    assert lines[3].split() == ["1", "A", *"--------"]
    assert lines[5].split()[:5] == ["3", "bank", "-", "60", "100"]


def test_a_heat_map_is_drawn(elmo, model, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    picture = tmp_path / "map.png"
    code, out, _ = elmo("compare", *BANKS, "--model", model, "--picture", str(picture))
    assert (code, out) == (0, f"{picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_another_kind_is_refused_before_a_model_is_loaded(fails):
    assert "map.gif" in fails("compare", *BANKS, "--picture", "map.gif", "--model", "nowhere")


def test_a_heat_map_as_json_has_every_cell(elmo, model):
    _, out, _ = elmo("compare", *BANKS, "--model", model, "--static", "none", "--json")
    result = json.loads(out)
    assert result["sentences"] == [["A", "river", "bank", "."], ["The", "bank", "lends", "."]]
    assert len(result["cosines"]["layer 1"]) == 8
    assert result["cosines"]["layer 1"][3][3] == pytest.approx(1)


def test_a_word_with_a_particle_is_named_and_what_to_use(fails, model):
    arguments = ["나는 배를 먹었다", "배를 타고 갔다", "--model", model, "--static", "none"]
    message = fails("compare", "배", *arguments)
    assert "it has 배를: with a model of morphemes" in message
    assert message.endswith("배 is a word of its own\n")


@pytest.mark.parametrize(
    ("word", "hint"), [("은행", "; it has 은행나무"), ("배가", "; the model reads 배 가: give 배")]
)
def test_words_of_morphemes_are_not_advised_to_be_morphemes(word, hint):
    words = ["배", "가", "은행나무", "아래", "."]
    assert error_of(find_occurrence, word, words, 1, "kiwi", kind=InputError).endswith(hint)


def test_a_model_of_morphemes_finds_the_word_in_its_sentence(elmo, model):
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    arguments = ["나는 배를 먹었다", "배를 타고 갔다", "--model", model, "--static", "none"]
    code, out, _ = elmo("compare", "배", *arguments, "--tokenizer", "kiwi")
    assert code == 0
    assert out.splitlines()[:2] == ["1: 나 는 [배] 를 먹 었 다", "2: [배] 를 타 고 가 었 다"]
