from __future__ import annotations

import numpy as np
import pytest
from analysis.probes.small_texts import sense_sentence
from helpers import Heard
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.files import SenseOccurrence
from elmokit.analysis.probes.senses import (
    CHANCE,
    OccurrencePlace,
    ambiguous_words,
    probe_nearest_sense,
    same_sense_share,
)
from elmokit.errors import InputError

BANKS = [
    sense_sentence("the aa aa aa bank", "river"),
    sense_sentence("a b b b bank", "money"),
    sense_sentence("an aa aa aa bank", "river"),
    sense_sentence("his b b b bank", "money"),
]


def test_contextual_layers_find_the_sense_and_words_alone_are_chance():
    told = Heard()
    report = probe_nearest_sense([small_vectors(), small_embedder()], BANKS, observer=told)
    third = pytest.approx(1 / 3)
    assert report.scores[CHANCE] == (third, third)
    assert report.scores["static vectors (static)"] == (third, third)
    assert report.scores["layer 1"] == (1.0, 1.0)
    assert report.counts == {"compared": (1, 4)}
    assert told.stages == {"embedding": [(0, 8), (8, 8)]}


def word(*senses: tuple[str, ...], alike: tuple[int, ...] = (0, 1, 2)) -> list[OccurrencePlace]:
    """A word with an occurrence for each of these."""
    return [
        OccurrencePlace(number, same, SenseOccurrence(0, 1, "", keys))
        for number, (same, keys) in enumerate(zip(alike, senses, strict=True))
    ]


def test_of_equally_near_ones_each_counts_by_its_part():
    three = word(("a",), ("a",), ("b",))
    assert same_sense_share(three, np.ones((3, 3), np.float32)).tolist() == [0.5, 0.5, 0.0]
    cosines = np.array([[1, 0.9, 0.2], [0.9, 1, 0.2], [0.2, 0.3, 1]], np.float32)
    assert same_sense_share(three, cosines).tolist() == [1.0, 1.0, 0.0]
    assert same_sense_share(three).tolist() == [0.5, 0.5, 0.0]


def test_the_own_sentence_is_not_compared_even_if_it_comes_again():
    same = (7, 7, 9)
    assert same_sense_share(word(("a",), ("a",), ("a", "b"), alike=same)).tolist() == [1, 1, 1]
    assert same_sense_share(word(("a",), ("a",), ("b",), alike=same)).tolist() == [0, 0, 0]
    again = [sense_sentence("the bank", "river"), sense_sentence("The bank", "money")]
    assert not ambiguous_words(again, 10)


def test_words_whose_occurrences_share_a_sense_are_left_out():
    same = [sense_sentence("a bank", "money"), sense_sentence("the bank", "money", "river")]
    lights = [sense_sentence("a light", "lamp"), sense_sentence("b light", "easy")]
    [found] = ambiguous_words([*same, *lights], 10)
    assert [place.sentence for place in found] == [2, 3]


def test_of_a_frequent_word_occurrences_from_all_over_are_kept():
    many = [sense_sentence(f"w{number} bank", f"sense {number % 4}") for number in range(12)]
    [found] = ambiguous_words(many, 4)
    assert [place.sentence for place in found] == [0, 3, 6, 9]


def test_a_text_without_ambiguous_words_is_refused():
    with pytest.raises(InputError, match="no word has two senses"):
        probe_nearest_sense([small_embedder()], BANKS[:1])
