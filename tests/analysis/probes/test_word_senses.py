from __future__ import annotations

import pytest
from analysis.probes.small_texts import no_step, sense_sentence, write_senses
from closeness import assert_agree
from helpers import Heard
from small_models import small_embedder
from static.small_vectors import small_vectors

from elmokit.analysis.probes.files import SenseIndex, SenseOccurrence, SenseSentence
from elmokit.analysis.probes.senses import (
    BASELINE,
    SenseData,
    add_up_senses,
    columns_of,
    f1,
    nearest_senses,
    probe_word_senses,
    read_sense_data,
    with_lemmas,
)

ONE, TWO = "x%1:00:01::", "x%1:00:02::"
INDEX = SenseIndex({ONE: 1, TWO: 2}, {"x%1": ONE})


def test_the_sense_is_that_of_the_same_sentence():
    embedder = small_embedder()
    train = [sense_sentence("aa x", ONE), sense_sentence("b x", TWO)]
    sums = add_up_senses(embedder, train, no_step)
    asked = [sense_sentence("b x"), sense_sentence("aa x")]
    given = nearest_senses(embedder, asked, sums, INDEX, no_step)
    assert given["layer 1"] == given["layer 2 (top)"] == given["average"] == [TWO, ONE]
    # The letters are the same in all of them: the more frequent sense.
    assert given["layer 0 (static)"] == [ONE, ONE]


def test_a_lemma_that_was_not_learnt_has_its_first_sense_or_none():
    asked = [sense_sentence("b x"), sense_sentence("b y", lemma="y%2")]
    given = nearest_senses(small_embedder(), asked, {}, INDEX, no_step)
    assert set(map(tuple, given.values())) == {(ONE, None)}


def test_vectors_of_a_sense_are_added_up_over_the_means_of_its_words():
    embedder = small_embedder()
    unit = SenseOccurrence(1, 3, "take%2", ("take%2:00:01::",))
    sentences = [
        SenseSentence(("it", "took", "place"), (unit,)),
        sense_sentence("y", ONE, lemma="take%2"),
        sense_sentence("place", *unit.senses, lemma="take%2"),
    ]
    sums = add_up_senses(embedder, sentences, no_step)["take%2"]
    first, _, third = embedder.embed_layers([one.words for one in sentences])
    expected = first[:, 1:].mean(1) + third[:, 0]
    assert_agree(sums[unit.senses[0]], expected)
    assert list(sums) == [unit.senses[0], ONE]


def test_only_sentences_with_a_lemma_that_is_asked_are_read():
    other = sense_sentence("b y", ONE, lemma="y%1")
    both = SenseSentence(("x", "y"), (SenseOccurrence(0, 1, "x%1", (ONE,)), *other.occurrences))
    kept = with_lemmas([other, both], {"x%1"})
    assert kept == [SenseSentence(("x", "y"), both.occurrences[:1])]


def test_f1_counts_what_is_not_answered_against_recall_alone():
    asked = [SenseOccurrence(0, 1, "x%1", senses) for senses in ((ONE,), (TWO, ONE), (TWO, ONE))]
    assert f1([ONE, None], asked[:2]) == pytest.approx(2 / 3)
    assert f1([TWO, ONE, None], asked) == pytest.approx(2 / 5)


def test_one_set_or_a_set_of_all_needs_no_total():
    one = [sense_sentence("x", ONE)]
    columns = {"a": slice(0, 1), "b": slice(1, 3), "ALL": slice(None)}
    assert columns_of(SenseData([], {"a": one, "b": one * 2}, INDEX)) == columns
    for tests in ({"a": one}, {"a": one, "ALL": one}):
        assert list(columns_of(SenseData([], tests, INDEX))) == list(tests)


def test_each_set_has_a_column_and_each_layer_a_row(tmp_path):
    write_senses(tmp_path)
    files = tmp_path / "semcor.tsv.gz", tmp_path / "tests", tmp_path / "index.sense.gz"
    data = read_sense_data([files[0]], *files[1:])
    told = Heard()
    report = probe_word_senses([small_vectors(), small_embedder()], data, told)
    assert report.columns == ("senseval2", "semeval2007", "ALL")
    assert list(report.scores)[:3] == [BASELINE, "static vectors (static)", "layer 0 (static)"]
    # bank: both senses have the same vectors, so the first; belong to: unseen; odd: a wrong one.
    third = pytest.approx(1 / 3)
    assert set(report.scores.values()) == {(1 / 3, 1 / 3, 1 / 3)}
    assert report.scores["layer 1"] == (third,) * 3
    assert report.counts == {"words": (3, 3, 6), "lemma not in SemCor": (1, 1, 2)}
    assert told.stages == {"embedding": [(0, 8), (8, 8)]}
