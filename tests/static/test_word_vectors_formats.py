"""Word vectors in binary files: word2vec's, fastText's and ours; and which of them a file is."""

from __future__ import annotations

import gzip
import lzma
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import error_of, write
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save_file

from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.static.files import format_of, kind_of, read_word_vectors, save_word_vectors

WORDS = ["the", "강", "bank,"]
VECTORS = np.array([[0.1, -0.25, 3], [0.01, 0.5, -7], [1, 2, 3]], np.float32)
LINE_FEEDS = np.frombuffer(b"\x0a\x00\x80\x3f" * 6, "<f4").reshape(3, 2)
"""Numbers whose first byte is one."""
FILES = ["v.txt", "v.vec", "v.glove", "v.bin", "v.safetensors"]


def binary(words: list[str] = WORDS, vectors: np.ndarray = VECTORS, end: bytes = b"") -> bytes:
    """word2vec's binary file, as its original program writes it or as gensim does."""
    records = (
        word.encode() + b" " + vector.astype("<f4").tobytes() + end
        for word, vector in zip(words, vectors, strict=True)
    )
    return b"%d %d\n" % vectors.shape + b"".join(records)


@pytest.mark.parametrize("file", FILES)
def test_every_format_is_read_as_it_was_written(tmp_path: Path, file: str) -> None:
    save_word_vectors(tmp_path / file, WORDS, VECTORS)
    words, vectors, *_ = read_word_vectors(tmp_path / file)
    assert words == WORDS
    assert np.array_equal(vectors, VECTORS.astype(np.float16) if file == FILES[-1] else VECTORS)
    found = read_word_vectors(tmp_path / file, wanted=["bank,", "river"])
    assert found.words == ["bank,"]
    assert found.vectors.dtype == np.float32
    assert found.vectors.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("file", FILES[:-1])
@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_read_as_plain_ones(
    tmp_path: Path, file: str, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    save_word_vectors(tmp_path / file, WORDS, VECTORS)
    packed = tmp_path / f"{file}{suffix}"
    packed.write_bytes(compress((tmp_path / file).read_bytes()))
    words, vectors, *_ = read_word_vectors(packed)
    assert words == WORDS
    assert np.array_equal(vectors, VECTORS)


def test_gensim_reads_what_is_written(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="the extra static is not installed")
    for name in ("v.vec", "v.bin"):
        save_word_vectors(tmp_path / name, WORDS, VECTORS)
        found = models.KeyedVectors.load_word2vec_format(
            str(tmp_path / name), binary=name == "v.bin"
        )
        assert found.index_to_key == WORDS
        assert np.array_equal(found.vectors, VECTORS)


def test_glove_s_text_has_no_first_line(tmp_path: Path) -> None:
    for name in ("v.vec", "v.glove"):
        save_word_vectors(tmp_path / name, WORDS, VECTORS)
    assert (tmp_path / "v.vec").read_text() == "3 3\n" + (tmp_path / "v.glove").read_text()


def test_what_gensim_writes_is_read(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="the extra static is not installed")
    keyed = models.KeyedVectors(3)
    keyed.add_vectors(WORDS, VECTORS)
    for name in ("v.vec", "v.bin"):
        keyed.save_word2vec_format(str(tmp_path / name), binary=name == "v.bin")
        words, vectors, *_ = read_word_vectors(tmp_path / name)
        assert words == WORDS
        assert np.array_equal(vectors, VECTORS)
    keyed.save(str(tmp_path / "v.kv"))
    with pytest.raises(FormatError, match=r"v\.kv: is a pickle, .*save_word2vec_format"):
        read_word_vectors(tmp_path / "v.kv")


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("name", ["v.bin", "v.txt", "v"])
@pytest.mark.parametrize("vectors", [VECTORS, LINE_FEEDS], ids=["usual", "line feeds"])
def test_a_binary_file_is_known_by_its_contents(
    tmp_path: Path, end: bytes, name: str, vectors: np.ndarray
) -> None:
    (tmp_path / name).write_bytes(binary(vectors=vectors, end=end))
    words, found, *_ = read_word_vectors(tmp_path / name)
    assert words == WORDS
    assert np.array_equal(found, vectors)


@given(
    vectors=arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(2, 6)),
        elements=st.floats(-10, 10, width=32),
    )
)
@example(np.frombuffer(b"????" * 6, "<f4").reshape(3, 2))  # whose bytes are letters
def test_a_file_named_binary_is_never_taken_for_text(
    tmp_path_factory: pytest.TempPathFactory, vectors: np.ndarray
) -> None:
    path = tmp_path_factory.mktemp("binary") / "v.bin"
    path.write_bytes(binary([f"w{n}" for n in range(len(vectors))], vectors))
    assert np.array_equal(read_word_vectors(path).vectors, vectors)


