from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest
from helpers import error_of, write
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import FormatError, InputError
from elmokit.io import text_files as corpus
from elmokit.io.text_files import Chunk, TextSettings, find_files, read_chunks, text_of
from elmokit.text.tokenizer import (
    DefaultTokenizer,
    WhitespaceTokenizer,
    read_sentences,
    sentences_of,
)

WHITESPACE = TextSettings()

quick = settings(max_examples=100, deadline=None, derandomize=True, database=None)
any_text = st.text(
    st.sampled_from(list("ab.é고🙂 \t\r\n\x1c\x85\u2028\ufeff")) | st.characters(codec="utf-8")
)


def names(files: list[Path]) -> list[str]:
    return [file.name for file in files]


def chunk_of(text: str) -> Chunk:
    return Chunk(Path("text.txt"), 1, text.encode(), 0)


def test_folder_stands_for_the_text_files_inside_it_sorted(tmp_path):
    for name in ("b.txt", "a.gz", "deep/er/c.XZ", "d.zst", "e.json", ".hidden.txt"):
        write(tmp_path / name, "a\n")
    assert names(find_files([tmp_path])) == ["a.gz", "b.txt", "d.zst", "c.XZ"]


def test_glob_finds_files_at_any_depth(tmp_path):
    for name in ("b.text", "deep/a.text", "deep/er/c.text"):
        write(tmp_path / name, "a\n")
    assert names(find_files([str(tmp_path / "*.text")])) == ["b.text"]
    assert names(find_files([str(tmp_path / "**" / "*.text")])) == ["b.text", "a.text", "c.text"]


def test_patterns_keep_their_order_and_no_file_comes_twice(tmp_path):
    for name in ("a.txt", "b.txt"):
        write(tmp_path / name, "a\n")
    (tmp_path / "again.txt").symlink_to(tmp_path / "b.txt")
    found = find_files([tmp_path / "b.txt", str(tmp_path / "*.txt"), tmp_path])
    assert names(found) == ["b.txt", "a.txt"]


def test_file_whose_name_looks_like_a_pattern_is_found(tmp_path):
    path = write(tmp_path / "news[1].txt", "a\n")
    assert find_files([str(path)]) == [path]


@pytest.mark.parametrize("pattern", ["nowhere.txt", "*.nothing", "empty"])
def test_pattern_without_files_is_named(tmp_path, pattern):
    (tmp_path / "empty").mkdir()
    name = str(tmp_path / pattern)
    error_of(find_files, [name], kind=InputError, after=name)


def test_name_that_is_too_long_is_one_line():
    with pytest.raises(InputError, match=r"cannot be read .*name too long"):
        find_files(["a" * 300])


def test_folder_that_may_not_be_searched_is_one_line(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(InputError, match=r"x\.txt: cannot be read \(Permission denied\)"):
        find_files([tmp_path / "x.txt"])


def test_parts_of_unfinished_outputs_are_no_text(tmp_path):
    text, part = tmp_path / "news.parts.txt", tmp_path / "deep" / "out.h5.parts" / "0" / "x.txt"
    part.parent.mkdir(parents=True)
    text.write_text("a")
    part.write_text("b")
    assert find_files([tmp_path]) == [text]
    assert find_files([part.parent.parent]) == [part]  # asked for by its name


def test_a_list_of_names_is_needed():
    assert "name at least one" in error_of(find_files, [], kind=InputError)
    assert "put it into a list" in error_of(find_files, "news.txt", kind=InputError)


@quick
@given(text=any_text, chunk_bytes=st.integers(1, 12))
def test_chunks_are_the_file_cut_after_line_breaks(tmp_path_factory, text, chunk_bytes):
    path = write(tmp_path_factory.mktemp("text") / "text.txt", text.encode())
    chunks = list(read_chunks(path, chunk_bytes))
    assert b"".join(chunk.contents for chunk in chunks) == text.encode().removeprefix(
        b"\xef\xbb\xbf"
    )
    assert all(chunk.contents.endswith(b"\n") for chunk in chunks[:-1])
    lines = 1
    for chunk in chunks:
        assert chunk.first_line == lines
        lines += chunk.contents.count(b"\n")


def test_chunks_hold_about_as_much_as_asked_for(tmp_path):
    path = write(tmp_path / "text.txt", b"0123456789\n" * 1000)
    sizes = [len(chunk.contents) for chunk in read_chunks(path, 110)]
    assert len(sizes) == 100
    assert set(sizes) <= {99, 110, 121}


def compress(kind: str, contents: bytes) -> bytes:
    if kind == "zst":
        zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
        return zstandard.compress(contents)
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](contents)


