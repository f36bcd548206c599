from __future__ import annotations

import pytest

from elmokit.analysis.neighbours.index import find_marked
from elmokit.errors import InputError
from elmokit.text.tokenizer import load_tokenizer

DEFAULT, WHITESPACE = load_tokenizer("default"), load_tokenizer("whitespace")


@pytest.mark.parametrize(
    ("text", "sentence", "position"),
    [
        ("Chico made a *play* .", "Chico made a play .", 3),
        ("What a *play*!", "What a play !", 2),
        ("He came home. The *bank* was closed. She left.", "The bank was closed .", 1),
        ("bank or *bank*", "bank or bank", 2),
    ],
)
def test_the_word_between_stars_is_found_in_its_sentence(text, sentence, position):
    marked = find_marked(text, DEFAULT)
    assert (" ".join(marked.words), marked.position) == (sentence, position)
    assert str(marked).count(f"*{marked.word}*") == 1


def test_other_stars_are_words():
    marked = find_marked("2 * 3 * 4 is *six* **", WHITESPACE)
    assert (marked.word, marked.position) == ("six", 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("He sat on the bank .", "has no marked word; put stars around one word"),
        ("word " * 1000, "^.{62} has no marked word"),
        ("The *river* *bank* .", "has 2 marked words"),
        ("He *don't* .", "is not a word; put stars around one word of: do n't"),
        ("a well-*known* fact", "is not a word; .* of: well-known"),
    ],
)
def test_a_sentence_without_exactly_one_marked_word_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        find_marked(text, DEFAULT)


def test_a_morpheme_is_marked_in_its_word():
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    kiwi = load_tokenizer("kiwi")
    found = [
        find_marked(text, kiwi) for text in ("나는 *배*를 탔다.", "학교에 *갔*다.", "배가 *고파*서")
    ]
    assert [(one.word, one.position) for one in found] == [("배", 2), ("가", 2), ("고프", 2)]
    with pytest.raises(InputError, match="is not a word; put stars around one word of: 배 를"):
        find_marked("나는 *배를* 탔다.", kiwi)
    with pytest.raises(InputError, match="one word of: 배를"):
        find_marked("나는 *배*를 탔다.", DEFAULT)
