from __future__ import annotations

import time

import pytest

from elmokit.bulk.inputs import GLUED


@pytest.mark.parametrize("text", ["Well, then", "no way! he said", "the end.", "so it ends.  "])
def test_marks_glued_to_words_are_found(text: str) -> None:
    assert GLUED.search(text)


@pytest.mark.parametrize("text", ["Well , then", "the U.S. of A .", "3,5 and 1.", "a . b"])
def test_marks_that_stand_alone_are_not(text: str) -> None:
    assert not GLUED.search(text)


def test_a_word_of_a_hundred_thousand_letters_is_looked_at_once() -> None:
    started = time.process_time()
    assert not GLUED.search("ACGT" * 25_000)
    assert time.process_time() - started < 1  # it took minutes when tried from every letter