def test_many_words_of_a_binary_file_are_read_once_and_beyond_its_buffer(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 70)).astype(np.float32)
    words = [f"w{n}" * 9 for n in range(500)]
    twice = binary([*words, words[0]], np.concatenate([vectors, vectors[1:2]]))
    (tmp_path / "v.bin").write_bytes(twice)
    calls: list[tuple[int, int | None]] = []
    found = read_word_vectors(tmp_path / "v.bin", progress=lambda *call: calls.append(call))
    assert np.array_equal(found.vectors, vectors)
    assert calls[-1] == ((tmp_path / "v.bin").stat().st_size,) * 2


@pytest.mark.parametrize("header", [b"999999999999999999 2\n", b"2 999999999999999999\n"])
def test_what_the_first_line_says_costs_no_memory(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "v.bin").write_bytes(header + b"a " + bytes(8))
    with pytest.raises(FormatError, match=r"v\.bin, word \d of 9*2?: .*ends in the middle"):
        read_word_vectors(tmp_path / "v.bin")


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (binary()[:-3], "word 3 of 3: the file ends in the middle of it"),
        (binary() + b"more", "word 3 of 3: is not the last"),
        (binary().replace("강".encode(), b"\xff"), "word 2 of 3: .*utf-8"),
        (binary(["the", "", "a"]), "word 2 of 3: has no letters"),
        (binary(vectors=np.full((3, 2), np.nan)), "the vector of 'the' has NaN or infinite"),
    ],
)
def test_a_damaged_binary_file_is_one_line(tmp_path: Path, contents: bytes, problem: str) -> None:
    (tmp_path / "v.bin").write_bytes(contents)
    with pytest.raises(FormatError, match=rf"v\.bin.*{problem}.*get the file again"):
        read_word_vectors(tmp_path / "v.bin")


