from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from elmokit.errors import FormatError, InputError
from elmokit.tasks.files.lines import paragraphs, read_lines


def write(folder: Path, contents: bytes, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(contents)
    return path


def texts(path: Path, encoding: str = "utf-8") -> list[str]:
    return [line.text for line in read_lines(path, encoding)]


def test_line_ends_with_a_line_feed_and_with_nothing_else(tmp_path):
    path = write(tmp_path, "a\r\nb\x85c\u2028d\r e\n\nlast".encode())
    assert texts(path) == ["a", "b\x85c\u2028d\r e", "", "last"]
    assert texts(write(tmp_path, b"a\n")) == ["a"]


def test_every_line_knows_its_place(tmp_path):
    path = write(tmp_path, b"a\n\nb\n")
    places = [line.place for line in read_lines(path)]
    assert places == [f"{path}, line 1", f"{path}, line 2", f"{path}, line 3"]


def test_compressed_files_are_read_alike(tmp_path):
    contents = "é\nb\n".encode()
    assert texts(write(tmp_path, gzip.compress(contents), "file.csv.gz")) == ["é", "b"]
    assert texts(write(tmp_path, lzma.compress(contents), "file.csv.xz")) == ["é", "b"]
    zstandard = pytest.importorskip("zstandard")
    compressed = zstandard.ZstdCompressor().compress(contents)
    assert texts(write(tmp_path, compressed, "file.csv.zst")) == ["é", "b"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "euc-kr", "utf-8-sig"])
def test_encoding_can_be_named(tmp_path, encoding):
    expected = ["한국어", "b"] if encoding in ("euc-kr", "utf-16") else ["£ é", "b"]
    path = write(tmp_path, "\n".join(expected).encode(encoding))
    assert texts(path, encoding) == expected


def test_mark_of_utf8_at_the_beginning_is_no_text(tmp_path):
    assert texts(write(tmp_path, b"\xef\xbb\xbflabel")) == ["label"]


def test_wrong_encoding_is_one_line_that_names_the_place_and_the_way_out(tmp_path):
    path = write(tmp_path, "fine\n£ 5\n".encode("latin-1"))
    with pytest.raises(FormatError) as caught:
        read_lines(path)
    assert str(caught.value) == (
        f"{path}, line 2: is not utf-8 (invalid start byte); name the encoding that the file has, "
        "as in --encoding latin-1"
    )


@pytest.mark.parametrize("encoding", ["klingon", "hex", ""])
def test_unknown_encoding_is_refused(tmp_path, encoding):
    with pytest.raises(InputError, match=f"encoding '{encoding}' is unknown; name one such as"):
        read_lines(write(tmp_path, b"a"), encoding)


@pytest.mark.parametrize("contents", [b"", b"\n", b" \t\r\n\n", b"\xef\xbb\xbf"])
def test_empty_file_is_refused(tmp_path, contents):
    path = write(tmp_path, contents)
    with pytest.raises(InputError, match="holds no text; name a file that has examples") as caught:
        read_lines(path)
    assert str(caught.value).startswith(str(path))


def test_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read \(No such file"):
        read_lines(tmp_path / "absent.csv")


def test_paragraphs_are_between_blank_lines(tmp_path):
    path = write(tmp_path, b"\na\nb\n \t\n\nc")
    assert [[line.text for line in lines] for lines in paragraphs(read_lines(path))] == [
        ["a", "b"],
        ["c"],
    ]
