from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from helpers import error_of

from elmokit.errors import ElmoWarning, InputError
from elmokit.text.characters import UnusualWords, batch_to_ids, character_ids

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 257, 258, 259, 260, 261


def spelled(word: str, max_characters: int = 50) -> list[int]:
    return character_ids([word], max_characters)[0].tolist()


def test_a_word_is_its_bytes_plus_one_between_marks():
    assert spelled("cat") == [BEGIN_WORD, 100, 98, 117, END_WORD] + [PADDING] * 45


def test_a_word_longer_than_the_limit_keeps_its_end_marker():
    ids = spelled("a" * 60)
    assert len(ids) == 50
    assert ids[0] == BEGIN_WORD
    assert ids[1:49] == [98] * 48
    assert ids[49] == END_WORD


def test_the_cut_is_by_bytes_and_may_split_a_character():
    ids = spelled("한" * 17)
    assert ids[1:49] == [byte + 1 for byte in ("한" * 16).encode()]
    assert spelled("é" * 3, max_characters=5)[1:4] == [0xC3 + 1, 0xA9 + 1, 0xC3 + 1]


def test_sentence_markers_in_the_text_mean_the_markers():
    assert spelled("<S>")[:4] == [BEGIN_WORD, BEGIN_SENTENCE, END_WORD, PADDING]
    assert spelled("</S>")[:4] == [BEGIN_WORD, END_SENTENCE, END_WORD, PADDING]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("", []), ("\0", [1]), ("a\ud800b", [98, 99]), ("ÿ", [0xC3 + 1, 0xBF + 1])],
    ids=["empty", "NUL", "lone surrogate", "byte 255"],
)
def test_strange_words_are_their_bytes_too(word, expected):
    assert spelled(word)[: len(expected) + 3] == [BEGIN_WORD, *expected, END_WORD, PADDING]


def test_batches_are_padded_with_zeros():
    assert batch_to_ids([]).shape == (0, 0, 50)
    ids = batch_to_ids([["a", "b"], ["c"], []])
    assert ids.shape == (3, 2, 50)
    assert ids.dtype == torch.int64
    assert ids[1, 1].eq(0).all()
    assert ids[2].eq(0).all()
    assert np.array_equal(ids[0, 1].numpy(), character_ids(["b"])[0])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("The river bank", "expected a list of sentences"),
        (["The river bank"], "sentence 0 is 'The river bank'"),
        ([["The", 3]], "word 1 of sentence 0 is 3 (int), not a string"),
        ([["ok"], [None]], "word 0 of sentence 1 is None"),
        ([{"a": 1}], "not a list of words"),
    ],
)
def test_what_is_not_a_list_of_sentences_is_an_error(sentences, message):
    assert message in error_of(batch_to_ids, sentences, kind=InputError)


def test_each_kind_of_unusual_word_is_reported_once_and_always_counted():
    unusual = UnusualWords()
    words = ["", "\0", "a\udfff", "x" * 49, "<S>"]
    for word in words:
        with pytest.warns(ElmoWarning, match="unusual word"):
            unusual.note_all([[word]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unusual.note_all([words, words])
    assert unusual.counts == {"empty": 3, "nul": 3, "surrogate": 3, "cut": 3, "marker": 3}


@pytest.mark.parametrize("word", ["cat", "é" * 24, "한" * 16, "🙂" * 12, "x" * 48, "<UNK>"])
def test_ordinary_words_are_not_reported(word):
    assert UnusualWords().kinds(word) == ()


def test_a_batch_with_a_word_cut_is_not_silent(monkeypatch):
    monkeypatch.setattr("elmokit.text.characters._REPORTED", {})
    with pytest.warns(ElmoWarning, match="longer than the model reads"):
        batch_to_ids([["x" * 60]])
    batch_to_ids([["y" * 60]])  # once is enough
    own = UnusualWords()
    with pytest.warns(ElmoWarning, match="without characters"):
        batch_to_ids([["", "ok"], [""]], unusual=own)
    assert own.counts == {"empty": 2}
