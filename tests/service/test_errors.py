from __future__ import annotations

import re

import pytest
from helpers import ROOT

from elmokit.service.errors import STATUS_OF
from elmokit.service.middleware import Limits


def test_without_its_tokenizer_a_model_is_served_to_who_sends_words(post, without_kiwi):
    words = {"sentences": [["배", "를"]]}
    assert post("/embed", words, model=without_kiwi).status_code == 200
    response = post("/embed", {"texts": ["배를"]}, model=without_kiwi)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "missing_library")
    assert error["values"] == {"library": "kiwipiepy", "extra": "korean"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "values"),
    [
        ("/embed", {"sentences": [["a"] * 9]}, 413, "sentence_too_long", {"count": 9, "most": 8}),
        ("/embed", {}, 400, "wrong_fields", {}),
        ("/embed", {"layers": 1.5, "texts": ["a"]}, 400, "wrong_layers", {}),
        ("/embed", {"texts": [1]}, 400, "invalid_field", {}),
        ("/predict", {"text": "___ ___"}, 400, "gap_count", {"count": 2}),
        ("/predict", {"text": "a", "candidates": ["b", "b"]}, 400, "invalid_input", {}),
        ("/senses", {"word": "a"}, 404, "no_index", {}),
        ("/nowhere", {}, 404, "unknown_route", {}),
        ("/model", {}, 405, "method_not_allowed", {}),
    ],
)
def test_an_error_has_a_code_and_what_it_names(post, path, body, status, code, values):
    response = post(path, body, limits=Limits(words_per_sentence=8))
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["values"]) == (status, code, values)
    assert STATUS_OF[code] == status


def test_every_code_of_an_error_is_documented_and_none_that_there_is_not():
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| ((?:`\w+`(?:, )?)+)", page, re.MULTILINE)
    listed = {code: int(status) for status, row in rows for code in re.findall(r"\w+", row)}
    assert listed == STATUS_OF