@pytest.mark.parametrize("file", ["v.txt", "v.bin", "v.safetensors"])
@pytest.mark.parametrize(
    ("word", "number", "problem"),
    [
        ("a", np.inf, "the vector of 'a' has NaN or infinite"),
        ("", 1.0, "'' would be read as something else"),
        ("a\nb", 1.0, r"'a\\nb' would be read as something else"),
        ("\ud800", 1.0, "would be read as something else"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, file: str, word: str, number: float, problem: str
) -> None:
    path = tmp_path / file
    path.write_text("old")
    with pytest.raises(InputError, match=f"{file}: not written; .*{problem}"):
        save_word_vectors(path, [word], [[number]])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "word", "number", "problem"),
    [
        ("v.txt", "a ", 1, "would be read as something else"),
        ("v.txt", "a 1", 1, "would be read as something else"),
        ("v.bin", "a b", 1, "would be read as something else"),
        ("v.txt.gz", "a", 1, "give a name that ends"),
        ("v.safetensors", "a", 1e6, "beyond half precision"),
    ],
)
def test_what_a_format_could_not_hold_is_not_written(
    tmp_path: Path, name: str, word: str, number: float, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        save_word_vectors(tmp_path / name, [word], [[number]])


@pytest.mark.parametrize("name", ["v.safetensors", "v.txt"])
def test_a_word_with_a_blank_is_read_back(tmp_path: Path, name: str) -> None:
    save_word_vectors(tmp_path / name, ["a b"], [[1.0]])
    assert read_word_vectors(tmp_path / name).words == ["a b"]


def test_our_own_file_keeps_a_description_and_half_precision(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    save_word_vectors(path, WORDS, VECTORS, {"method": "cbow"})
    stored = read_word_vectors(path)
    assert stored.vectors.dtype == np.float16
    assert stored.description == {"method": "cbow"}
    assert stat.S_IMODE(path.stat().st_mode) & 0o044  # others may read it, where the mask lets them
    (tmp_path / "folder").mkdir()
    path.rename(tmp_path / "folder" / "vectors.safetensors")
    assert read_word_vectors(tmp_path / "folder").words == WORDS


def test_a_damaged_file_of_ours_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    save_word_vectors(path, WORDS, VECTORS, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"v\.safetensors: is not a complete file of"):
        read_word_vectors(path)


@pytest.mark.parametrize(
    ("tensors", "metadata", "problem"),
    [
        ({"vectors": VECTORS}, {}, "words"),
        ({"vectors": VECTORS, "words": np.zeros(1, np.uint8)}, {}, "is of format and version"),
        (
            {"vectors": VECTORS, "words": np.frombuffer(b"a\nb", np.uint8)},
            {"format": "elmokit word vectors", "version": "1"},
            "has 2 words and float32 vectors",
        ),
    ],
)
def test_another_safetensors_file_is_refused(
    tmp_path: Path, tensors: Any, metadata: dict[str, str], problem: str
) -> None:
    save_file(tensors, tmp_path / "v.safetensors", metadata)
    with pytest.raises(FormatError, match=problem):
        read_word_vectors(tmp_path / "v.safetensors")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for name in ("v.safetensors", "v.bin", "v.txt"):
        with pytest.raises(ElmoError, match=rf"{name}: cannot be read"):
            read_word_vectors(tmp_path / name)


def test_names_say_the_format() -> None:
    assert [format_of(f"v{end}") for end in (".TXT", ".vec", ".bin", ".safetensors")] == [
        *("text", "text", "binary", "native")
    ]
    assert "v.npy: give a name that ends in one of" in error_of(format_of, "v.npy", kind=InputError)


@pytest.fixture(scope="module")
def fasttext_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="the extra static")
    sentences = [["bank", "river", "the"] * 4] * 20
    model = fasttext.FastText(sentences, vector_size=5, bucket=40, epochs=1, workers=1)
    path = tmp_path_factory.mktemp("fasttext") / "v.bin"
    fasttext.save_facebook_model(model, str(path))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fasttext_s_own_file_is_read_with_its_subwords(
    fasttext_file: Path, tmp_path: Path, suffix: str
) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="the extra static")
    expected = fasttext.load_facebook_vectors(str(fasttext_file))
    contents = fasttext_file.read_bytes()
    path = write(tmp_path / f"v.bin{suffix}", gzip.compress(contents) if suffix else contents)
    words, vectors, _, subwords = read_word_vectors(path)
    assert subwords is not None
    assert kind_of(path) == "fasttext"
    assert words == expected.index_to_key
    assert np.array_equal(vectors, expected.vectors)
    assert np.array_equal(subwords("banks"), expected["banks"])
    assert subwords("") is None
    assert read_word_vectors(path, wanted=["river"]).words == ["river"]


@pytest.mark.parametrize("kept", [10, 100, -300])
def test_half_a_fasttext_file_is_one_line(fasttext_file: Path, tmp_path: Path, kept: int) -> None:
    (tmp_path / "v.bin").write_bytes(fasttext_file.read_bytes()[:kept])
    with pytest.raises(FormatError, match=r"v\.bin: is not a complete fastText file"):
        read_word_vectors(tmp_path / "v.bin")


def test_without_gensim_one_line_says_what_to_install(
    fasttext_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models.fasttext", None)
    with pytest.raises(InputError, match=r'pip install "elmokit\[static\]"'):
        read_word_vectors(fasttext_file)
