from __future__ import annotations

import errno
import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, FormatError, InputError
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


def file_of(folder: Path, name: str, contents: bytes = b"a\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    return path


def names(files: list[Path]) -> list[str]:
    return [file.name for file in files]


def chunk_of(text: str) -> Chunk:
    return Chunk(Path("text.txt"), 1, text.encode(), 0)


def test_folder_stands_for_the_text_files_inside_it_sorted(tmp_path):
    for name in ("b.txt", "a.gz", "deep/er/c.XZ", "d.zst", "e.json", ".hidden.txt"):
        file_of(tmp_path, name)
    assert names(find_files([tmp_path])) == ["a.gz", "b.txt", "d.zst", "c.XZ"]


def test_glob_finds_files_at_any_depth(tmp_path):
    for name in ("b.text", "deep/a.text", "deep/er/c.text"):
        file_of(tmp_path, name)
    assert names(find_files([str(tmp_path / "*.text")])) == ["b.text"]
    assert names(find_files([str(tmp_path / "**" / "*.text")])) == ["b.text", "a.text", "c.text"]


def test_patterns_keep_their_order_and_no_file_comes_twice(tmp_path):
    for name in ("a.txt", "b.txt"):
        file_of(tmp_path, name)
    (tmp_path / "again.txt").symlink_to(tmp_path / "b.txt")
    found = find_files([tmp_path / "b.txt", str(tmp_path / "*.txt"), tmp_path])
    assert names(found) == ["b.txt", "a.txt"]


def test_file_whose_name_looks_like_a_pattern_is_found(tmp_path):
    path = file_of(tmp_path, "news[1].txt")
    assert find_files([str(path)]) == [path]


@pytest.mark.parametrize("pattern", ["nowhere.txt", "*.nothing", "empty"])
def test_pattern_without_files_is_named(tmp_path, pattern):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        find_files([str(tmp_path / pattern)])
    assert str(caught.value).startswith(str(tmp_path / pattern))


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


def test_single_name_in_place_of_a_list_is_refused():
    with pytest.raises(InputError, match="put it into a list"):
        find_files("news.txt")


def test_no_patterns_at_all_are_refused():
    with pytest.raises(InputError, match="name at least one"):
        find_files([])


@quick
@given(text=any_text, chunk_bytes=st.integers(1, 12))
def test_chunks_are_the_file_cut_after_line_breaks(tmp_path_factory, text, chunk_bytes):
    path = file_of(tmp_path_factory.mktemp("text"), "text.txt", text.encode())
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
    path = file_of(tmp_path, "text.txt", b"0123456789\n" * 1000)
    sizes = [len(chunk.contents) for chunk in read_chunks(path, 110)]
    assert len(sizes) == 100
    assert set(sizes) <= {99, 110, 121}


@pytest.mark.parametrize("chunk_bytes", [7, 1 << 20])
def test_compressed_files_are_cut_like_plain_ones(tmp_path, chunk_bytes):
    contents = "".join(f"line {number} é\n" for number in range(100)).encode()
    plain = file_of(tmp_path, "a.txt", contents)
    compressed = [
        file_of(tmp_path, "a.txt.gz", gzip.compress(contents)),
        file_of(tmp_path, "a.txt.xz", lzma.compress(contents)),
        # Files that were compressed apart and joined afterwards.
        file_of(tmp_path, "b.txt.gz", gzip.compress(contents[:50]) + gzip.compress(contents[50:])),
    ]
    expected = [chunk.contents for chunk in read_chunks(plain, chunk_bytes)]
    for path in compressed:
        assert [chunk.contents for chunk in read_chunks(path, chunk_bytes)] == expected


def test_position_reaches_the_size_of_the_file_on_disk(tmp_path):
    contents = "".join(f"{number}\n" for number in range(10000)).encode()
    path = file_of(tmp_path, "a.xz", lzma.compress(contents))
    positions = [chunk.position for chunk in read_chunks(path, 1000)]
    assert positions == sorted(positions)
    assert positions[-1] == path.stat().st_size


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("cut.gz", gzip.compress(b"a line\n" * 1000, mtime=0)[:-12]),
        ("wrong.gz", b"this is not gzip"),
        ("broken.gz", gzip.compress(b"a line\n", mtime=0)[:12] + b"\xff" * 20),
        ("cut.xz", lzma.compress(b"a line\n" * 1000)[:-12]),
        ("wrong.xz", b"this is not xz"),
    ],
    ids=["cut.gz", "wrong.gz", "broken.gz", "cut.xz", "wrong.xz"],
)
def test_damaged_compressed_file_is_one_line(tmp_path, name, contents):
    path = file_of(tmp_path, name, contents)
    with pytest.raises(FormatError) as caught:
        list(read_chunks(path))
    assert str(caught.value).startswith(f"{path}: is not a whole .{name[-2:]} file (")
    assert "\n" not in str(caught.value)


