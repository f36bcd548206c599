from __future__ import annotations

import json

import numpy as np
import pytest
from closeness import assert_close

from elmokit.analysis.senses import find_senses, principal_components, typical_words
from elmokit.errors import InputError

pytest.importorskip("sklearn", reason="the extra analysis is not installed")

RIVER = ["He", "sat", "on", "the", "river", "bank"]
MONEY = ["She", "went", "to", "a", "bank", "for", "money"]


def occurrences(river: int = 12, money: int = 20, spread: float = 0.05):
    """Two bundles of vectors in 8 dimensions, with a sentence for each vector."""
    draw = np.random.default_rng(0)
    centres = np.eye(8, dtype=np.float32)[:2]
    labels = np.array([0] * river + [1] * money)
    vectors = centres[labels] + spread * draw.normal(size=(len(labels), 8)).astype(np.float32)
    sentences = [[RIVER, MONEY][label] for label in labels]
    positions = [[5, 4][label] for label in labels]
    return labels, sentences, positions, vectors.astype(np.float32)


def test_two_bundles_are_two_senses_the_larger_first():
    labels, sentences, positions, vectors = occurrences()
    found = find_senses("bank", sentences, positions, vectors)
    assert [sense.occurrences for sense in found.senses] == [20, 12]
    assert [point.sense for point in found.points] == [2 - label for label in labels]
    assert found.silhouette is not None
    assert found.silhouette > 0.8


def test_the_length_of_a_vector_does_not_matter():
    _, sentences, positions, vectors = occurrences()
    lengths = np.random.default_rng(1).uniform(0.1, 50, size=(len(vectors), 1)).astype(np.float32)
    found = find_senses("bank", sentences, positions, vectors * lengths)
    assert [sense.occurrences for sense in found.senses] == [20, 12]


@pytest.mark.parametrize("senses", [1, 3, 5])
def test_as_many_senses_as_are_asked_for(senses):
    _, sentences, positions, vectors = occurrences()
    found = find_senses("bank", sentences, positions, vectors, senses=senses)
    assert [sense.number for sense in found.senses] == list(range(1, senses + 1))
    assert sum(sense.occurrences for sense in found.senses) == len(vectors)


def test_words_typical_of_a_sense_are_those_of_its_sentences_alone():
    _, sentences, positions, vectors = occurrences()
    money, river = find_senses("bank", sentences, positions, vectors).senses
    assert set(money.typical) == {"she", "went", "to", "a", "for", "money"}
    assert set(river.typical) == {"he", "sat", "on", "the", "river"}


def test_a_word_that_is_on_both_sides_is_not_typical():
    sentences = [["cold", "spring", "x"], ["cold", "spring", "x"], ["cold", "spring", "y"]] * 4
    inside = np.array([True, True, False] * 4)
    assert typical_words(sentences, [1] * 12, inside) == ("x",)


def test_examples_are_the_occurrences_nearest_to_the_centre():
    vectors = np.array([[1, 0], [1, 0.05], [1, -0.04], [1, 0.9]], np.float32)
    sentences = [[f"s{number}", "bank"] for number in range(4)]
    found = find_senses("bank", sentences, [1] * 4, vectors, senses=1, examples=2)
    assert [example.words[0] for example in found.senses[0].examples] == ["s1", "s0"]


def test_a_word_that_occurs_once_has_one_sense():
    found = find_senses("bank", [RIVER], [5], np.ones((1, 4), np.float32))
    assert [sense.occurrences for sense in found.senses] == [1]
    assert found.silhouette is None
    assert (found.points[0].x, found.points[0].y) == (0, 0)


def test_more_senses_than_different_occurrences_are_refused():
    vectors = np.ones((5, 4), np.float32)
    with pytest.raises(InputError, match="has 1 different occurrences, too few for 2 senses"):
        find_senses("bank", [RIVER] * 5, [5] * 5, vectors, senses=2)


def test_equal_vectors_are_one_sense():
    found = find_senses("bank", [RIVER] * 9, [5] * 9, np.ones((9, 4), np.float32))
    assert len(found.senses) == 1


def test_the_map_keeps_the_largest_differences():
    vectors = np.zeros((4, 5), np.float32)
    vectors[:, 2] = [-3, 3, 0, 0]
    vectors[:, 4] = [0, 0, -1, 1]
    places = principal_components(vectors)
    assert_close(places, [[-3, 0], [3, 0], [0, -1], [0, 1]])


def test_the_same_occurrences_give_the_same_senses_and_map():
    _, sentences, positions, vectors = occurrences(spread=0.5)
    first = find_senses("bank", sentences, positions, vectors)
    assert find_senses("bank", sentences, positions, vectors) == first


def test_senses_are_plain_values():
    _, sentences, positions, vectors = occurrences()
    plain = json.loads(json.dumps(find_senses("bank", sentences, positions, vectors).to_dict()))
    assert plain["senses"][0]["examples"][0] == {"words": MONEY, "position": 4}
    assert set(plain["points"][0]) == {"words", "position", "sense", "x", "y"}
