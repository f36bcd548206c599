from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ROOT, error_of, write
from small_models import small_saved_model

from elmokit.errors import FormatError, InputError
from elmokit.formats.native import read_model, write_model
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "Straße", "고양이"]
GOLDEN = ROOT.parent / "shared" / "data"
COUNTED = ["<S>", "</S>", "<UNK>", "the", "고양이"]
NO_LINES = ["", " cat", "cat\t", "the\t3", "two\nlines", "\r"]
COUNTS = [9, 9, 0, 1_000_000_000_000, 2]
DAMAGED_COUNTS = [
    (b"the\t3\ncat\nsat\t1\n", "line 2: 'cat' is not a word, a tab and its count"),
    (
        b"the\ncat\nsat\t1\n",
        "line 3: 'sat\\t1' is not a word; give a count on every line, or on none",
    ),
    (b"the\t3\ncat\tmany\n", "line 2: 'cat\\tmany' is not a word"),
    (b"the\t3\ncat\t-1\n", "line 2: 'cat\\t-1' is not a word"),
    (b"the\t3\ncat\t1\t2\n", "line 2: 'cat\\t1\\t2' is not a word"),
    (b"the\t3\ncat\t" + b"9" * 5000 + b"\n", "line 2: 'cat\\t999"),
    (b"the\t3\nthe\t1\n", "line 2: 'the' is on line 1 too"),
    (b"the\t3\n\ncat\t1\n", "line 2: is empty"),
    (b"the\t3\n\t5\ncat\t1\n", "line 2: '5' is not a word"),
    (b"the\t3\ncaf\xe9\t1\n", "line 2: is not UTF-8"),
]


@pytest.mark.parametrize("words", [WORDS, WORDS[::-1]], ids=["usual", "special words last"])
def test_words_keep_their_order_as_ids_and_others_have_that_of_unk(words: list[str]) -> None:
    vocabulary = Vocabulary(words)

    assert vocabulary.words == tuple(words)
    assert [vocabulary.id_of(word) for word in words] == list(range(len(words)))
    assert [vocabulary.word_of(number) for number in range(len(words))] == words
    assert len(vocabulary) == len(words)
    assert vocabulary.id_of("dog") == vocabulary.unknown_id == words.index("<UNK>")
    assert "dog" not in vocabulary
    assert "cat" in vocabulary
    assert 4 not in vocabulary


def test_unknown_word_is_an_error_where_there_is_no_unk() -> None:
    vocabulary = Vocabulary(["the", "cat"])

    assert vocabulary.unknown_id is None
    with pytest.raises(InputError, match="'dog' is not in the vocabulary, which has no <UNK>"):
        vocabulary.id_of("dog")


@pytest.mark.parametrize("number", [-1, 7])
def test_id_outside_the_vocabulary_is_an_error(number: int) -> None:
    with pytest.raises(InputError, match=f"no word with id {number}; ids are 0 to 6"):
        Vocabulary(WORDS).word_of(number)


def test_same_words_make_equal_vocabularies_of_equal_hash() -> None:
    assert Vocabulary(WORDS) == Vocabulary(WORDS)
    assert hash(Vocabulary(WORDS)) == hash(Vocabulary(WORDS))
    assert Vocabulary(WORDS) != Vocabulary(WORDS[::-1])
    assert Vocabulary(WORDS) != WORDS
    assert repr(Vocabulary(WORDS)) == "Vocabulary(7 words)"


@pytest.mark.parametrize(
    ("words", "counts", "message"),
    [
        *((["the", word], None, "word 1 of the vocabulary is") for word in NO_LINES),
        (["the", "cat", "sat", "cat"], None, "words 1 and 3 of the vocabulary are both 'cat'"),
        ([], None, "at least one word"),
        (COUNTED, COUNTS[1:], "a vocabulary of 5 words got 4 counts"),
    ],
)
def test_what_makes_no_vocabulary_is_an_error(
    words: list[str], counts: list[int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Vocabulary(words, counts)


def test_written_vocabulary_reads_back_the_same(tmp_path: Path) -> None:
    vocabulary = Vocabulary([*WORDS, "two words", "\u00a0", "\u2028", "\x85"])

    write_vocabulary(vocabulary, tmp_path / "vocabulary.txt")

    assert read_vocabulary(tmp_path / "vocabulary.txt") == vocabulary
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.txt"]


@pytest.mark.parametrize(
    "contents",
    [b"the\ncat\n", b"the\ncat", b"the\r\ncat\r\n", b"\xef\xbb\xbfthe\ncat\n", b"the \ncat\n\n\n"],
)
def test_line_ends_marks_and_blanks_of_any_editor_are_accepted(
    tmp_path: Path, contents: bytes
) -> None:
    assert read_vocabulary(write(tmp_path / "vocabulary.txt", contents)).words == ("the", "cat")


def test_line_that_the_original_code_skips_takes_no_id(tmp_path: Path) -> None:
    path = write(tmp_path / "vocabulary.txt", b"<S>\n!!!MAXTERMID\ncat\n")
    assert read_vocabulary(path).words == ("<S>", "cat")
    write(path, b"<S>\t3\r\n!!!MAXTERMID\t7\r\ncat\t2\r\n")
    assert read_vocabulary(path).counts == (3, 2)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        *DAMAGED_COUNTS,
        (b"the\ncat\nthe\n", "line 3: 'the' is on line 1 too"),
        (b"the\n\ncat\n", "line 2: is empty"),
        (b"the\ncaf\xe9\n", "line 2: is not UTF-8"),
        (b"", "is empty; it must have one word per line"),
    ],
)
def test_damaged_file_is_refused_naming_the_line(
    tmp_path: Path, contents: bytes, message: str
) -> None:
    path = write(tmp_path / "vocabulary.txt", contents)

    assert message in error_of(read_vocabulary, path, kind=FormatError, after=path)


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "vocabulary.txt", b"old\n")

    with pytest.raises(InputError, match="cannot be written as UTF-8"):
        write_vocabulary(Vocabulary(["the", "\ud800"]), path)

    assert path.read_bytes() == b"old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.txt"]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared, not here")
@pytest.mark.parametrize(
    ("name", "words"),
    [("golden-allennlp/vocab_test.txt", 458), ("golden-bilm-tf/train/vocab.txt", None)],
)
def test_published_vocabularies_are_read(name: str, words: int | None) -> None:
    vocabulary = read_vocabulary(GOLDEN / name)

    assert words is None or len(vocabulary) == words
    assert vocabulary.words[0] in ("good", "<S>")


# Counts


def test_counts_are_written_behind_a_tab_and_read_back(tmp_path: Path):
    write_vocabulary(Vocabulary(COUNTED, COUNTS), tmp_path / "vocabulary.txt")
    lines = (tmp_path / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert lines[3:] == ["the\t1000000000000", "고양이\t2"]
    vocabulary = read_vocabulary(tmp_path / "vocabulary.txt")
    assert vocabulary.words == tuple(COUNTED)
    assert vocabulary.counts == tuple(COUNTS)


def test_model_folder_has_the_counts(tmp_path: Path) -> None:
    vocabulary = Vocabulary(COUNTED, COUNTS)
    write_model(tmp_path / "model", small_saved_model(vocabulary=vocabulary))
    found = read_model(tmp_path / "model").vocabulary
    assert found == vocabulary
    assert found is not None
    assert found.counts == tuple(COUNTS)
