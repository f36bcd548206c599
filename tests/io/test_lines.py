from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import error_of
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import FormatError, InputError
from elmokit.io import text_files as lines
from elmokit.io.text_files import Line, TextSettings, paragraphs, read_lines

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
    return numbered(read_lines(path, errors=errors, start=start))


@pytest.fixture
def piped(monkeypatch):
    """Puts bytes where a program finds its standard input."""

    def pipe(contents: bytes, start: int = 1) -> list[Line]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(contents)))
        return list(read_lines("-", start=start))

    return pipe


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["no end", "ended"])
def test_only_a_line_feed_ends_a_line_with_one_carriage_return_before_it(tmp_path, start, end):
    text = "a\r\nb\r\r\n\r\nc\rd\x85e\u2028f\n\ng"
    found = lines_of(file_of(tmp_path, f"{start}{text}{end}".encode()))
    assert found == list(enumerate(["a", "b\r", "", "c\rd\x85e\u2028f", "", "g"], 1))


@quick
@given(text=any_text, block=st.integers(1, 9), start=st.integers(1, 12))
def test_lines_are_those_between_line_feeds_from_any_start(tmp_path_factory, text, block, start):
    text = text.removeprefix("\ufeff")
    path = file_of(tmp_path_factory.mktemp("text"), text.encode() + b".")
    expected = [line.removesuffix("\r") for line in f"{text}.".split("\n")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        assert lines_of(path, start) == list(enumerate(expected, 1))[start - 1 :]


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


def test_position_grows_to_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1 << 12)
    path = file_of(tmp_path, gzip.compress(b"".join(b"%d\n" % n for n in range(20000))), "a.gz")
    positions = [line.position for line in read_lines(path)]
    assert positions == sorted(positions)
    assert 0 < positions[0] < positions[-1] == path.stat().st_size


def test_standard_input_is_read_like_a_file(piped):
    found = piped(b"\xef\xbb\xbfa\r\n\nb")
    assert numbered(found) == [(1, "a"), (2, ""), (3, "b")]
    assert found[-1].position == 8
    assert numbered(piped(b"a\nb\nc\n", 3)) == [(3, "c")]


def test_a_pipe_gives_its_lines_as_they_come(monkeypatch):
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        pipe.write(b"a b\nc\n")
        found = read_lines("-")
        assert [next(found)[1:], next(found)[1:]] == [("a b", 1, 4), ("c", 2, 6)]


def test_stream_without_text_is_named(piped, monkeypatch):
    with pytest.raises(InputError, match=r"^standard input: holds no text"):
        piped(b"")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^standard input: is closed; name a file"):
        list(read_lines("-"))


def test_errors_of_a_stream_name_its_line(piped, monkeypatch):
    with pytest.raises(FormatError, match=r"^standard input, line 2: is not UTF-8"):
        piped(b"a\n\xff\n")

    def refused(size):
        raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=refused)))
    with pytest.raises(InputError) as caught:
        list(read_lines("-"))
    assert str(caught.value) == "standard input: cannot be read (Is a directory)"


@pytest.mark.parametrize("encoding", ["latin-1", "euc-kr", "utf-8-sig", "utf-16"])
def test_encoding_can_be_named(tmp_path, encoding):
    expected = ["한국어", "b"] if encoding in ("euc-kr", "utf-16") else ["£ é", "b"]
    path = file_of(tmp_path, "\n".join(expected).encode(encoding))
    known = TextSettings(encoding=encoding).encoding
    assert [line.text for line in read_lines(path, known)] == expected


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


def test_paragraphs_are_between_blank_lines(tmp_path):
    path = file_of(tmp_path, b"\na\nb\n \t\n\nc")
    found = [[line.text for line in some] for some in paragraphs(read_lines(path))]
    assert found == [["a", "b"], ["c"]]


@pytest.mark.parametrize("encoding", ["euc-kr", "cp949"])
def test_korean_in_its_old_encoding_is_named(tmp_path, encoding):
    path = file_of(tmp_path, b"plain\n" + "나는 학교에 갔다. 漢字".encode(encoding) + b"\n")
    message = error_of(lines_of, path, kind=FormatError, after=f"{path}, line 2: is not UTF-8")
    assert "it looks like CP949 (Korean): give --encoding cp949" in message
    assert numbered(read_lines(path, "cp949")) == [(1, "plain"), (2, "나는 학교에 갔다. 漢字")]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Übermut, déjà vu", "latin-1"), ("привет", "koi8-r"), ("你好世界", "gbk"), ("か", "euc-jp")],
)
def test_other_encodings_are_not_taken_for_korean(tmp_path, text, encoding):
    path = file_of(tmp_path, text.encode(encoding))
    assert "Korean" not in error_of(lines_of, path, kind=FormatError)
