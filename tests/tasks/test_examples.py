from __future__ import annotations

import dataclasses

import pytest

from elmokit.errors import InputError
from elmokit.tasks.examples import AnyExample, PairExample, TaggedSentence, TextExample


def test_every_example_gives_its_sentences_and_its_labels():
    text = TextExample(("Free", "entry"), "spam", "a.csv, line 2")
    tagged = TaggedSentence(("Jim", "runs"), ("I-PER", "O"), "b.conll, line 1")
    pair = PairExample(("A", "dog"), ("An", "animal"), "entailment", "c.tsv, line 9")

    assert text.sentences == (("Free", "entry"),)
    assert tagged.sentences == (("Jim", "runs"),)
    assert pair.sentences == (("A", "dog"), ("An", "animal"))
    assert (text.labels, tagged.labels, pair.labels) == (
        ("spam",),
        ("I-PER", "O"),
        ("entailment",),
    )


def test_example_that_is_to_be_predicted_has_no_labels():
    unlabelled: list[TextExample | TaggedSentence | PairExample] = [
        TextExample(("a",), None, "here"),
        TaggedSentence(("a",), None, "here"),
        PairExample(("a",), ("b",), None, "here"),
    ]
    assert [example.labels for example in unlabelled] == [(), (), ()]


def test_sentence_with_another_number_of_tags_than_words_is_refused_at_its_place():
    with pytest.raises(InputError, match=r"^dev\.conll, line 7: has 2 words but 1 tags; give each"):
        TaggedSentence(("Jim", "runs"), ("O",), "dev.conll, line 7")


def test_examples_cannot_be_changed_and_are_equal_by_what_they_hold():
    example: AnyExample = TextExample(("a",), "x", "here")
    assert example == TextExample(("a",), "x", "here")
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.place = "there"  # type: ignore[misc]
