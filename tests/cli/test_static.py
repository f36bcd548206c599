from __future__ import annotations

import json
from pathlib import Path

import pytest
from closeness import assert_close
from helpers import loaded_by
from small_models import write_language_model
from static.small_vectors import random_sentences, small_vectors

from elmokit import Embedder, StaticVectors


@pytest.fixture
def text(tmp_path: Path) -> str:
    lines = (" ".join(words) + "\n" for words in random_sentences())
    (tmp_path / "text.txt").write_text("".join(lines))
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize("command", ["neighbours", "neighbors"])
def test_neighbours_are_printed_in_either_spelling(elmo, prints, vectors, command):
    out = prints("static", command, vectors, "king", "--top", "2")
    assert [line.split()[1] for line in out.splitlines()] == ["King", "man"]
    result = json.loads(elmo("static", command, vectors, "king", "--json")[1])
    assert result["word"] == "king"
    assert result["words"][0] == {"word": "King", "cosine": pytest.approx(0.9959, abs=1e-4)}


def test_an_analogy_is_answered(elmo, fails, vectors):
    _, out, _ = elmo("static", "analogy", vectors, "king - man + woman", "--top", "1")
    assert out.split()[1] == "queen"
    assert "write it as 'king - man + woman'" in fails("static", "analogy", vectors, "king man")


def test_similarity_of_two_words(elmo, vectors):
    assert elmo("static", "similarity", vectors, "king", "man")[1] == "0.7071\n"
    result = json.loads(elmo("static", "similarity", vectors, "king", "man", "--json")[1])
    assert result == {"words": ["king", "man"], "cosine": pytest.approx(0.7071, abs=1e-4)}


def test_an_unknown_word_is_one_line(fails, vectors):
    err = fails("static", "similarity", vectors, "kings", "man")
    assert err == "elmo: 'kings' has no vector in glove; near forms that have one: king, King\n"


def test_a_similarity_set_and_analogies_are_scored(elmo, vectors, tmp_path):
    (tmp_path / "set.txt").write_text("king queen 5\nking man 3\nking zebra 1\nbank man 1\n")
    (tmp_path / "questions.txt").write_text(": family\nman king woman queen\nman a woman b\n")
    _, out, _ = elmo("static", "similarity", vectors, "--set", str(tmp_path / "set.txt"))
    assert out.splitlines()[1].split() == ["set", "0.500", "3", "4"]
    arguments = [
        "--pairs",
        str(tmp_path / "set.txt"),
        "--analogies",
        str(tmp_path / "questions.txt"),
    ]
    _, out, _ = elmo("static", "evaluate", vectors, *arguments)
    rows = [line.split() for line in out.splitlines()]
    assert rows[1] == ["set", "0.500", "3", "4"]
    assert rows[-1] == ["total", "100.0%", "1", "2"]
    result = json.loads(elmo("static", "evaluate", vectors, *arguments, "--json")[1])
    assert result["similarity"][0]["known"] == 3
    assert result["analogies"][0][0]["accuracy"] == 1


def test_pairs_are_shown_as_in_the_picture(elmo):
    arguments = ["static", "pairs", "The quick brown fox jumps.", "--lowercase"]
    lines = elmo(*arguments)[1].splitlines()
    assert lines[2:4] == [
        "the [quick] brown fox jumps .",
        "    (quick, the) (quick, brown) (quick, fox)",
    ]
    result = json.loads(elmo(*arguments, "--window", "1", "--json")[1])
    assert result[0] == {
        "sentence": ["the", "quick", "brown", "fox", "jumps", "."],
        "position": 0,
        "pairs": [["the", "quick"]],
    }


