from __future__ import annotations

import pytest

from elmokit.errors import InputError
from elmokit.tasks.examples import NAMES_SHOWN, Labels, PairExample, TaggedSentence, TextExample


def text(label: str | None, line: int = 1) -> TextExample:
    return TextExample(("word",), label, f"train.csv, line {line}")


def test_names_have_the_numbers_of_their_order_and_back():
    labels = Labels(("spam", "ham"))
    assert len(labels) == 2
    assert labels.numbers(["ham", "spam", "ham"], "here") == [1, 0, 1]
    assert [labels.names[number] for number in (1, 0)] == ["ham", "spam"]


def test_labels_of_examples_are_sorted_whatever_their_order():
    assert Labels.from_examples([text("spam"), text("ham"), text("spam")]).names == ("ham", "spam")
    tagged = [TaggedSentence(("a", "b", "c"), ("O", "I-PER", "B-LOC"), "here")]
    assert Labels.from_examples(tagged).names == ("B-LOC", "I-PER", "O")
    pairs = [PairExample(("a",), ("b",), label, "here") for label in ("no", "NO")]
    assert Labels.from_examples(pairs).names == ("NO", "no")


def test_labels_are_equal_by_their_names():
    assert Labels(("a", "b")) == Labels(["a", "b"])  # type: ignore[arg-type]
    assert Labels(("a", "b")) != Labels(("b", "a"))


def test_unknown_label_is_one_line_with_its_place_and_the_known_ones():
    with pytest.raises(InputError) as caught:
        Labels(("ham", "spam")).number("Spam", "test.csv, line 3")
    assert str(caught.value) == (
        "test.csv, line 3: label 'Spam' is unknown; the training data have 'ham', 'spam': write it "
        "'spam'"
    )
    with pytest.raises(InputError, match=r"^label 'x' is unknown.*: give a file of the same task"):
        Labels(("ham", "spam")).number("x")


def test_of_many_known_labels_only_some_are_listed():
    names = tuple(f"tag{number:03}" for number in range(NAMES_SHOWN + 1))
    with pytest.raises(InputError, match=rf"'tag{NAMES_SHOWN - 1:03}' and 1 more: give") as caught:
        Labels(names).number("x", "here")
    assert names[-1] not in str(caught.value)


def test_texts_in_place_of_labels_are_cut_and_the_column_is_asked_for():
    texts = tuple(f"{number} a long review of a film " * 30 for number in range(100))
    with pytest.raises(InputError, match=r"and 92 more: is it the text\? --label-column") as caught:
        Labels(texts).number("another long review " * 30, "dev.csv, line 2")
    assert len(str(caught.value)) < 600


def test_example_without_a_label_is_refused_at_its_place():
    with pytest.raises(InputError, match=r"^train\.csv, line 4: has no label"):
        Labels.from_examples([text("ham"), text(None, line=4)])


def test_one_class_only_is_refused():
    with pytest.raises(InputError, match=r"^train\.csv, line 2 and after: there is only the label"):
        Labels.from_examples([text("ham", line=2), text("ham", line=3)])
    with pytest.raises(InputError, match=r"^there is no label; a task needs at least two"):
        Labels.from_examples([])


def test_name_that_is_there_twice_is_refused():
    with pytest.raises(InputError, match="label 'b' is there twice"):
        Labels(("a", "b", "b"))
