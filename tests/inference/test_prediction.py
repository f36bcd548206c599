from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from elmokit.errors import InputError
from elmokit.inference.predictions import Gap, Perplexity, SentenceScore, best, draw, find_place
from elmokit.text.tokenizer import load_tokenizer

DEFAULT = load_tokenizer("default")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("The cat sat on the", Gap(["The", "cat", "sat", "on", "the"], None)),
        ("", Gap([], None)),
        ("The ___ sat.", Gap(["The"], ["sat", "."])),
        ("Mr. ___'s cat", Gap(["Mr."], ["'s", "cat"])),
        ("(___)", Gap(["("], [")"])),
        ("a word ___ word", Gap(["a", "word"], ["word"])),
        ("The cat ___", Gap(["The", "cat"], None)),
        ("___ sat.", Gap(None, ["sat", "."])),
        ("___", Gap([], None)),
    ],
)
def test_a_word_is_wanted_at_the_blank_or_after_the_sentence(text, place):
    assert find_place(text, DEFAULT) == place


def test_a_blank_at_the_end_of_a_whole_sentence_has_the_border_after_it():
    assert find_place("The cat ___", DEFAULT, missing=True) == Gap(["The", "cat"], [])
    assert find_place("___ sat", DEFAULT, missing=True) == Gap([], ["sat"])


def test_the_previous_word_is_wanted_before_the_sentence():
    assert find_place("sat on", DEFAULT, previous=True) == Gap(None, ["sat", "on"])


def test_text_that_is_split_already_may_have_a_blank():
    tokenizer = load_tokenizer("whitespace")
    assert find_place("The ___ sat.", tokenizer) == Gap(["The"], ["sat."])


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a ___ b ___", {}, "has 2 gaps; write ___ once"),
        ("a b", {"missing": True}, "has 0 gaps"),
        ("pre___ed", {}, "part of a word"),
        ("a ______ b", {}, "has 2 gaps"),
        ("a ____ b", {}, "part of a word"),
        ("a ___ b", {"previous": True}, "can have no ___"),
    ],
)
def test_blanks_that_cannot_be_filled_are_refused(text, settings, message):
    with pytest.raises(InputError, match=message):
        find_place(text, DEFAULT, **settings)


def test_a_place_is_shown_with_its_blank():
    assert str(Gap(["The"], ["sat"])) == "The ___ sat"
    assert str(Gap(["The"], None)) == "The ___"
    assert str(Gap(None, ["sat"])) == "___ sat"


def test_the_best_leave_out_what_cannot_be():
    assert best(np.array([-1.0, -np.inf, 0.0, -1.0]), top=10) == [2, 0, 3]


@pytest.mark.parametrize(
    ("temperature", "top", "shares"),
    [
        (1.0, None, [0.6, 0.3, 0.1]),
        (0.5, None, [36 / 46, 9 / 46, 1 / 46]),
        (1.0, 2, [2 / 3, 1 / 3, 0.0]),
        (0.0, None, [1.0, 0.0, 0.0]),
    ],
)
def test_words_are_drawn_as_often_as_they_are_probable(temperature, top, shares):
    random = np.random.default_rng(0)
    values = np.array([-np.inf, *np.log([0.6, 0.3, 0.1])])
    drawn = Counter(draw(values, temperature, top, random) for _ in range(4000))
    assert [drawn[number] / 4000 for number in range(4)] == pytest.approx([0.0, *shares], abs=0.03)


def test_a_score_is_json_even_where_it_is_infinite():
    score = SentenceScore(
        words=("a",),
        forward=np.array([-np.inf], dtype=np.float32),
        forward_end=-1.5,
        backward=np.array([-0.5], dtype=np.float32),
        backward_end=-2.0,
        unknown=np.array([True]),
    )
    values = json.loads(json.dumps(score.to_dict(), allow_nan=False))
    assert values == {
        "total": None,
        "total_forward": None,
        "total_backward": -2.5,
        "words": ["a"],
        "forward": [None],
        "forward_end": -1.5,
        "backward": [-0.5],
        "backward_end": -2.0,
        "unknown": [True],
    }


def test_perplexity_is_described_in_one_line():
    perplexity = Perplexity(20.0, 5.0, 10.0, targets=1250, words=1000, unknown=25, state="zero")
    assert perplexity.describe() == (
        "perplexity 10.00 (forward 20.00, backward 5.00), state zero; "
        "sentences: 250, words: 1,000 (2.5% unknown), targets per direction: 1,250"
    )
    empty = Perplexity(math.inf, 5.0, math.inf, targets=1, words=0, unknown=0, state="carry")
    assert "(0.0% unknown)" in empty.describe()
