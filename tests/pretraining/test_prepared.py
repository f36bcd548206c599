from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers import error_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pretraining.small_runs import prepared

from elmokit.errors import FormatError
from elmokit.pretraining import prepared as prepared_module
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.text.characters import character_ids
from elmokit.text.vocabulary import Vocabulary

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
any_lengths = st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=3).filter(any)


@pytest.fixture
def corpus(tmp_path: Path) -> PreparedCorpus:
    return prepared(tmp_path, "the cat sat .\nthe dog .\n", "", "the <S> cat </S> <UNK>\n")


def test_words_are_numbered_from_1_in_the_order_of_their_bytes(corpus, monkeypatch):
    words = ["", ".", "</S>", "<S>", "<UNK>", "cat", "dog", "sat", "the"]
    assert [corpus.word(number) for number in range(corpus.types + 1)] == words
    assert list(corpus.words()) == words[1:]
    monkeypatch.setattr(prepared_module, "WORDS_AT_ONCE", 3)
    assert list(corpus.words()) == words[1:]
    assert [corpus.id_of(word) for word in words[1:]] == list(range(1, 9))


def test_word_that_is_not_in_the_text_has_no_id(corpus):
    assert [corpus.id_of(word) for word in ("", "!", "cats", "zebra", "고양이")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("no !\none two three four five six seven eight nine\n배 를 타\nthe cat sat\n", "배 를 타"),
        ("1 2 3 4 5 6 7 8 9\na b\n", "1 2 3 4 5 6 7 8"),
        ("a b\n", "a b"),
    ],
)
def test_example_of_a_text_is_its_first_sentence_of_a_few_words(tmp_path, text, example):
    assert prepared(tmp_path, text).short_sentence() == example.split()


@pytest.mark.parametrize("max_characters", [3, 4, 5, 6, 10, 50])
def test_character_ids_are_those_of_the_words(tmp_path, max_characters):
    long = "x" * 47 + "é"  # its last byte is the 49th: one too many for 50
    corpus = prepared(tmp_path, f"a <S> </S> <UNK> é 고양이 🙂🙂 \x00 {long} {'y' * 48} zz\n")
    words = ["", *corpus.words()]
    ids = np.array([*range(corpus.types + 1), 3, 3, 1, 0])
    assert corpus.character_ids(ids[:0], max_characters).shape == (0, max_characters)
    spelled = corpus.character_ids(ids, max_characters)
    assert spelled.dtype == np.int16
    np.testing.assert_array_equal(
        spelled, character_ids([words[number] for number in ids], max_characters)
    )


@quick
@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Z", "Cc"]), min_size=1),
        min_size=1,
    ),
    max_characters=st.integers(3, 20),
)
def test_any_words_are_spelled_as_the_models_read_them(tmp_path_factory, words, max_characters):
    corpus = prepared(tmp_path_factory.mktemp("corpus"), " ".join(words))
    ids = np.arange(1, corpus.types + 1, dtype=np.int32)
    expected = character_ids(list(corpus.words()), max_characters)
    np.testing.assert_array_equal(corpus.character_ids(ids, max_characters), expected)


def test_target_ids_are_those_of_the_vocabulary_and_unk_outside_it(corpus):
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "horse"])
    targets = dict(zip(["", *corpus.words()], corpus.target_ids(vocabulary).tolist(), strict=True))
    assert targets == {
        "": -1,
        ".": 2,
        "</S>": 2,  # literal markers never become targets that end a sentence
        "<S>": 2,
        "<UNK>": 2,
        "cat": 4,
        "dog": 2,
        "sat": 2,
        "the": 3,
    }


def test_blocks_are_whole_sentences_of_one_file(tmp_path):
    corpus = prepared(tmp_path, "a b\nc\nd e f g h\ni\n", "j\n")
    assert corpus.tokens.tolist().count(0) == 6
    assert corpus.blocks(5).tolist() == [[0, 5], [5, 11], [11, 13], [13, 15]]
    assert corpus.blocks(1000).tolist() == [[0, 13], [13, 15]]
    assert corpus.blocks(1).tolist() == corpus.sentence_bounds().tolist()


@quick
@given(lengths=any_lengths, words=st.integers(1, 30), at_once=st.integers(1, 20))
def test_blocks_cover_every_sentence_once_and_are_as_long_as_may_be(
    tmp_path_factory, lengths, words, at_once
):
    texts = ["".join("w " * length + "\n" for length in file) for file in lengths]
    corpus = prepared(tmp_path_factory.mktemp("corpus"), *texts)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(prepared_module, "TOKENS_AT_ONCE", at_once)
        blocks = corpus.blocks(words).tolist()
        bounds = corpus.sentence_bounds().tolist()
    assert blocks == expected_blocks(lengths, words)
    ends = np.cumsum([0, *(length + 1 for file in lengths for length in file)]).tolist()
    assert bounds == [[start, end] for start, end in pairwise(ends)]


def expected_blocks(lengths: list[list[int]], words: int) -> list[list[int]]:
    """The plain way: a sentence joins the block before it where there is room."""
    blocks: list[list[int]] = []
    position = 0
    for file in lengths:
        fresh = True
        for length in file:
            end = position + length + 1
            if not fresh and end - blocks[-1][0] <= words:
                blocks[-1][1] = end
            else:
                blocks.append([position, end])
            fresh = False
            position = end
    return blocks


@pytest.mark.parametrize(
    "name", ["tokens.int32", "lexicon.utf8", "offsets.int64", "counts.int64", "shards.int64"]
)
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_folder_is_named_with_the_file(corpus, name, damage):
    path = corpus.folder / name
    contents = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(contents[:-1])
    problem = error_of(PreparedCorpus.open, corpus.folder, kind=FormatError, after=corpus.folder)
    assert f"({name} " in problem


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"types": "many"},
        {"settings": {"tokenizer": "moses"}},
        {"settings": {"a": 1}},
        None,
    ],
)
def test_description_that_says_something_else_is_an_error(corpus, change):
    path = corpus.folder / "prepared.json"
    path.write_text("{}" if change is None else json.dumps(json.loads(path.read_text()) | change))
    error_of(PreparedCorpus.open, corpus.folder, kind=FormatError, after=corpus.folder)
