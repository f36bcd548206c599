from __future__ import annotations

import pytest

from elmokit.analysis.neighbours.index import find_marked
from elmokit.errors import InputError
from elmokit.text.tokenizer import load_tokenizer

DEFAULT, WHITESPACE = load_tokenizer("default"), load_tokenizer("whitespace")


def test_the_word_between_stars_is_found_in_its_sentence():
    marked = find_marked("Chico Ruiz made a spectacular *play* .", DEFAULT)
    assert marked.words == ("Chico", "Ruiz", "made", "a", "spectacular", "play", ".")
    assert (marked.position, marked.word) == (5, "play")
    assert str(marked) == "Chico Ruiz made a spectacular *play* ."


def test_punctuation_may_touch_the_stars():
    assert find_marked("What a *play*!", DEFAULT).words == ("What", "a", "play", "!")


def test_of_several_sentences_the_one_with_the_mark_is_taken():
    marked = find_marked("He came home. The *bank* was closed. She left.", DEFAULT)
    assert marked.words == ("The", "bank", "was", "closed", ".")
    assert marked.position == 1


def test_the_second_of_two_equal_words_can_be_marked():
    assert find_marked("bank or *bank*", WHITESPACE).position == 2


def test_other_stars_are_words():
    marked = find_marked("2 * 3 * 4 is *six* **", WHITESPACE)
    assert (marked.word, marked.position) == ("six", 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("He sat on the bank .", "has no marked word; put stars around one word"),
        ("", "has no marked word"),
        ("He sat on the *river bank* .", "has no marked word"),
        ("The *river* *bank* .", "has 2 marked words"),
        ("He *don't* .", "is 2 words: do n't"),
        ("a well-*known* fact", "is but a piece of 'well-known'"),
    ],
)
def test_a_sentence_without_exactly_one_marked_word_is_refused(text, message):
    with pytest.raises(InputError, match=message) as raised:
        find_marked(text, DEFAULT)
    assert "\n" not in str(raised.value)


def test_a_long_text_is_shown_by_its_beginning():
    with pytest.raises(InputError) as raised:
        find_marked("word " * 1000, DEFAULT)
    assert len(str(raised.value)) < 200
