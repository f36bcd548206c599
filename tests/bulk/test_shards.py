from __future__ import annotations

import pytest

from elmokit.bulk import ray as shards
from elmokit.bulk.inputs import InputSettings, open_input
from elmokit.bulk.ray import PartKey, shards_of, with_first_rows
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


def record(part):
    """What is kept of a part when it is written."""
    totals = {"sentences": len(part["words"])}
    return {"end": part["end"], "bytes": part["bytes"], "totals": totals}


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


def test_shard_gives_its_parts_and_then_their_number(tmp_path):
    *parts, end = shard_of(tmp_path).parts()
    assert [part["number"] for part in parts] == [0, 1, 2, 3, 4]
    words = [sentence for part in parts for sentence in part["words"]]
    assert [" ".join(sentence) for sentence in words] == LINES
    assert end == {"shard": 0, "parts": 5}


def test_bytes_of_parts_add_up_to_the_size_of_the_files(tmp_path):
    *parts, _ = shard_of(tmp_path).parts()
    assert sum(part["bytes"] for part in parts) == (tmp_path / "text.txt").stat().st_size


def test_ids_number_the_sentences_of_the_whole_input(tmp_path):
    (shard,) = with_first_rows([shard_of(tmp_path)], [])
    first, second = with_first_rows([shard, shard], [shard.rows()])
    numbers = [
        n for each in (first, second) for part in list(each.parts())[:-1] for n in part["ids"]
    ]
    assert numbers == list(range(18))


@pytest.mark.parametrize("missing", [{0}, {2}, {4}, {1, 3}, {0, 1, 2, 3, 4}, set()])
def test_only_parts_that_are_not_done_are_given_and_they_are_the_same(tmp_path, missing):
    (shard,) = with_first_rows([shard_of(tmp_path)], [])
    *parts, end = shard.parts()
    done = {PartKey(0, c["number"]): record(c) for c in parts if c["number"] not in missing}
    *rest, rest_end = shard.without(done | {PartKey(1, 0): {}}).parts()
    fields = ("shard", "number", "words", "ids", "end")
    assert [[part[name] for name in fields] for part in rest] == [
        [part[name] for name in fields] for part in parts if part["number"] in missing
    ]
    assert rest_end == end


def test_parts_may_end_within_a_line_of_raw_text(tmp_path):
    line = "One is here . Two is here . Three is here . Four is here ."
    shard = shard_of(tmp_path, [line, line], split=True)
    *parts, _ = shard.parts()
    done = {PartKey(0, 0): record(parts[0])}
    *rest, _ = shard.without(done).parts()
    assert len(parts) > 2
    assert [part["words"] for part in rest] == [part["words"] for part in parts[1:]]


def test_shard_without_sentences_has_no_parts(tmp_path):
    shard = shard_of(tmp_path, [" ", " "], split=True)
    assert list(shard.parts()) == [{"shard": 0, "parts": 0}]
    assert shard.rows() == 0


def test_file_that_a_machine_does_not_have_is_named(tmp_path):
    shard = shard_of(tmp_path)
    (tmp_path / "text.txt").unlink()
    with pytest.raises(InputError, match=r"text\.txt: is not there on .*all machines share"):
        next(shard.parts())
