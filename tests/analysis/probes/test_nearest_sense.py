from __future__ import annotations

import numpy as np
import pytest
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.files import SenseOccurrence, SenseSentence
from elmokit.analysis.probes.senses import (
    CHANCE,
    Word,
    chance,
    kept_occurrences,
    nearest_share,
    probe_nearest_sense,
)
from elmokit.errors import InputError


def sentence(text: str, *senses: str) -> SenseSentence:
    """A sentence whose last word has senses."""
    words = tuple(text.split())
    return SenseSentence(words, (SenseOccurrence(len(words) - 1, len(words), "", senses),))


BANKS = [
    sentence("the aa aa aa bank", "river"),
    sentence("a b b b bank", "money"),
    sentence("an aa aa aa bank", "river"),
    sentence("his b b b bank", "money"),
]


def test_contextual_layers_find_the_sense_and_words_alone_are_chance():
    told = []
    sources = [small_vectors(), small_embedder()]
    report = probe_nearest_sense(sources, BANKS, progress=lambda *one: told.append(one))
    third = pytest.approx(1 / 3)
    assert report.scores[CHANCE] == (third, third)
    assert report.scores["static vectors (static)"] == (third, third)
    assert report.scores["layer 1"] == (1.0, 1.0)
    assert report.counts == {"compared": (1, 4)}
    assert told == [(8, 8)]


def test_of_equally_near_ones_each_counts_by_its_part():
    word = Word([0, 1, 2], [0, 1, 2], [("a",), ("a",), ("b",)])
    assert nearest_share(np.ones((3, 3), np.float32), word).tolist() == [0.5, 0.5, 0.0]
    cosines = np.array([[1, 0.9, 0.2], [0.9, 1, 0.2], [0.2, 0.3, 1]], np.float32)
    assert nearest_share(cosines, word).tolist() == [1.0, 1.0, 0.0]
    assert chance(word).tolist() == [0.5, 0.5, 0.0]


def test_the_own_sentence_is_not_compared_even_if_it_comes_again():
    word = Word([0, 1, 2], [7, 7, 9], [("a",), ("a",), ("a", "b")])
    assert chance(word).tolist() == [1.0, 1.0, 1.0]
    assert chance(word._replace(senses=[("a",), ("a",), ("b",)])).tolist() == [0.0, 0.0, 0.0]
    again = [sentence("the bank", "river"), sentence("The bank", "money")]
    assert not kept_occurrences(again, 10).words


def test_words_whose_occurrences_share_a_sense_are_left_out():
    same = [sentence("a bank", "money"), sentence("the bank", "money", "river")]
    kept = kept_occurrences([*same, sentence("a light", "lamp"), sentence("b light", "easy")], 10)
    assert [word.senses for word in kept.words] == [[("lamp",), ("easy",)]]
    assert [one.words for one in kept.sentences] == [("a", "light"), ("b", "light")]
    assert kept.words[0].rows == [0, 1]


def test_of_a_frequent_word_occurrences_from_all_over_are_kept():
    many = [sentence(f"w{number} bank", f"sense {number % 4}") for number in range(12)]
    kept = kept_occurrences(many, 4)
    assert [one.words[0] for one in kept.sentences] == ["w0", "w3", "w6", "w9"]


def test_a_text_without_ambiguous_words_is_refused():
    with pytest.raises(InputError, match="no word has two senses"):
        probe_nearest_sense([small_embedder()], BANKS[:1])
