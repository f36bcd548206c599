from __future__ import annotations

import json

import pytest
from small_models import WORDS, write_language_model

from elmokit.inference.language_model import LanguageModel
from elmokit.text.vocabulary import Vocabulary


def predicted(out: str) -> list[str]:
    return [row["word"] for row in json.loads(out)["words"]]


def test_the_next_words_are_printed_with_their_odds(prints_only, model):
    out = prints_only("predict", "the cat sat on the", "--model", model, "--top", "3")
    place, *rows = out.splitlines()
    assert place == "the cat sat on the ___"
    expected = LanguageModel.load(model).next_words(["the", "cat", "sat", "on", "the"], 3)
    assert [row.split()[:2] for row in rows] == [
        [f"{word.probability:.2%}", word.word] for word in expected
    ]


def test_the_end_of_a_sentence_is_explained(elmo, model):
    out = elmo("predict", "the", "--model", model, "--top", "100")[1]
    assert "</S>  (the sentence ends)" in out
    out = elmo("predict", "the", "--model", model, "--top", "100", "--previous")[1]
    assert "<S>  (the sentence begins)" in out


def test_the_previous_words_are_printed(elmo, model):
    code, out, _ = elmo("predict", "sat on the mat", "--previous", "--model", model, "--json")
    result = json.loads(out)
    assert (code, result["before"], result["after"]) == (0, None, ["sat", "on", "the", "mat"])
    expected = LanguageModel.load(model).previous_words(["sat", "on", "the", "mat"])
    assert result["words"] == [word.to_dict() for word in expected]


def test_a_blank_asks_for_the_missing_word(elmo, model):
    _, out, _ = elmo("predict", "the ___ sat.", "--model", model, "--top", "4")
    place, header, *rows = out.splitlines()
    assert place == "the ___ sat ."
    assert header.split() == ["probability", "score", "forward", "backward", "prior", "word"]
    expected = LanguageModel.load(model).missing_words(["the"], ["sat", "."], 4)
    for row, word in zip(rows, expected, strict=True):
        *values, shown = row.split()
        assert shown == word.word
        assert values[0] == f"{word.probability:.2%}"
        assert [float(value) for value in values[1:]] == pytest.approx(
            word[1:2] + word[3:6], abs=0.01
        )


def test_a_blank_at_the_end_asks_for_the_next_word_unless_the_sentence_is_whole(elmo, model):
    following = predicted(elmo("predict", "the cat ___", "--model", model, "--json")[1])
    assert following == predicted(elmo("predict", "the cat", "--model", model, "--json")[1])
    whole = json.loads(elmo("predict", "the cat ___", "--missing", "--model", model, "--json")[1])
    assert whole["after"] == []
    assert whole["words"][0].keys() > {"forward", "backward", "log_prior"}


def test_candidates_are_ranked_and_unknown_ones_named(elmo, prints, model):
    arguments = ("predict", "the cat sat on the", "--model", model, "--candidates")
    out = prints(*arguments, "zebra, mat,river")
    _, heading, *rows = out.splitlines()
    assert heading.endswith("word  (probability: among all words, not these alone)")
    assert {row.split()[-1] for row in rows[:2]} == {"mat", "river"}
    assert rows[2].strip() == "zebra  (not in the vocabulary)"
    result = json.loads(elmo(*arguments, "zebra,mat,river", "--json")[1])["words"]
    assert result[2]["known"] is False
    assert result[2]["score"] is None


def test_a_vocabulary_without_counts_shows_no_prior(elmo, tmp_path):
    bare = write_language_model(tmp_path / "bare", Vocabulary(WORDS))
    out = elmo("predict", "the ___ sat", "--model", bare, "--top", "2")[1]
    assert [row.split()[4] for row in out.splitlines()[2:]] == ["-", "-"]


def test_a_sample_goes_on_with_the_sentence(elmo, model):
    arguments = ("predict", "the cat", "--model", model, "--sample", "5", "--seed", "3")
    drawn = LanguageModel.load(model).sample(["the", "cat"], words=5, seed=3)
    assert elmo(*arguments)[1] == " ".join(["the", "cat", *drawn]) + "\n"
    assert json.loads(elmo(*arguments, "--json")[1])["sampled"] == drawn
    greedy = elmo(*arguments, "--temperature", "0")[1]
    assert greedy == elmo(*arguments, "--top", "1")[1]


def test_a_sample_may_go_backward(elmo, model):
    drawn = LanguageModel.load(model).sample(words=4, seed=1, after=["sat", "."])
    arguments = ("predict", "sat.", "--previous", "--model", model, "--sample", "4", "--seed", "1")
    assert elmo(*arguments)[1] == " ".join([*drawn, "sat", "."]) + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a ___ ___ b"], 1, "has 2 gaps"),
        (["a b", "--missing"], 1, "has 0 gaps"),
        (["a ___ b", "--previous"], 1, "can have no ___"),
        (["a", "--candidates", "cat,,mat"], 1, "candidate 1 is ''"),
        (["a", "--candidates", "cat", "--sample", "3"], 2, "cannot go together"),
        (["a ___ b", "--sample", "3"], 2, "leave out the ___"),
        (["a", "--top", "0"], 2, "--top"),
        (["a", "--sample", "3", "--temperature", "nan"], 1, "temperature is nan"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(elmo, model, arguments, code, message):
    found, out, err = elmo("predict", *arguments, "--model", model)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1 or code == 2
