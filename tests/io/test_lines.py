from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import sys
import threading
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import FormatError, InputError
from elmokit.io import text_files as lines
from elmokit.io.text_files import Line, TextFile, TextStream, paragraphs, read_lines

quick = settings(max_examples=100, deadline=None, derandomize=True, database=None)
any_text = st.text(
    st.sampled_from(list("ab é고🙂\0\t\r\n\n\n\x1c\x85\u2028\ufeff")) | st.characters(codec="utf-8")
)


def file_of(folder: Path, contents: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(contents)
    return path


def numbered(found: Iterable[Line]) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in found]


def lines_of(path: Path, start: int = 1, errors: str = "strict") -> list[tuple[int, str]]:
    return numbered(TextFile(path, errors).lines(start))


@pytest.fixture
def piped(monkeypatch):
    """Puts bytes where a program finds its standard input."""

    def pipe(contents: bytes) -> TextStream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(contents)))
        return TextStream("-", "strict")

    return pipe


def test_only_a_line_feed_ends_a_line_with_one_carriage_return_before_it(tmp_path):
    path = file_of(tmp_path, "a\r\nb\r\r\n\r\nc\rd\x85e\u2028f\n\ng".encode())
    assert lines_of(path) == [
        (1, "a"),
        (2, "b\r"),
        (3, ""),
        (4, "c\rd\x85e\u2028f"),
        (5, ""),
        (6, "g"),
    ]


def test_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    assert lines_of(file_of(tmp_path, b"\xef\xbb\xbfa\n")) == [(1, "a")]


@quick
@given(text=any_text, block=st.integers(1, 9), start=st.integers(1, 12))
def test_lines_are_those_between_line_feeds_from_any_start(tmp_path_factory, text, block, start):
    text = text.removeprefix("\ufeff")
    path = file_of(tmp_path_factory.mktemp("text"), text.encode() + b".")
    expected = [line.removesuffix("\r") for line in f"{text}.".split("\n")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        assert lines_of(path, start) == list(enumerate(expected, 1))[start - 1 :]


def test_last_line_needs_no_end_and_has_no_line_after_it(tmp_path):
    assert lines_of(file_of(tmp_path, b"a\nb")) == lines_of(file_of(tmp_path, b"a\nb\n"))
    assert lines_of(file_of(tmp_path, b"\n")) == [(1, "")]


def test_lines_before_the_start_are_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    path = file_of(tmp_path, b"caf\xe9\n" * 20 + b"good\n" * 20)
    assert lines_of(path, start=30)[0] == (30, "good")


@pytest.mark.parametrize("contents", [b"", b"\xef\xbb\xbf"])
def test_file_with_nothing_in_it_is_named(tmp_path, contents):
    path = file_of(tmp_path, contents)
    with pytest.raises(InputError) as caught:
        lines_of(path)
    assert str(caught.value) == f"{path}: holds no text; leave it out, or name a file that has some"
    with pytest.raises(InputError, match="holds no text"):
        lines_of(file_of(tmp_path, gzip.compress(contents), "text.gz"))


def test_bytes_that_are_not_utf_8_are_named_or_replaced(tmp_path):
    path = file_of(tmp_path, b"good\ncaf\xe9\n")
    with pytest.raises(FormatError) as caught:
        lines_of(path)
    assert str(caught.value).startswith(f"{path}, line 2: is not UTF-8")
    assert lines_of(path, errors="replace") == [(1, "good"), (2, "caf\ufffd")]


def test_position_grows_to_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1 << 12)
    path = file_of(tmp_path, gzip.compress(b"".join(b"%d\n" % n for n in range(20000))), "a.gz")
    text = TextFile(path, "strict")
    positions = [text.position for _ in text.lines()]
    assert positions == sorted(positions)
    assert 0 < positions[0] < positions[-1] == path.stat().st_size


def test_standard_input_is_read_like_a_file(piped):
    stream = piped(b"\xef\xbb\xbfa\r\n\nb")
    assert numbered(stream.lines()) == [(1, "a"), (2, ""), (3, "b")]
    assert stream.position == 5
    assert numbered(piped(b"a\nb\nc\n").lines(3)) == [(3, "c")]


def test_stream_is_read_only_once(piped):
    stream = piped(b"a\n")
    assert list(stream.lines())
    with pytest.raises(InputError, match=r"^standard input: can be read only once; save it"):
        list(stream.lines())


def test_stream_without_text_is_named(piped, monkeypatch):
    with pytest.raises(InputError, match=r"^standard input: holds no text"):
        list(piped(b"").lines())
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^standard input: is closed; name a file"):
        list(TextStream("-", "strict").lines())


def test_errors_of_a_stream_name_its_line(piped, monkeypatch):
    with pytest.raises(FormatError, match=r"^standard input, line 2: is not UTF-8"):
        list(piped(b"a\n\xff\n").lines())

    def refused(size):
        raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=refused)))
    with pytest.raises(InputError) as caught:
        list(TextStream("-", "strict").lines())
    assert str(caught.value) == "standard input: cannot be read (Is a directory)"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe_is_read_by_its_name(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert numbered(TextStream(str(path)).lines()) == [(1, "a"), (2, "b")]
    writer.join()


def test_every_line_knows_its_place(tmp_path):
    path = file_of(tmp_path, b"a\n\nb\n")
    assert [line.place for line in read_lines(path)] == [f"{path}, line {n}" for n in (1, 2, 3)]


@pytest.mark.parametrize("encoding", ["latin-1", "euc-kr", "utf-8-sig", "utf-16"])
def test_encoding_can_be_named(tmp_path, encoding):
    expected = ["한국어", "b"] if encoding in ("euc-kr", "utf-16") else ["£ é", "b"]
    path = file_of(tmp_path, "\n".join(expected).encode(encoding))
    assert [line.text for line in read_lines(path, encoding)] == expected


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
@pytest.mark.parametrize("block", [7, 1 << 19])
def test_utf_16_is_noticed_by_its_mark(tmp_path, monkeypatch, mark, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    text = "한국어 \U0001f642\nb\n" + "긴 줄 " * 5000
    path = file_of(tmp_path, gzip.compress(mark + text.encode(encoding)), "text.txt.gz")
    assert "\n".join(line.text for line in read_lines(path)) == text


def test_half_a_character_of_utf_16_is_one_line(tmp_path):
    path = file_of(tmp_path, "한국어".encode("utf-16")[:-1])
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}: is not UTF-16"):
        list(read_lines(path))


def test_a_small_zst_file_of_much_text_takes_little_memory(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    contents = zstandard.ZstdCompressor(level=3).compress(b"a line of text\n" * 4_000_000)
    path = file_of(tmp_path, contents, "text.zst")
    tracemalloc.start()
    count = sum(1 for _ in read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4_000_000
    assert peak < 100 << 20


def test_paragraphs_are_between_blank_lines(tmp_path):
    path = file_of(tmp_path, b"\na\nb\n \t\n\nc")
    found = [[line.text for line in some] for some in paragraphs(read_lines(path))]
    assert found == [["a", "b"], ["c"]]