def test_training_writes_vectors_that_the_other_commands_read(elmo, prints, fails, text, tmp_path):
    pytest.importorskip("gensim", reason="the extra static is not installed")
    output = str(tmp_path / "v.safetensors")
    flags = ["--size", "7", "--epochs", "1", "--threads", "1", "--tokenizer", "whitespace"]
    out = prints("static", "train", text, "-o", output, *flags)
    assert (
        out == f"{output}: 30 words, vectors of 7, by skip-gram from 2,000 words in 200 sentences\n"
    )
    assert len(elmo("static", "neighbours", output, "w1", "--top", "3")[1].splitlines()) == 3
    assert "is there already" in fails("static", "train", text, "-o", output, *flags)
    _, out, _ = elmo("static", "train", text, "-o", output, *flags, "--force", "--json")
    assert json.loads(out)["kept"] == 30


def test_static_vectors_out_of_a_model_are_files_of_word_vectors(prints, fails, text, tmp_path):
    pytest.importorskip("gensim", reason="the extra static is not installed")
    model = write_language_model(tmp_path / "model")
    output = str(tmp_path / "v.glove")
    flags = ["--model", model, "--layers", "top", "--max-words", "7", "--tokenizer", "whitespace"]
    out = prints("static", "from-model", text, "-o", output, *flags)
    assert out == f"{output}: 7 words, vectors of 12\n"
    sentences = [line.split() for line in Path(text).read_text().splitlines()]
    expected = StaticVectors.from_model(Embedder.load(model), sentences, "top", max_words=7)
    found = StaticVectors.load(output)
    assert found.words == expected.words
    assert_close(found.rows(slice(None)), expected.rows(slice(None)))
    flags[1] = "nothing"  # before the model is looked for
    assert "is there already" in fails("static", "from-model", text, "-o", output, *flags)
    output = str(tmp_path / "v.h5")
    assert "a name that ends in" in fails("static", "from-model", text, "-o", output, *flags)


def test_every_flag_of_training_reaches_the_library(elmo, text, tmp_path, monkeypatch):
    seen = {}

    def record(patterns, output, settings, **others):
        seen.update(vars(settings), **others)
        raise KeyboardInterrupt

    monkeypatch.setattr("elmokit.static.training.train_from_files", record)
    numbers = {
        "size": 2, "window": 3, "min_count": 4, "max_words": 5, "negative": 6, "epochs": 7,
        "buckets": 8, "threads": 4, "seed": 10,
    }  # fmt: skip
    flags = [
        part for name, n in numbers.items() for part in (f"--{name.replace('_', '-')}", str(n))
    ]
    flags += ["--method", "fasttext", "--lowercase", "--errors", "replace", "--force"]
    assert elmo("static", "train", text, "-o", "v.bin", *flags)[0] == 130
    assert {name: seen[name] for name in numbers} == numbers
    assert (seen["method"], seen["lowercase"], seen["force"]) == ("fasttext", True, True)
    assert seen["text"].errors == "replace"


def test_without_a_file_the_bundled_vectors_are_asked(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr("elmokit.static.vectors.BUNDLED", tmp_path)
    small_vectors().save(tmp_path / "english-small-word2vec" / "vectors.safetensors")
    assert elmo("static", "similarity", "king", "king")[1] == "1.0000\n"
    assert elmo("static", "neighbours", "king", "--top", "1")[1].split()[1] == "King"


@pytest.mark.parametrize(
    "arguments",
    [
        ["neighbours"],
        ["neighbours", "a", "b", "c"],
        ["similarity", "a"],
        ["similarity", "a", "b", "--set", "c"],
        ["pairs", "a", "--window", "0"],
        ["neighbourz", "a"],
        ["convert", "a.txt", "a.bin"],
    ],
)
def test_wrong_usage_ends_with_2(elmo, arguments):
    assert elmo("static", *arguments)[0] == 2


def test_looking_at_vectors_imports_neither_torch_nor_gensim(vectors):
    program = "import sys\nfrom elmokit.cli import elmo\n"
    program += "elmo(['static', 'neighbours', sys.argv[1], 'king'], standalone_mode=False)"
    assert loaded_by(program, ["torch", "gensim", "scipy"], vectors) == set()