def test_zst_without_its_library_names_the_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = file_of(tmp_path, "a.txt.zst", b"")
    with pytest.raises(InputError) as caught:
        list(read_chunks(path))
    assert str(caught.value).startswith(str(path))
    assert 'pip install "elmokit[zstd]"' in str(caught.value)


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_every_compression_is_read_in_little_memory(tmp_path, kind):
    contents = b"the same words on each line\n" * 2_000_000
    compress = {"gz": gzip.compress, "xz": lzma.compress}.get(kind)
    if compress is None:
        zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
        compress = zstandard.compress
    path = file_of(tmp_path, f"a.txt.{kind}", compress(contents))
    program = (
        "import resource, sys\n"
        "from elmokit.io.text_files import read_lines\n"
        "most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before, lines = most(), sum(1 for line in read_lines(sys.argv[1]))\n"
        "print(lines, (most() - before) >> 10)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    lines, megabytes = map(int, done.stdout.split())
    assert lines == 2_000_000
    assert megabytes < 50  # of 56 MB of text in a few kB


def test_zst_files_are_read_frame_after_frame(tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    contents = "".join(f"line {number} é\n" for number in range(100_000)).encode()
    frames = [zstandard.compress(part) for part in (contents[:50], contents[50:], b"")]
    plain = file_of(tmp_path, "a.txt", contents)
    path = file_of(tmp_path, "a.txt.zst", b"".join(frames))
    chunks = [chunk.contents for chunk in read_chunks(path, 1000)]
    assert chunks == [chunk.contents for chunk in read_chunks(plain, 1000)]


@pytest.mark.parametrize("damage", ["cut", "wrong"])
def test_damaged_zst_file_is_one_line(tmp_path, damage):
    zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    whole = zstandard.compress(b"a line\n" * 1000)
    path = file_of(tmp_path, "a.zst", whole[:-3] if damage == "cut" else b"this is not zstd")
    with pytest.raises(FormatError, match=r"is not a whole \.zst file"):
        list(read_chunks(path))


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt: cannot be read"):
        list(read_chunks(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize("end", [b"", b"\n", b"\nshort\n"])
def test_line_longer_than_any_paragraph_is_named(tmp_path, monkeypatch, end):
    monkeypatch.setattr(corpus, "LONGEST_LINE_BYTES", 1 << 20)
    path = file_of(tmp_path, "a.txt", b"short\nshort\n" + b"x" * (3 << 20) + end)
    with pytest.raises(InputError) as caught:
        list(read_chunks(path, 1 << 19))
    assert str(caught.value).startswith(f"{path}, line 3: is longer than 1 MB")


@pytest.mark.parametrize("chunk_bytes", [1, 6, 1 << 20])
def test_bytes_that_are_not_utf_8_are_named_by_file_and_line(tmp_path, chunk_bytes):
    path = file_of(tmp_path, "a.txt", b"good\ngood\ncaf\xe9\ngood\n")
    with pytest.raises(FormatError) as caught:
        list(map(text_of, read_chunks(path, chunk_bytes)))
    assert str(caught.value).startswith(f"{path}, line 3: is not UTF-8")
    assert "--errors replace" in str(caught.value)


def test_bytes_that_are_not_utf_8_may_be_replaced(tmp_path):
    path = file_of(tmp_path, "a.txt", b"caf\xe9 good\n")
    sentences = read_sentences([path], TextSettings(errors="replace"))
    assert list(sentences) == [["caf\ufffd", "good"]]


def test_byte_order_mark_and_carriage_returns_are_no_part_of_words(tmp_path):
    path = file_of(tmp_path, "a.txt", b"\xef\xbb\xbfone two\r\nthree\r\n")
    assert list(read_sentences([path], WHITESPACE)) == [["one", "two"], ["three"]]


def test_whitespace_takes_each_line_for_a_sentence():
    sentences = sentences_of(chunk_of("A b. C d.\n\n \ne f"), WHITESPACE)
    assert list(sentences) == [["A", "b.", "C", "d."], ["e", "f"]]


def test_default_splits_each_line_into_sentences():
    sentences = sentences_of(chunk_of("A dog. A cat\nsat.\n"), TextSettings(split=True))
    assert list(sentences) == [["A", "dog", "."], ["A", "cat"], ["sat", "."]]


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


@pytest.mark.parametrize("wrong", [{"tokenizer": "moses"}, {"errors": "ignore"}])
def test_unknown_setting_is_refused(wrong):
    with pytest.raises(ConfigError, match="use one of"):
        TextSettings.of_corpus(**wrong)


def test_files_are_read_one_after_another(tmp_path):
    files = [file_of(tmp_path, "b.txt", b"one\n"), file_of(tmp_path, "a.txt", b"two")]
    assert list(read_sentences(files, WHITESPACE)) == [["one"], ["two"]]


def test_folder_in_place_of_a_file_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        list(read_sentences([tmp_path], WHITESPACE))
