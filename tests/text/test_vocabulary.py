from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elmokit.errors import DiskError, FormatError, InputError
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "Straße", "고양이"]
GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def file_of(folder: Path, contents: bytes) -> Path:
    path = folder / "vocabulary.txt"
    path.write_bytes(contents)
    return path


def test_words_keep_their_order_as_ids() -> None:
    vocabulary = Vocabulary(WORDS)

    assert vocabulary.words == tuple(WORDS)
    assert [vocabulary.id_of(word) for word in WORDS] == list(range(len(WORDS)))
    assert [vocabulary.word_of(number) for number in range(len(WORDS))] == WORDS
    assert len(vocabulary) == len(WORDS)


def test_special_words_may_stand_anywhere() -> None:
    vocabulary = Vocabulary(["cat", "</S>", "dog", "<UNK>", "<S>"])

    assert vocabulary.unknown_id == 3
    assert vocabulary.id_of("<S>") == 4
    assert vocabulary.id_of("horse") == 3


def test_unknown_word_gets_the_id_of_unk_but_is_not_contained() -> None:
    vocabulary = Vocabulary(WORDS)

    assert vocabulary.id_of("dog") == 2
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


@pytest.mark.parametrize("word", ["", " cat", "cat\t", "two\nlines", "\r"])
def test_word_that_a_line_cannot_hold_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="word 1 of the vocabulary is"):
        Vocabulary(["the", word])


def test_word_given_twice_is_refused_with_both_places() -> None:
    with pytest.raises(InputError, match="words 1 and 3 of the vocabulary are both 'cat'"):
        Vocabulary(["the", "cat", "sat", "cat"])


def test_vocabulary_of_no_words_is_refused() -> None:
    with pytest.raises(InputError, match="at least one word"):
        Vocabulary([])


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
    assert read_vocabulary(file_of(tmp_path, contents)).words == ("the", "cat")


def test_line_that_the_original_code_skips_takes_no_id(tmp_path: Path) -> None:
    path = file_of(tmp_path, b"<S>\n!!!MAXTERMID\ncat\n")

    assert read_vocabulary(path).words == ("<S>", "cat")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"the\ncat\nthe\n", "line 3: 'the' is on line 1 too"),
        (b"the\n\ncat\n", "line 2: is empty"),
        (b"\nthe\n", "line 1: is empty"),
        (b"the\n \ncat\n", "line 2: is empty"),
        (b"the\ncaf\xe9\n", "line 2: is not UTF-8"),
        (b"", "is empty; it must have one word per line"),
        (b"\n\n", "is empty; it must have one word per line"),
    ],
)
def test_damaged_file_is_refused_naming_the_line(
    tmp_path: Path, contents: bytes, message: str
) -> None:
    path = file_of(tmp_path, contents)

    with pytest.raises(FormatError) as caught:
        read_vocabulary(path)

    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere\.txt: cannot be read"):
        read_vocabulary(tmp_path / "nowhere.txt")


def test_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_vocabulary(tmp_path)


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = file_of(tmp_path, b"old\n")

    with pytest.raises(InputError, match="cannot be written as UTF-8"):
        write_vocabulary(Vocabulary(["the", "\ud800"]), path)

    assert path.read_bytes() == b"old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.txt"]


def test_write_to_where_no_file_can_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DiskError, match="cannot be written"):
        write_vocabulary(Vocabulary(WORDS), tmp_path / "file" / "vocabulary.txt")


def test_importing_the_vocabulary_does_not_import_torch() -> None:
    program = "import sys, elmokit.text.vocabulary; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are in ../shared, not here")
@pytest.mark.parametrize(
    ("name", "words"),
    [("golden-allennlp/vocab_test.txt", 458), ("golden-bilm-tf/train/vocab.txt", None)],
)
def test_published_vocabularies_are_read(name: str, words: int | None) -> None:
    vocabulary = read_vocabulary(GOLDEN / name)

    assert words is None or len(vocabulary) == words
    assert vocabulary.words[0] in ("good", "<S>")
