from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import error_of, write
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.bulk.inputs import GLUED, Record, RecordPlace, input_of, open_input
from elmokit.errors import ElmoWarning, InputError
from elmokit.io import text_files
from elmokit.io.text_files import TextSettings
from elmokit.text.tokenizer import DefaultTokenizer, load_tokenizer

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
any_text = st.text(
    st.sampled_from(list("ab. \0\r\n\n\x85\u2028")) | st.characters(codec="utf-8"), min_size=1
)


def file_of(folder: Path, name: str, contents: str | bytes) -> str:
    return str(write(folder / name, contents))


def records(*names: str, start: RecordPlace | None = None, **choices) -> list[Record]:
    return list(open_input(names, TextSettings(**choices)).records(start))


def words(*names: str, **choices) -> list[list[str]]:
    return [record.words for record in records(*names, **choices)]


def message(*names: str, **choices) -> str:
    """What is said about inputs that are refused before their first record."""
    return error_of(open_input, names, TextSettings(**choices))


@pytest.fixture
def piped(monkeypatch):
    """Puts bytes where a program finds its standard input."""

    def pipe(contents: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(contents)))

    return pipe


@pytest.mark.filterwarnings("ignore:.*looks like raw text")
def test_each_line_is_a_sentence_or_with_split_a_paragraph_of_raw_text(tmp_path):
    path = file_of(tmp_path, "a.txt", "It's  a\tb.\r\n\n c\u2028d\0\x85 \nYes! No")
    assert records(path) == [
        Record(["It's", "a", "b."], RecordPlace(0, 1)),
        Record([], RecordPlace(0, 2)),
        Record(["c", "d\0"], RecordPlace(0, 3)),
        Record(["Yes!", "No"], RecordPlace(0, 4)),
    ]
    assert records(path, split=True) == [
        Record(["It", "'s", "a", "b", "."], RecordPlace(0, 1)),
        Record(["c", "d\0"], RecordPlace(0, 3)),
        Record(["Yes", "!"], RecordPlace(0, 4)),
        Record(["No"], RecordPlace(0, 4)),
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_tokenizer_may_be_named_after_the_files_are_found(tmp_path, piped, streamed):
    piped(b"It's late.\n")
    name = "-" if streamed else file_of(tmp_path, "text.txt", "It's late.\n")
    source = open_input([name], TextSettings(split=True))
    found = [record.words for record in source.split_by("whitespace").records()]
    assert found == [["It's", "late."]]
    named = open_input([name], TextSettings(split=True, tokenizer="whitespace"))
    assert source.split_by("whitespace").identity() == named.identity()


def test_tokenize_makes_one_sentence_of_each_text_and_leaves_lists_of_words_alone(tmp_path):
    path = file_of(tmp_path, "text.txt", "It rains. We can't go!\n\nNo.\n")
    expected = [["It", "rains", ".", "We", "ca", "n't", "go", "!"], [], ["No", "."]]
    assert words(path, tokenize=True) == expected
    assert words(path, tokenize=True, tokenizer="whitespace")[2] == ["No."]
    path = file_of(tmp_path, "a.jsonl", '{"text": ["can\'t", "U.S."]}\n{"text": []}\n')
    assert words(path, tokenize=True) == [["can't", "U.S."], []]


@pytest.mark.parametrize("line", ["The bank, too", "Is it?", "no way! he said", "so it ends.  "])
def test_raw_text_that_is_read_as_tokenized_is_noticed_once(tmp_path, line):
    path = file_of(tmp_path, "text.txt", f"{line}\n" * 50)
    with pytest.warns(ElmoWarning) as caught:
        assert len(words(path)) == 50
    [warning] = caught
    assert "--tokenize" in str(warning.message)
    assert "--split" in str(warning.message)


def test_tokenized_text_is_not_taken_for_raw(tmp_path):
    lines = ["Mr. Day left the U.S. .", "Yahoo! is", "a bank , and more .", "`` Yes ! ''", "3,5 1."]
    assert len(words(file_of(tmp_path, "text.txt", "\n".join(lines)))) == 5
    raw = file_of(tmp_path, "raw.txt", "A bank.\n")
    assert words(raw, tokenize=True) == [["A", "bank", "."]]
    assert words(raw, split=True) == [["A", "bank", "."]]


def test_text_of_another_encoding_is_read(tmp_path):
    path = file_of(tmp_path, "a.csv", "text\ncaf\xe9\n".encode("latin-1"))
    assert words(path, encoding="Latin-1") == [["caf\xe9"]]
    assert words(path, errors="replace") == [["caf\ufffd"]]
    said = message(path)
    assert said.startswith(f"{path}, line 2: is not UTF-8")
    assert "--encoding latin-1" in said
    assert "--errors replace" in said


@pytest.mark.parametrize(
    ("name", "why"),
    [("klingon", "is unknown"), ("hex", "is unknown"), ("utf-16-le", "line by line")],
)
def test_encodings_that_cannot_be_read_are_refused(name, why):
    with pytest.raises(InputError, match=why):
        TextSettings(encoding=name)


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("text", "a b\n"),
        ("jsonl", '{"text": "a b"}\n'),
        ("csv", "id,text\n1,a b\n"),
        ("tsv", "id\ttext\n1\ta b\n"),
    ],
)
def test_format_says_what_a_stream_or_an_unknown_file_is(tmp_path, piped, kind, contents):
    piped(contents.encode())
    assert words("-", format=kind) == [["a", "b"]]
    assert words(file_of(tmp_path, "unknown.dat", contents), format=kind) == [["a", "b"]]


