from __future__ import annotations

import pytest

from elmokit.bulk import shards
from elmokit.bulk.inputs import InputSettings, open_input
from elmokit.bulk.parts import Part
from elmokit.bulk.shards import shards_of, with_first_rows
from elmokit.errors import InputError

LINES = [f"sentence number {number}" for number in range(9)]  # three words, two markers each
TWO_SENTENCES = 10  # tokens


def write(folder, **files):
    for name, contents in files.items():
        (folder / f"{name}.txt").write_text(contents, encoding="utf-8")
    return [str(folder / f"{name}.txt") for name in files]


def shard_of(folder, lines=LINES, **settings):
    source = open_input(write(folder, text="\n".join(lines)), InputSettings(**settings))
    (shard,) = shards_of(source, TWO_SENTENCES)
    return shard


def record(chunk):
    """What is kept of a chunk when it is written."""
    totals = {"sentences": len(chunk["words"])}
    return {"end": chunk["end"], "bytes": chunk["bytes"], "totals": totals}


def test_small_files_share_a_shard_and_no_file_is_divided(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BYTES_PER_SHARD", 10)
    files = write(tmp_path, a="1234", b="1234", c="1234", d="1" * 50, e="1")
    found = shards_of(open_input(files, InputSettings()), tokens=1)
    assert [list(shard.files) for shard in found] == [files[:3], files[3:4], files[4:]]
    assert [shard.number for shard in found] == [0, 1, 2]


def test_files_have_full_names_that_hold_in_any_folder(tmp_path, monkeypatch):
    write(tmp_path, text="a b")
    monkeypatch.chdir(tmp_path)
    (shard,) = shards_of(open_input(["text.txt"], InputSettings()), tokens=1)
    monkeypatch.chdir("/")
    assert shard.files == (str(tmp_path / "text.txt"),)
    assert shard.rows() == 1


def test_shard_gives_its_chunks_and_then_their_number(tmp_path):
    *chunks, end = shard_of(tmp_path).chunks()
    assert [chunk["number"] for chunk in chunks] == [0, 1, 2, 3, 4]
    words = [sentence for chunk in chunks for sentence in chunk["words"]]
    assert [" ".join(sentence) for sentence in words] == LINES
    assert end == {"shard": 0, "chunks": 5}


def test_bytes_of_chunks_add_up_to_the_size_of_the_files(tmp_path):
    *chunks, _ = shard_of(tmp_path).chunks()
    assert sum(chunk["bytes"] for chunk in chunks) == (tmp_path / "text.txt").stat().st_size


def test_ids_number_the_sentences_of_the_whole_input(tmp_path):
    (shard,) = with_first_rows([shard_of(tmp_path)], [])
    first, second = with_first_rows([shard, shard], [shard.rows()])
    numbers = [
        n for each in (first, second) for chunk in list(each.chunks())[:-1] for n in chunk["ids"]
    ]
    assert numbers == list(range(18))


@pytest.mark.parametrize("missing", [{0}, {2}, {4}, {1, 3}, {0, 1, 2, 3, 4}, set()])
def test_only_chunks_that_are_not_done_are_given_and_they_are_the_same(tmp_path, missing):
    (shard,) = with_first_rows([shard_of(tmp_path)], [])
    *chunks, end = shard.chunks()
    done = {Part(0, c["number"]): record(c) for c in chunks if c["number"] not in missing}
    *rest, rest_end = shard.without(done | {Part(1, 0): {}}).chunks()
    fields = ("shard", "number", "words", "ids", "end")
    assert [[chunk[name] for name in fields] for chunk in rest] == [
        [chunk[name] for name in fields] for chunk in chunks if chunk["number"] in missing
    ]
    assert rest_end == end


def test_chunks_may_end_within_a_line_of_raw_text(tmp_path):
    line = "One is here . Two is here . Three is here . Four is here ."
    shard = shard_of(tmp_path, [line, line], split=True)
    *chunks, _ = shard.chunks()
    done = {Part(0, 0): record(chunks[0])}
    *rest, _ = shard.without(done).chunks()
    assert len(chunks) > 2
    assert [chunk["words"] for chunk in rest] == [chunk["words"] for chunk in chunks[1:]]


def test_shard_without_sentences_has_no_chunks(tmp_path):
    shard = shard_of(tmp_path, [" ", " "], split=True)
    assert list(shard.chunks()) == [{"shard": 0, "chunks": 0}]
    assert shard.rows() == 0


def test_file_that_a_machine_does_not_have_is_named(tmp_path):
    shard = shard_of(tmp_path)
    (tmp_path / "text.txt").unlink()
    with pytest.raises(InputError, match=r"text\.txt: is not there on .*all machines share"):
        next(shard.chunks())
