"""Word vectors as text: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import errno
import gzip
import lzma
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import ArrayLike

from elmokit.errors import DiskError, ElmoError, FormatError, InputError
from elmokit.static.files import WordVectors, read_word_vectors, save_word_vectors

GLOVE = b"the 0.1 -.25 3\n, 1e-2 +0.5 -7.\nbank 1 2 3\n"
WORD2VEC = b"3 3\nthe 0.1 -.25 3 \n, 1e-2 +0.5 -7. \nbank 1 2 3 \n"
VECTORS = [[0.1, -0.25, 3], [0.01, 0.5, -7], [1, 2, 3]]


def read(folder: Path, contents: bytes, wanted: Collection[str] | None = None) -> WordVectors:
    path = folder / "vectors.txt"
    path.write_bytes(contents)
    return read_word_vectors(path, wanted)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.shape == right.shape and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("contents", [GLOVE, WORD2VEC], ids=["glove", "word2vec"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_words_and_numbers_of_either_format_are_read(
    tmp_path: Path, contents: bytes, end: bytes, start: bytes
) -> None:
    words, vectors = read(tmp_path, start + contents.replace(b"\n", end))

    assert words == ["the", ",", "bank"]
    assert vectors.dtype == np.float32
    assert same_bits(vectors, np.array(VECTORS, dtype=np.float32))


def test_last_line_may_lack_its_end(tmp_path: Path) -> None:
    words, vectors = read(tmp_path, GLOVE.removesuffix(b"\n"))

    assert words == ["the", ",", "bank"]
    assert vectors[2].tolist() == [1, 2, 3]


def test_vectors_can_be_written_to(tmp_path: Path) -> None:
    vectors = read(tmp_path, GLOVE).vectors
    vectors *= 2

    assert vectors[2].tolist() == [2, 4, 6]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_file_reads_as_the_plain_one(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"vectors.txt{suffix}"
    path.write_bytes(compress(WORD2VEC))

    words, vectors = read_word_vectors(path)

    assert words == ["the", ",", "bank"]
    assert same_bits(vectors, np.array(VECTORS, dtype=np.float32))


def test_half_a_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(GLOVE)[:-9])

    with pytest.raises(FormatError, match=r"vectors\.txt\.gz: is not a whole \.gz file"):
        read_word_vectors(path)


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"none\.txt: cannot be read"):
        read_word_vectors(tmp_path / "none.txt")


@pytest.mark.parametrize("word", [". . .", "at name@domain.com", "1 3/4", "a b c d e f g"])
@pytest.mark.parametrize("header", [b"", b"2 3\n"])
def test_word_may_hold_spaces_on_any_line(tmp_path: Path, word: str, header: bytes) -> None:
    spaced = word.encode() + b" 1 2 3\n"

    assert read(tmp_path, header + spaced + b"the 4 5 6\n").words == [word, "the"]
    assert read(tmp_path, header + b"the 4 5 6\n" + spaced).words == ["the", word]


def test_only_spaces_and_line_feeds_separate(tmp_path: Path) -> None:
    words = ["1\xa03/4", "a\x85b", "a\u2028b", "a\rb", "\u3000", "강"]
    lines = "".join(f"{word} {number}.5 0\n" for number, word in enumerate(words))

    found = read(tmp_path, lines.encode())

    assert found.words == words
    assert found.vectors[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_words_that_look_like_numbers_are_words(tmp_path: Path) -> None:
    found = read(tmp_path, b"1 0.5 2\nnan 1 2\ninf 3 4\n1e5 5 6\n-.5 7 8\n")

    assert found.words == ["1", "nan", "inf", "1e5", "-.5"]
    assert found.vectors[0].tolist() == [0.5, 2]


def test_first_of_two_lines_with_the_same_word_wins(tmp_path: Path) -> None:
    found = read(tmp_path, b"a 1 2\na 5 6\nb 3 4\n")

    assert found.words == ["a", "b"]
    assert found.vectors.tolist() == [[1, 2], [3, 4]]


def test_only_wanted_words_are_kept_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, WORD2VEC, wanted=["bank", "The", "the", "river"])

    assert found.words == ["the", "bank"]
    assert same_bits(found.vectors, np.array(VECTORS, dtype=np.float32)[[0, 2]])


@pytest.mark.parametrize("wanted", [["river"], []])
def test_no_wanted_word_is_an_empty_array_that_keeps_the_size(
    tmp_path: Path, wanted: list[str]
) -> None:
    found = read(tmp_path, GLOVE, wanted)

    assert found.words == []
    assert found.vectors.shape == (0, 3)
    assert found.vectors.dtype == np.float32


def test_text_in_place_of_wanted_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a list of words, got 'the'"):
        read(tmp_path, GLOVE, wanted="the")


@pytest.mark.parametrize(
    ("contents", "line", "problem"),
    [
        (b"a 1 2\nb 3\n", 2, "has 1 numbers at its end, where a word and 2 numbers are expected"),
        (b"a 1 2\nb 3 4 5\n", 2, "has 3 numbers at its end, where a word and 2 numbers"),
        (b"a 1 2\nb c d 3 4 5\n", 2, "has 3 numbers at its end"),
        (b"9 2\na 1 2\nb 3 4 5\n", 3, "has 3 numbers at its end"),
        (b"a 1 2\n\nb 3 4\n", 2, "has 0 numbers at its end"),
        (b"a 1 2\nb\n", 2, "has 0 numbers at its end"),
        (b"a 1\nb\n", 2, "has 0 numbers at its end"),
        (b"a 1 2\n 3 4\n", 2, "has 2 numbers at its end"),
        (b"a 1 2\nb  3 4\n", 2, "has 2 numbers at its end.* separated by single spaces"),
        (b"a 1 2\nb 3  4\n", 2, "has 1 numbers at its end.* separated by single spaces"),
        (b"a 1 x 2\n", 1, "has 1 numbers at its end"),
        (b"a 1 2\nb x 4\n", 2, ".*'x'"),
        (b"a 1 2\nb 3 4y\n", 2, ".*'4y'"),
        (b"a 1 2\nb 3 0x4\n", 2, ".*'0x4'"),
        (b"a 1 2\nb 3 1_0\n", 2, ".*_"),
        (b"a 1 2\nb 3 \xd9\xa3\n", 2, ""),
        (b"a 1 2\nb 3 \xff\n", 2, ""),
        (b"a 1 2\nb  4\n", 2, ".*''"),
        (b"a nan 2\n", 1, "'nan' is not a finite number"),
        (b"a 1 2\nb -inf 4\n", 2, "'-inf' is not a finite number"),
        (b"a 1 2\nb 3 -1e39\n", 2, "'-1e39' is not a finite number"),
        (b"a 1 2\nb\xff 3 4\n", 2, ".*utf-8.*invalid start byte"),
        (b"the\n", 1, "expected a word and its numbers, or word2vec's count and size"),
        (b"the,1,2\n", 1, "expected a word and its numbers"),
        (b"\n", 1, "expected a word and its numbers"),
        (b"2 0\na\nb\n", 1, "expected a word and its numbers"),
        (b"0 2\n", 1, "expected a word and its numbers"),
        (b"3 2\na 1 2\nb 3 4\n", 3, "is the last of 2 words, where line 1 says 3"),
        (b"1 2\na 1 2\nb 3 4\n", 3, "is the last of 2 words, where line 1 says 1"),
        (b"3 2\n", 1, "is the last of 0 words, where line 1 says 3"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, contents: bytes, line: int, problem: str) -> None:
    with pytest.raises(FormatError, match=rf"vectors\.txt, line {line}: {problem}.*; ") as caught:
        read(tmp_path, contents)

    assert "\n" not in str(caught.value)


def test_lines_are_counted_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.io.text_files.read_chunks.__defaults__", (16,))

    with pytest.raises(FormatError, match=r"line 101: .*'x'"):
        read(tmp_path, b"".join(b"w%d 1 2\n" % n for n in range(100)) + b"w 1 x\n")


def test_shape_of_unwanted_lines_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 2: has 1 numbers"):
        read(tmp_path, b"a 1 2\nb 3\n", wanted=["a"])


@pytest.mark.parametrize("contents", [b"", b"\xef\xbb\xbf"])
def test_empty_file_is_refused(tmp_path: Path, contents: bytes) -> None:
    with pytest.raises(FormatError, match=r"vectors\.txt, line 1: expected a word"):
        read(tmp_path, contents)


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(GLOVE))
    calls: list[tuple[int, int | None]] = []

    read_word_vectors(path, progress=lambda done, total: calls.append((done, total)))

    size = path.stat().st_size
    assert calls[-1] == (size, size)


SPACED = st.text(alphabet=" a1.\xa0\u2028\r\ufeff강", max_size=6)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    words=st.lists(st.text(max_size=4) | SPACED, min_size=1, max_size=4, unique=True),
    size=st.integers(1, 3),
    data=st.data(),
)
@example(words=["\ufeffa"], size=1, data=None)
@example(words=["3"], size=1, data=None)
def test_what_is_written_is_read_back_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    size: int,
    data: st.DataObject | None,
) -> None:
    path = tmp_path_factory.mktemp("written") / "vectors.txt"
    shape = (len(words), size)
    vectors = np.ones(shape, np.float32)
    if data is not None:
        vectors = data.draw(arrays(np.float32, shape, elements=FLOATS))

    try:
        save_word_vectors(path, words, vectors)
    except InputError:
        assert not path.exists()
        return

    found = read_word_vectors(path)
    assert found.words == words
    assert same_bits(found.vectors, vectors)


@given(vectors=arrays(np.float32, array_shapes(min_dims=2, max_dims=2), elements=FLOATS))
def test_ordinary_words_are_never_refused(
    tmp_path_factory: pytest.TempPathFactory, vectors: np.ndarray
) -> None:
    path = tmp_path_factory.mktemp("written") / "vectors.txt"
    words = [f"w{number}" for number in range(len(vectors))]

    save_word_vectors(path, words, vectors)

    assert path.read_text().startswith("{} {}\nw0 ".format(*vectors.shape))
    assert same_bits(read_word_vectors(path).vectors, vectors)


def test_text_has_the_shortest_numbers(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"

    save_word_vectors(path, ["the", "강"], [[0.1, -1], [1e-7, 2.5]])

    assert path.read_bytes() == "2 2\nthe 0.1 -1.0\n강 1e-07 2.5\n".encode()


@pytest.mark.parametrize(
    ("words", "vectors", "problem"),
    [
        (["a", "b"], [[1.0]], r"2 words have vectors of shape \(1, 1\)"),
        (["a"], [1.0], r"1 words have vectors of shape \(1,\)"),
        (["a"], [[]], r"1 words have vectors of shape \(1, 0\)"),
        ([], np.zeros((0, 2)), r"0 words have vectors of shape \(0, 2\)"),
        (["a", "b"], [[1.0], [np.nan]], "the vector of 'b' has NaN or infinite numbers"),
        (["a", "b", "a"], [[1.0], [2.0], [3.0]], "'a' comes 2 times"),
        ([""], [[1.0]], "'' would be read as something else"),
        (["a\nb"], [[1.0]], r"'a\\nb' would be read as something else"),
        (["a "], [[1.0]], "'a ' would be read as something else"),
        (["a 1"], [[1.0]], "'a 1' would be read as something else"),
        (["a\ud800"], [[1.0]], r"'a\\ud800' would be read as something else"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, words: list[str], vectors: ArrayLike, problem: str
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("old")

    with pytest.raises(InputError, match=rf"vectors\.txt: not written; .*{problem}"):
        save_word_vectors(path, words, vectors)

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_of_the_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("elmokit.io.files.publish", full)
    with pytest.raises(DiskError, match=r"vectors\.txt: cannot be written"):
        save_word_vectors(path, ["a"], [[1.0]])

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_compressed_name_is_refused_in_writing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give a name that ends in one of"):
        save_word_vectors(tmp_path / "vectors.txt.gz", ["a"], [[1.0]])
