from __future__ import annotations

import pytest
from closeness import assert_close
from small_models import small_bilm

from elmokit.formats.native import SavedModel
from elmokit.service.state import ServedModel


def test_the_next_word_is_the_librarys(post, model):
    answer = post("/predict", {"text": "the cat", "top": 3}).json()
    expected = model.language_model.next_words(["the", "cat"], 3)
    assert [row["word"] for row in answer["words"]] == [word.word for word in expected]
    assert_close(
        [row["probability"] for row in answer["words"]], [word.probability for word in expected]
    )
    assert (answer["before"], answer["after"]) == (["the", "cat"], None)


def test_a_blank_in_the_middle_uses_both_directions(post, model):
    answer = post("/predict", {"text": "the ___ sat", "top": 2}).json()
    expected = model.language_model.missing_words(["the"], ["sat"], 2)
    assert [row["word"] for row in answer["words"]] == [word.word for word in expected]
    assert_close(answer["words"][0]["backward"], expected[0].backward)


def test_the_previous_word_and_candidates(post, model):
    previous = post("/predict", {"text": "sat", "previous": True, "top": 1}).json()
    assert previous["words"][0]["word"] == model.language_model.previous_words(["sat"], 1)[0].word
    body = {"text": "the", "candidates": ["cat", "aardvark", "dog"]}
    ranked = post("/predict", body).json()["words"]
    assert [row["known"] for row in ranked] == [True, True, False]
    assert ranked[2]["word"] == "aardvark"


def test_a_sample_is_repeated_by_its_seed(post, model):
    body = {"text": "the", "sample": 5, "seed": 3, "temperature": 0.8}
    drawn = post("/predict", body).json()["sampled"]
    assert drawn == model.language_model.sample(["the"], 5, 0.8, 3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": "a ___ b ___"}, "has 2 gaps"),
        ({"text": "a", "candidates": ["b", "b"]}, "again"),
        ({"text": "a", "candidates": ["b"], "sample": 2}, "send one of them"),
        ({"text": "a ___ b", "sample": 2}, "leave out the ___"),
        ({"text": "a", "top": 0}, "top should be greater than or equal to 1"),
        ({"text": "a", "sample": 10**6}, "sample should be less than or equal to 200"),
        ({"text": 1}, "text should be a valid string"),
        ({"text": "a", "previous": 1}, "previous should be a valid boolean"),
        ({}, "text is missing; send it"),
    ],
)
def test_what_cannot_be_predicted_is_said_in_a_line(post, body, message):
    answer = post("/predict", body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_nothing_to_score_is_said_so(post):
    answer = post("/score", {})
    assert answer.status_code == 400
    assert "send texts (raw) or sentences" in answer.json()["error"]["message"]


def test_scores_are_the_librarys(post, model):
    sentences = [["the", "cat", "sat"], [], ["the", "aardvark"]]
    answer = post("/score", {"sentences": sentences}).json()["sentences"]
    for found, score in zip(answer, model.language_model.score(sentences), strict=True):
        assert found["words"] == list(score.words)
        assert_close(found["total"], score.total)
        assert_close(found["forward"], score.forward)
        assert found["unknown"] == score.unknown.tolist()


def test_unusual_words_are_scored_without_a_word_about_them(post, recwarn):
    words = ["", "x" * 500, "a\0b", "<S>"]
    assert post("/score", {"sentences": [words]}).status_code == 200
    assert not recwarn.list


def test_a_model_without_words_says_so(post):
    bilm = small_bilm()
    bare = ServedModel.of(SavedModel(bilm.config, bilm.state_dict(), tokenizer="default"), "bare")
    for path, body in (("/predict", {"text": "a"}), ("/score", {"texts": ["a"]})):
        answer = post(path, body, model=bare)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"].startswith("this model has no softmax")
    assert post("/embed", {"texts": ["a"]}, model=bare).status_code == 200