every_compression = pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])


@every_compression
@pytest.mark.parametrize("chunk_bytes", [7, 1 << 20])
def test_compressed_files_are_cut_like_plain_ones(tmp_path, kind, chunk_bytes):
    contents = "".join(f"line {number} é\n" for number in range(5000)).encode()
    # Files that were compressed apart and joined afterwards.
    joined = b"".join(compress(kind, part) for part in (contents[:50], contents[50:], b""))
    plain = write(tmp_path / "a.txt", contents)
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(joined)
    expected = [chunk.contents for chunk in read_chunks(plain, chunk_bytes)]
    assert [chunk.contents for chunk in read_chunks(path, chunk_bytes)] == expected


@every_compression
@pytest.mark.parametrize("damage", ["cut", "wrong", "broken"])
def test_damaged_compressed_file_is_one_line(tmp_path, kind, damage):
    whole = compress(kind, b"a line\n" * 1000)
    contents = {"cut": whole[:-9], "wrong": b"this is not it", "broken": whole[:12] + b"\xff" * 20}
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(contents[damage])
    after = f"{path}: is not a complete .{kind} file ("
    error_of(lambda: list(read_chunks(path)), kind=FormatError, after=after)


@every_compression
def test_every_compression_is_read_in_little_memory(tmp_path, kind):
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(compress(kind, (b"e" * 4095 + b"\n") * 11_000))  # quick to write as bz2 too
    tracemalloc.start()
    lines = sum(chunk.contents.count(b"\n") for chunk in read_chunks(path, 1 << 19))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == 11_000
    assert peak < 35 << 20  # of 45 MB of text in a few kB


@pytest.mark.parametrize("end", [b"", b"\n", b"\nshort\n"])
def test_line_longer_than_any_paragraph_is_named(tmp_path, monkeypatch, end):
    monkeypatch.setattr(corpus, "LONGEST_LINE_BYTES", 1 << 20)
    path = write(tmp_path / "a.txt", b"short\nshort\n" + b"x" * (3 << 20) + end)
    after = f"{path}, line 3: is longer than 1 MB"
    error_of(list, read_chunks(path, 1 << 19), kind=InputError, after=after)


@pytest.mark.parametrize("chunk_bytes", [1, 6, 1 << 20])
def test_bytes_that_are_not_utf_8_are_named_by_file_and_line(tmp_path, chunk_bytes):
    path = write(tmp_path / "a.txt", b"good\ngood\ncaf\xe9\ngood\n")
    chunks, after = map(text_of, read_chunks(path, chunk_bytes)), f"{path}, line 3: is not UTF-8"
    assert "--errors replace" in error_of(list, chunks, kind=FormatError, after=after)


def test_byte_order_mark_and_carriage_returns_are_no_part_of_words(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone two\r\nthree\r\n")
    assert list(read_sentences([path], WHITESPACE)) == [["one", "two"], ["three"]]


def test_default_keeps_a_line_whole_where_it_is_a_sentence():
    kept = TextSettings(tokenize=True)
    sentences = sentences_of(chunk_of("A dog. A cat\n\nsat.\n"), kept)
    assert list(sentences) == [["A", "dog", ".", "A", "cat"], ["sat", "."]]


@quick
@given(text=any_text)
def test_sentences_are_those_of_the_tokenizers(text):
    expected = WhitespaceTokenizer().sentences(text)
    assert list(sentences_of(chunk_of(text), WHITESPACE)) == words_of(expected)
    by_line = [words for line in text.split("\n") for words in DefaultTokenizer().sentences(line)]
    assert list(sentences_of(chunk_of(text), TextSettings(split=True))) == words_of(by_line)


def words_of(sentences):
    return [[token.text for token in tokens] for tokens in sentences]
