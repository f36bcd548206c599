from __future__ import annotations

import json
import re

import numpy as np
import pytest
from closeness import assert_close

from elmokit.analysis.senses import (
    Occurrence,
    Point,
    Sense,
    Senses,
    draw_map,
    find_senses,
    label_of,
    principal_components,
    title_of,
    typical_words,
)
from elmokit.errors import InputError

pytest.importorskip("sklearn", reason="the extra analysis is not installed")

RIVER = Occurrence(("He", "sat", "on", "the", "river", "bank"), 5)
MONEY = Occurrence(("She", "went", "to", "a", "bank", "for", "money"), 4)


def bundles(river: int = 12, money: int = 20, spread: float = 0.05):
    """Two bundles of vectors in 8 dimensions, with an occurrence for each vector."""
    draw = np.random.default_rng(0)
    centres = np.eye(8, dtype=np.float32)[:2]
    labels = np.array([0] * river + [1] * money)
    vectors = centres[labels] + spread * draw.normal(size=(len(labels), 8)).astype(np.float32)
    return labels, [[RIVER, MONEY][label] for label in labels], vectors.astype(np.float32)


def test_two_bundles_are_two_senses_the_larger_first():
    labels, occurrences, vectors = bundles()
    found = find_senses("bank", occurrences, vectors)
    assert [sense.occurrences for sense in found.senses] == [20, 12]
    assert [point.sense for point in found.points] == [2 - label for label in labels]
    assert found.silhouette is not None
    assert found.silhouette > 0.8


def test_the_length_of_a_vector_does_not_matter():
    _, occurrences, vectors = bundles()
    lengths = np.random.default_rng(1).uniform(0.1, 50, size=(len(vectors), 1)).astype(np.float32)
    found = find_senses("bank", occurrences, vectors * lengths)
    assert [sense.occurrences for sense in found.senses] == [20, 12]


@pytest.mark.parametrize("senses", [1, 3, 5])
def test_as_many_senses_as_are_asked_for(senses):
    _, occurrences, vectors = bundles()
    found = find_senses("bank", occurrences, vectors, senses=senses)
    assert [sense.number for sense in found.senses] == list(range(1, senses + 1))
    assert sum(sense.occurrences for sense in found.senses) == len(vectors)


def test_words_typical_of_a_sense_are_those_of_its_sentences_alone():
    _, occurrences, vectors = bundles()
    money, river = find_senses("bank", occurrences, vectors).senses
    assert set(money.typical) == {"went", "money"}
    assert set(river.typical) == {"sat", "river"}


def test_a_word_that_is_on_both_sides_is_not_typical():
    springs = [Occurrence(("cold", "spring", last), 1) for last in "xxy"] * 4
    assert typical_words(springs, np.array([True, True, False] * 4)) == ("x",)


def test_examples_are_the_occurrences_nearest_to_the_centre():
    vectors = np.array([[1, 0], [1, 0.05], [1, -0.04], [1, 0.9]], np.float32)
    banks = [Occurrence((f"s{number}", "bank"), 1) for number in range(4)]
    found = find_senses("bank", banks, vectors, senses=1, examples=2)
    assert [example.words[0] for example in found.senses[0].examples] == ["s1", "s0"]


def test_a_word_that_occurs_once_has_one_sense():
    found = find_senses("bank", [RIVER], np.ones((1, 4), np.float32))
    assert [sense.occurrences for sense in found.senses] == [1]
    assert found.silhouette is None
    assert (found.points[0].x, found.points[0].y) == (0, 0)


def test_more_senses_than_different_occurrences_are_refused():
    vectors = np.ones((5, 4), np.float32)
    with pytest.raises(InputError, match="has 1 different occurrences, too few for 2 senses"):
        find_senses("bank", [RIVER] * 5, vectors, senses=2)


def test_equal_vectors_are_one_sense():
    found = find_senses("bank", [RIVER] * 9, np.ones((9, 4), np.float32))
    assert len(found.senses) == 1


def test_the_map_keeps_the_largest_differences():
    vectors = np.zeros((4, 5), np.float32)
    vectors[:, 2] = [-3, 3, 0, 0]
    vectors[:, 4] = [0, 0, -1, 1]
    places = principal_components(vectors)
    assert_close(places, [[-3, 0], [3, 0], [0, -1], [0, 1]])


def test_the_same_occurrences_give_the_same_senses_and_map():
    _, occurrences, vectors = bundles(spread=0.5)
    first = find_senses("bank", occurrences, vectors)
    assert find_senses("bank", occurrences, vectors) == first


def test_senses_are_plain_values():
    _, occurrences, vectors = bundles()
    plain = json.loads(json.dumps(find_senses("bank", occurrences, vectors).to_dict()))
    assert plain["senses"][0]["examples"][0] == {"words": list(MONEY.words), "position": 4}
    assert set(plain["points"][0]) == {"words", "position", "sense", "x", "y"}


# The map

SENTENCE = ("a", "bank", "for", "$5")
FOUND = Senses(
    word="bank",
    layer="2",
    occurrences=7,
    silhouette=0.4,
    senses=(
        Sense(1, 2, (Occurrence(SENTENCE, 1),), ("money", "$5")),
        Sense(2, 1, (Occurrence(("river", "bank"), 1),), ()),
    ),
    points=(
        Point(SENTENCE, 1, 1, 0.5, 0.25),
        Point(("the", "bank"), 1, 1, 0.5, -1.0),
        Point(("river", "bank"), 1, 2, -1.0, 0.0),
    ),
)


def test_the_title_says_how_many_of_the_occurrences_are_shown():
    assert title_of(FOUND) == "bank: 7 occurrences (3 shown), layer 2"


def test_a_sense_is_called_by_its_size_and_typical_words():
    assert list(map(label_of, FOUND.senses)) == ["1 (2): money, $5", "2 (1)"]


def test_a_map_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    draw_map(FOUND, tmp_path / "bank.png")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        draw_map(FOUND, tmp_path / "bank.html")


def test_words_without_content_are_not_typical():
    river = [Occurrence(("the", "river", "bank", "of", "it"), 2)] * 8
    money = [Occurrence(("a", "bank", "has", "money"), 1)] * 8
    inside = np.array([True] * 8 + [False] * 8)
    assert typical_words(river + money, inside) == ("river",)
    korean = [Occurrence(("배", "를", "먹", "었", "다"), 0)] * 8
    assert typical_words(korean + money, inside) == ("먹",)


def test_pictures_are_titled_by_their_data(tmp_path):
    draw_map(FOUND, tmp_path / "bank.svg", "news.index")
    comments = re.findall("<!-- (.*?) -->", (tmp_path / "bank.svg").read_text())
    assert f"news.index, {title_of(FOUND)}" in comments
