from __future__ import annotations

from pathlib import Path

import pytest
from small_models import small_bilm

from elmokit.errors import FormatError, InputError
from elmokit.formats.native import SavedModel, read_model, write_model
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "고양이"]
COUNTS = [9, 9, 0, 1_000_000_000_000, 2]


def file_of(folder: Path, contents: bytes) -> Path:
    path = folder / "vocabulary.txt"
    path.write_bytes(contents)
    return path


def test_counts_are_kept_in_the_order_of_the_words():
    assert Vocabulary(WORDS, COUNTS).counts == tuple(COUNTS)
    assert Vocabulary(WORDS).counts is None


def test_vocabularies_of_the_same_words_are_equal_whatever_their_counts():
    assert Vocabulary(WORDS, COUNTS) == Vocabulary(WORDS)
    assert hash(Vocabulary(WORDS, COUNTS)) == hash(Vocabulary(WORDS))


def test_counts_for_other_than_all_words_are_refused():
    with pytest.raises(InputError, match="a vocabulary of 5 words got 4 counts"):
        Vocabulary(WORDS, COUNTS[1:])


@pytest.mark.parametrize("count", [-1, 1.5, "3", True])
def test_count_that_is_no_whole_number_is_refused(count):
    with pytest.raises(InputError, match="the count of 'the' is"):
        Vocabulary(["the"], [count])


def test_counts_are_written_behind_a_tab_and_read_back(tmp_path):
    write_vocabulary(Vocabulary(WORDS, COUNTS), tmp_path / "vocabulary.txt")
    lines = (tmp_path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert lines[3:] == ["the\t1000000000000", "고양이\t2"]
    vocabulary = read_vocabulary(tmp_path / "vocabulary.txt")
    assert vocabulary.words == tuple(WORDS)
    assert vocabulary.counts == tuple(COUNTS)


def test_file_without_counts_gives_none(tmp_path):
    write_vocabulary(Vocabulary(WORDS), tmp_path / "vocabulary.txt")
    assert (tmp_path / "vocabulary.txt").read_bytes().startswith(b"<S>\n</S>\n")
    assert read_vocabulary(tmp_path / "vocabulary.txt").counts is None


def test_line_that_the_original_code_skips_is_skipped_with_its_count(tmp_path):
    vocabulary = read_vocabulary(file_of(tmp_path, b"<S>\t3\r\n!!!MAXTERMID\t7\r\ncat\t2\r\n"))
    assert vocabulary.words == ("<S>", "cat")
    assert vocabulary.counts == (3, 2)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"the\t3\ncat\nsat\t1\n", "line 2: 'cat' is not a word, a tab and its count"),
        (b"the\ncat\nsat\t1\n", "line 3: 'sat\\t1' has a tab but line 1 has no count"),
        (b"the\t3\ncat\tmany\n", "line 2: 'cat\\tmany' is not a word"),
        (b"the\t3\ncat\t-1\n", "line 2: 'cat\\t-1' is not a word"),
        (b"the\t3\ncat\t1\t2\n", "line 2: 'cat\\t1\\t2' is not a word"),
        (b"the\t3\ncat\t" + b"9" * 5000 + b"\n", "line 2: 'cat\\t999"),
        (b"the\t3\nthe\t1\n", "line 2: 'the' is on line 1 too"),
        (b"the\t3\n\ncat\t1\n", "line 2: is empty"),
        (b"the\t3\n\t5\ncat\t1\n", "line 2: '5' is not a word"),
        (b"the\t3\ncaf\xe9\t1\n", "line 2: is not UTF-8"),
    ],
)
def test_damaged_counts_are_refused_naming_the_line(tmp_path, contents, message):
    path = file_of(tmp_path, contents)
    with pytest.raises(FormatError) as caught:
        read_vocabulary(path)
    assert str(caught.value).startswith(f"{path}, {message}")
    assert "\n" not in str(caught.value)


def test_word_with_a_tab_is_refused_since_a_count_follows_a_tab():
    with pytest.raises(InputError, match=r"word 0 of the vocabulary is 'the\\t3'"):
        Vocabulary(["the\t3"])


def test_model_folder_keeps_the_counts(tmp_path):
    bilm = small_bilm()
    vocabulary = Vocabulary(WORDS, COUNTS)
    saved = SavedModel(
        bilm.config, bilm.state_dict(), tokenizer="whitespace", vocabulary=vocabulary
    )
    write_model(tmp_path / "model", saved)
    found = read_model(tmp_path / "model").vocabulary
    assert found == vocabulary
    assert found is not None
    assert found.counts == tuple(COUNTS)
