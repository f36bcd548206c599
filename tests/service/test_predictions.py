from __future__ import annotations

import pytest
from closeness import assert_close
from small_models import small_bilm

from elmokit.formats.native import SavedModel
from elmokit.service.state import ServedModel


@pytest.mark.parametrize(
    ("body", "method", "place"),
    [
        ({"text": "the cat"}, "next_words", [["the", "cat"]]),
        ({"text": "the ___ sat"}, "missing_words", [["the"], ["sat"]]),
        ({"text": "sat", "previous": True}, "previous_words", [["sat"]]),
        ({"text": "a", "candidates": ["cat", "dodo"]}, "rank", [["a"], ["cat", "dodo"], None]),
    ],
)
def test_words_are_the_librarys(post, model, body, method, place):
    top = {} if method == "rank" else {"top": 3}
    found = post("/predict", body | top).json()["words"]
    expected = getattr(model.language_model, method)(*place, **top)
    assert [row["word"] for row in found] == [word.word for word in expected]
    assert_close([row["probability"] for row in found], [word.probability for word in expected])
    assert [row["known"] for row in found if "known" in row] == [
        word.known for word in expected if hasattr(word, "known")
    ]


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
        ({"text": "a", "top": 0}, "top: Input should be greater than or equal to 1"),
        ({}, "text: Field required"),
    ],
)
def test_what_cannot_be_predicted_is_said_in_a_line(refusal, body, message):
    assert message in refusal("/predict", body)


def test_scores_are_the_librarys(post, model):
    sentences = [["the", "cat", "sat"], [], ["the", "aardvark"]]
    response = post("/score", {"sentences": sentences}).json()["sentences"]
    for found, score in zip(response, model.language_model.score(sentences), strict=True):
        assert found["words"] == list(score.words)
        assert_close(found["total"], score.total)
        assert_close(found["forward"], score.forward)
        assert found["unknown"] == score.unknown.tolist()


def test_unusual_words_are_scored_without_a_word_about_them(post, recwarn):
    words = ["", "x" * 500, "a\0b", "<S>"]
    assert post("/score", {"sentences": [words]}).status_code == 200
    assert not recwarn.list


def test_a_model_without_words_says_so(post, refusal):
    bilm = small_bilm()
    bare = ServedModel.of(SavedModel(bilm.config, bilm.state_dict(), tokenizer="default"), "bare")
    for path, body in (("/predict", {"text": "a"}), ("/score", {"texts": ["a"]})):
        response = post(path, body, model=bare)
        assert response.status_code == 404
        assert response.json()["error"]["message"].startswith("this model has no softmax")
        assert response.json()["error"]["code"] == "no_words"
    assert post("/embed", {"texts": ["a"]}, model=bare).status_code == 200