def test_files_of_all_kinds_follow_each_other(tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    found = words(
        file_of(tmp_path, "b.text", "a b\n"),
        file_of(tmp_path, "a.txt.gz", gzip.compress(b"c d\n")),
        file_of(tmp_path, "a.xz", lzma.compress(b"e\n")),
        file_of(tmp_path, "a.CSV.GZ", gzip.compress(b'id,text\n1,"f, g"\n')),
        file_of(tmp_path, "a.jsonl.zst", zstandard.compress(b'{"sentence": ["h", "i"]}')),
        file_of(tmp_path, "a.tsv.xz", lzma.compress(b'text\n"j\n')),
        file_of(tmp_path, "a.ndjson", '{"text": "k"}'),
    )
    assert found == [["a", "b"], ["c", "d"], ["e"], ["f,", "g"], ["h", "i"], ['"j'], ["k"]]


def test_parquet_is_read_among_others(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": [["a", "b"], None], "id": [5, 6]}), path)
    lines = file_of(tmp_path, "b.jsonl", '{"body": "c d", "id": "x"}\n')
    assert records(str(path), lines, text_column="body", keep="id") == [
        Record(["a", "b"], RecordPlace(0, 1), 5),
        Record([], RecordPlace(0, 2), 6),
        Record(["c", "d"], RecordPlace(1, 1), "x"),
    ]
    assert words(str(path), lines, text_column="body", split=True) == [["a", "b"], ["c", "d"]]
    assert "Parquet file inside a .gz file" in message(file_of(tmp_path, "c.parquet.gz", b"x"))


def test_words_with_lone_surrogates_are_kept(tmp_path):
    lines = ['{"text": "a \\ud800b. \\udfff"}', '{"text": ["\\ud800"]}']
    path = file_of(tmp_path, "a.jsonl", "\n".join(lines))
    assert words(path) == [["a", "\ud800b.", "\udfff"], ["\ud800"]]
    assert [word for sentence in words(path, split=True) for word in sentence] == [
        "a",
        "\ud800b",
        ".",
        "\udfff",
        "\ud800",
    ]


def test_folders_and_globs_stand_for_the_files_in_them(tmp_path):
    file_of(tmp_path, "b.txt", "b\n")
    file_of(tmp_path, "deep/a.csv", "text\na\n")
    file_of(tmp_path, "c.jsonl", '{"text": "c"}\n')
    file_of(tmp_path, "d.md", "d\n")
    file_of(tmp_path, ".e.txt", "e\n")
    assert words(str(tmp_path)) == [["b"], ["c"], ["a"]]
    assert words(f"{tmp_path}/*.m?", f"{tmp_path}/b.txt", f"{tmp_path}/*.txt") == [["d"], ["b"]]


def test_standard_input_is_text_and_comes_alone(tmp_path, piped):
    piped(b"a b\n\nc")
    stream = open_input(["-"], TextSettings())
    assert (stream.position, stream.size) == (0, None)
    assert [record.words for record in stream.records()] == [["a", "b"], [], ["c"]]
    assert (stream.position, stream.size) == (6, None)
    with pytest.raises(InputError, match="standard input: can be read only once"):
        next(stream.records())
    assert stream.files == []
    assert stream.identity()["inputs"] == [{"name": "standard input"}]
    path = file_of(tmp_path, "a.txt", "a\n")
    assert message(path, "-") == "-: is a stream; give it alone, or only files"
    assert message("-", format="parquet") == (
        "standard input: is a stream, which Parquet cannot be; save it in a file"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe_may_stand_in_place_of_a_file(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert words(str(path)) == [["a"], ["b"]]
    writer.join()


def test_last_of_many_files_is_looked_at_before_the_first_record(tmp_path):
    good = file_of(tmp_path, "a.jsonl", '{"text": "a", "id": 1}\n')
    assert "nowhere.jsonl: is not a file" in message(good, str(tmp_path / "nowhere.jsonl"))
    assert "b.csv, line 1: has no column 'text'" in message(
        good, file_of(tmp_path, "b.csv", "a,b\n1,2\n"), text_column="text"
    )
    assert "c.txt: is plain text, which has no columns" in message(
        good, file_of(tmp_path, "c.txt", "a\n"), keep="id"
    )
    assert "d.txt: holds no text" in message(good, file_of(tmp_path, "d.txt", ""))
    assert "e.gz: is not a complete .gz file" in message(good, file_of(tmp_path, "e.gz", b"text"))
    assert "f.txt, line 2: is not UTF-8" in message(good, file_of(tmp_path, "f.txt", b"a\n\xff"))


def test_file_that_is_gone_when_its_turn_comes_is_named(tmp_path):
    names = [file_of(tmp_path, name, "a\n") for name in ("a.txt", "b.txt")]
    opened = open_input(names, TextSettings())
    os.remove(names[1])
    found = opened.records()
    assert next(found).words == ["a"]
    with pytest.raises(InputError) as caught:
        next(found)
    assert str(caught.value) == f"{names[1]}: cannot be read (No such file or directory)"
    with pytest.raises(InputError, match=r"b\.txt: cannot be read"):
        opened.identity()


@pytest.mark.parametrize(
    ("name", "contents", "split"),
    [("a.txt", "\n \n", True), ("a.csv", "text\n", False), ("a.jsonl", "\n\n", False)],
)
def test_input_without_any_sentence_is_refused_at_its_end(tmp_path, name, contents, split):
    path = file_of(tmp_path, name, contents)
    with pytest.raises(InputError) as caught:
        words(path, split=split)
    assert str(caught.value) == f"{path}: holds no sentence; name a file that has some"
    assert words(path, split=split, start=RecordPlace(0, 1)) == []
    assert words(path, file_of(tmp_path, "b.jsonl", '{"text": "a"}'), split=split) == [["a"]]


def as_table(kind: str, texts: list[str]) -> bytes:
    """A file of that kind with the texts in its rows, some lines apart."""
    if kind == ".jsonl":
        contents = "\n\n".join(json.dumps({"text": text, "id": text}) for text in texts) + "\n"
    elif kind == ".csv":
        quoted = (text.replace('"', '""') for text in texts)
        contents = "id,text\n" + "".join(f'1,"{text}"\n' for text in quoted)
    elif kind == ".tsv":
        contents = "text\tid\n" + "".join(f"{' '.join(text.split())}\t1\n" for text in texts)
    else:
        contents = "\n".join(texts) + "."
    return contents.encode("utf-8")


@pytest.mark.filterwarnings("ignore:.*looks like raw text")
@quick
@given(
    files=st.lists(
        st.tuples(
            st.sampled_from([".txt", ".jsonl", ".csv", ".tsv"]), st.lists(any_text, max_size=4)
        ),
        min_size=1,
        max_size=3,
    ),
    block=st.integers(1, 40),
    split=st.booleans(),
)
def test_records_from_a_place_are_the_rest_of_all_records(tmp_path_factory, files, block, split):
    folder = tmp_path_factory.mktemp("files")
    names = [
        file_of(folder, f"{number}{kind}", as_table(kind, [*texts, "end"]))
        for number, (kind, texts) in enumerate(files)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmokit.io.text_files.BLOCK_BYTES", block)
        opened = open_input(names, TextSettings(split=split))
        every = list(opened.records())
        places = {record.place for record in every}
        assert [record.place for record in every] == sorted(record.place for record in every)
        for place in {*places, *(RecordPlace(file, line + 1) for file, line in places)}:
            rest = [record for record in every if record.place >= place]
            assert list(opened.records(place)) == rest


def test_what_is_skipped_is_not_tokenized(tmp_path, monkeypatch):
    path = file_of(tmp_path, "a.txt", "One.\n" * 5 + "Two.\n")
    opened = open_input([path], TextSettings(split=True))
    seen = []
    split = DefaultTokenizer.each_sentence
    monkeypatch.setattr(
        DefaultTokenizer, "each_sentence", lambda self, text: seen.append(text) or split(self, text)
    )
    assert list(opened.records(RecordPlace(0, 6))) == [Record(["Two", "."], RecordPlace(0, 6))]
    assert seen == ["Two."]


def test_files_are_opened_one_after_another(tmp_path, monkeypatch):
    names = [file_of(tmp_path, f"{number}.txt", "a\n") for number in range(3)]
    opened = open_input(names, TextSettings())
    read = []
    read_chunks = text_files.read_chunks
    monkeypatch.setattr(
        "elmokit.io.text_files.read_chunks",
        lambda path, size: read.append(path) or read_chunks(path),
    )
    found = opened.records(RecordPlace(1, 1))
    assert next(found).place == RecordPlace(1, 1)
    assert read == [Path(names[1])]


def test_position_is_that_on_disk_among_all_files(tmp_path):
    contents = gzip.compress(b"".join(b"%d\n" % number for number in range(1000)))
    names = [
        file_of(tmp_path, "a.gz", contents),
        file_of(tmp_path, "b.txt", "a\n" * 10),
        file_of(tmp_path, "c.csv", "text\nb\n"),
    ]
    opened = open_input(names, TextSettings())
    total = len(contents) + 20 + 7
    assert (opened.position, opened.size) == (0, total)
    positions = [opened.position for _ in opened.records()]
    assert positions == sorted(positions)
    # Each line moves it by its share of what was read at once.
    assert positions[1000] == len(contents) + 2
    assert (opened.position, opened.size) == (total, total)
    next(opened.records(RecordPlace(1, 5)))
    assert (opened.position, opened.size) == (len(contents) + 10, total)


def test_identity_is_plain_and_changes_with_what_is_read_and_how(tmp_path):
    path = file_of(tmp_path, "a.txt", b"a" * (1 << 17) + b"\n")
    other = file_of(tmp_path, "b.txt", "a\n")
    date = os.stat(path)

    def identity(*names: str, **choices) -> str:
        return json.dumps(open_input(names, TextSettings(**choices)).identity())

    assert identity(path) == identity(path) == identity(path, tokenizer="whitespace")
    found = [
        identity(path),
        identity(path, other),
        identity(other, path),
        identity(path, split=True),
        identity(path, split=True, tokenizer="whitespace"),
        identity(path, errors="replace"),
        identity(path, header=False),
    ]
    for contents in (b"b" + b"a" * (1 << 17), b"a" * (1 << 17) + b"b", b"a" * (1 << 17)):
        Path(path).write_bytes(contents)
        os.utime(path, ns=(date.st_atime_ns, date.st_mtime_ns))
        found.append(identity(path))
    os.utime(path, ns=(date.st_atime_ns, date.st_mtime_ns + 1))
    found.append(identity(path))
    assert len(set(found)) == len(found)


def test_identity_names_a_header_only_where_there_is_none():
    assert "header" not in TextSettings().to_dict()
    assert TextSettings(header=False).to_dict()["header"] is False


@pytest.mark.parametrize(
    "choice", [{"label_column": "label"}, {"phrases": True}, {"shortest_phrase": 2}]
)
def test_settings_of_labelled_examples_are_an_error(tmp_path, choice):
    path = file_of(tmp_path, "a.csv", "text,label\na,b\n")
    with pytest.raises(InputError, match=f"{next(iter(choice))}: is for labelled examples"):
        input_of(path, load_tokenizer("default"), choice)


def test_memory_does_not_grow_with_the_text(tmp_path):
    line = " ".join(["word"] * 20) + "\n"

    def peak(lines: int) -> int:
        opened = open_input([file_of(tmp_path, "a.txt", line * lines)], TextSettings())
        tracemalloc.start()
        try:
            for _ in opened.records(RecordPlace(0, lines // 2)):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(30_000) < 1.1 * peak(10_000)


def test_a_word_of_a_hundred_thousand_letters_is_looked_at_once() -> None:
    started = time.process_time()
    assert not GLUED.search("ACGT" * 25_000)
    assert time.process_time() - started < 1  # it took minutes when tried from every letter


# Proteins


FASTA = ">sp|P1 first of two\nMKV\nLA\n\n; a comment\n>P2\n>P3 long\n" + "ACDE\n" * 3


def test_a_residue_of_fasta_is_a_word_and_the_name_its_id(tmp_path):
    path = write(tmp_path / "proteins.fasta", FASTA)
    records = list(open_input([str(path)], TextSettings()).records())
    assert [record.words for record in records] == [list("MKVLA"), [], list("ACDE" * 3)]
    assert [record.id for record in records] == ["sp|P1", "P2", "P3"]
    later = open_input([str(path)], TextSettings()).records(records[1].place)
    assert list(later) == records[1:]


def test_text_before_the_first_name_of_fasta_is_one_line(tmp_path):
    path = write(tmp_path / "proteins.fa", "MKV\n>P1\nA\n")
    assert "line 1: is not FASTA" in error_of(open_input, [str(path)], TextSettings())
