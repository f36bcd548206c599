"""Word vectors as text: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import gzip
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from elmokit.errors import FormatError, InputError
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
@pytest.mark.parametrize("last", [True, False], ids=["ended", "last line without end"])
def test_words_and_numbers_of_either_format_are_read(
    tmp_path: Path, contents: bytes, end: bytes, start: bytes, last: bool
) -> None:
    ended = contents.replace(b"\n", end)
    words, vectors, *_ = read(tmp_path, start + (ended if last else ended.removesuffix(end)))

    assert words == ["the", ",", "bank"]
    assert vectors.dtype == np.float32
    assert same_bits(vectors, np.array(VECTORS, dtype=np.float32))
    assert vectors.flags.writeable


@pytest.mark.parametrize("word", [". . .", "at name@domain.com", "1 3/4", "a b c d e f g"])
@pytest.mark.parametrize("header", [b"", b"2 3\n"])
def test_word_may_hold_spaces_on_any_line(tmp_path: Path, word: str, header: bytes) -> None:
    spaced = word.encode() + b" 1 2 3\n"

    assert read(tmp_path, header + spaced + b"the 4 5 6\n").words == [word, "the"]
    assert read(tmp_path, header + b"the 4 5 6\n" + spaced).words == ["the", word]


@pytest.mark.parametrize(
    "words",
    [
        ["1\xa03/4", "a\x85b", "a\u2028b", "a\rb", "\u3000", "강"],  # only spaces separate
        ["1", "nan", "inf", "1e5", "-.5"],  # words that look like numbers
    ],
)
def test_words_are_told_from_numbers_and_the_first_of_two_equal_ones_wins(
    tmp_path: Path, words: list[str]
) -> None:
    lines = "".join(f"{word} {number}.5 0\n" for number, word in enumerate(words))

    found = read(tmp_path, (lines + f"{words[0]} 9 9\n").encode())

    assert found.words == words
    assert found.vectors[:, 0].tolist() == [number + 0.5 for number in range(len(words))]


def test_only_wanted_words_are_kept_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, WORD2VEC, wanted=["bank", "The", "the", "river"])

    assert found.words == ["the", "bank"]
    assert same_bits(found.vectors, np.array(VECTORS, dtype=np.float32)[[0, 2]])
    nothing = read(tmp_path, GLOVE, wanted=[])
    assert (nothing.words, nothing.vectors.shape) == ([], (0, 3))


@pytest.mark.parametrize(
    ("contents", "line", "problem"),
    [
        (b"a 1 2\nb 3\n", 2, "has 1 numbers at its end, where a word and 2 numbers are expected"),
        (b"a 1 2\nb c d 3 4 5\n", 2, "has 3 numbers"),
        (b"a 1 2\n\nb 3 4\n", 2, "has 0 numbers"),
        (b"a 1 2\nb  3 4\n", 2, "has 2 numbers at its end.* separated by single spaces"),
        (b"a 1 x 2\n", 1, "has 1 numbers"),
        (b"a 1 2\nb x 4\n", 2, ".*'x'"),
        (b"a 1 2\nb 3 \xd9\xa3\n", 2, ""),
        (b"a 1 2\nb 3 1_0\n", 2, "'1_0' is not a finite number"),
        (b"a 1 2\nb 3 -1e39\n", 2, "'-1e39' is not a finite number"),
        (b"a 1 2\nb\xff 3 4\n", 2, ".*utf-8.*invalid start byte"),
        (b"", 1, "expected a word and its numbers, or word2vec's count and size"),
        (b"the,1,2\n", 1, "expected a word"),
        (b"2 0\na\nb\n", 1, "expected a word"),
        (b"0 2\n", 1, "expected a word"),
        (b"3 2\na 1 2\nb 3 4\n", 3, "is the last of 2 words, where line 1 says 3"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, contents: bytes, line: int, problem: str) -> None:
    with pytest.raises(FormatError, match=rf"vectors\.txt, line {line}: {problem}.*; "):
        read(tmp_path, contents)


def test_lines_are_counted_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.io.text_files.read_chunks.__defaults__", (16,))

    with pytest.raises(FormatError, match=r"line 101: .*'x'"):
        read(tmp_path, b"".join(b"w%d 1 2\n" % n for n in range(100)) + b"w 1 x\n")


def test_shape_of_unwanted_lines_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 2: has 1 numbers"):
        read(tmp_path, b"a 1 2\nb 3\n", wanted=["a"])


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
