from __future__ import annotations

import errno
import os

import pytest
from closeness import assert_agree
from small_models import small_embedder

from elmokit.bulk import ray as parts_module
from elmokit.bulk.ray import PartFolder, PartKey, PartWriter
from elmokit.errors import DiskError, InputError
from elmokit.vectors.files import VectorSettings, open_vectors, read_vectors

pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")

SENTENCES = [["The", "river", "bank"], [], ["A", "bank"], ["A", "bank"]]


def part(number=0, ids=(0, 1, 2, 3)):
    end = [[0, 4], 1]
    return {
        "shard": 0, "number": number, "words": SENTENCES, "ids": list(ids), "end": end, "bytes": 31,
    }  # fmt: skip


def begun(folder) -> PartFolder:
    parts = PartFolder(folder / "vectors.parquet.parts")
    parts.begin()
    return parts


def writer(parts, **settings) -> PartWriter:
    settings = VectorSettings(**settings, description={"pool": "none"})
    return PartWriter(small_embedder(), "average", settings, parts, "machine a")


def test_names_of_parts_are_in_the_order_of_the_input():
    places = [PartKey(0, 0), PartKey(0, 9), PartKey(0, 10), PartKey(1, 0), PartKey(10, 0)]
    assert sorted(place.name for place in places) == [place.name for place in places]
    assert [PartKey.named(place.name) for place in places] == places


def test_part_holds_what_its_sentences_embed_to(tmp_path):
    parts = begun(tmp_path)
    writer(parts).write(part(ids="abcd"))
    found = read_vectors(parts.path(PartKey(0, 0)))
    assert [item.sentence for item in found] == ["The river bank", "", "A bank", "A bank"]
    assert [item.id for item in found] == ["a", "b", "c", "d"]
    assert_agree([item.vectors for item in found], small_embedder().embed(SENTENCES))


def test_record_says_what_was_counted_and_where_the_part_ends(tmp_path):
    parts = begun(tmp_path)
    answer = writer(parts).write(part())
    assert answer["record"]["totals"] == {"sentences": 4, "words": 7, "blank": 1, "duplicates": 1}
    kept = parts.begin()
    assert list(kept) == [PartKey(0, 0)]
    assert kept[PartKey(0, 0)]["end"] == [[0, 4], 1]
    assert kept[PartKey(0, 0)]["machine"] == "machine a"


def test_part_that_is_there_is_not_computed_again(tmp_path, monkeypatch):
    parts = begun(tmp_path)
    first = writer(parts).write(part())
    second = writer(parts)
    monkeypatch.setattr(second.computer, "compute", None)
    assert second.write(part())["record"]["totals"] == first["record"]["totals"]


def test_record_without_its_part_counts_for_nothing(tmp_path):
    parts = begun(tmp_path)
    writer(parts).write(part())
    parts.path(PartKey(0, 0)).unlink()
    assert parts.begin() == {}


def test_machine_without_the_folder_does_not_make_one_of_its_own(tmp_path):
    elsewhere = PartFolder(tmp_path / "vectors.parquet.parts")
    with pytest.raises(InputError, match=r"parts: is not there on .*all machines share"):
        writer(elsewhere).write(part())
    assert not elsewhere.folder.exists()


def test_part_that_only_another_machine_sees_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(parts_module, "SECONDS_FOR_STORAGE", -1)
    with pytest.raises(InputError, match=r"part-00000-00000003\.parquet: .* but is not here"):
        begun(tmp_path).wait_for(PartKey(0, 3))


@pytest.mark.parametrize("ids", [(0, 1, None, 3), (None,) * 4, ("a", "b", 2, "d")])
def test_ids_that_do_not_make_one_column_are_refused(tmp_path, ids):
    with pytest.raises(InputError, match="in every row"):
        writer(begun(tmp_path)).write(part(ids=ids))


def test_sentences_of_shards_are_counted_once(tmp_path):
    parts = begun(tmp_path)
    assert parts.rows_of_shards(lambda: [3, 4]) == [3, 4]
    assert parts.rows_of_shards(lambda: [0, 0]) == [3, 4]


def test_folder_around_the_user_is_not_replaced(tmp_path, monkeypatch):
    parts = begun(tmp_path)
    writer(parts).write(part())
    output = tmp_path / "vectors.parquet"
    (output / "inside").mkdir(parents=True)
    monkeypatch.chdir(output / "inside")
    with pytest.raises(InputError, match="is around the current"):
        parts.publish(output, parts.begin(), numbered=True)
    assert (output / "inside").exists()


def test_failed_publishing_puts_the_old_folder_back(tmp_path, monkeypatch):
    parts = begun(tmp_path)
    writer(parts).write(part())
    output = tmp_path / "vectors.parquet"
    output.mkdir()
    (output / "old").write_text("old")
    rename = os.rename

    def failing(source, target):
        if source == parts.vectors:
            raise OSError(errno.ENOSPC, "full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(DiskError, match="free some space"):
        parts.publish(output, parts.begin(), numbered=True)
    assert (output / "old").read_text() == "old"


@pytest.mark.parametrize("before", ["nothing", "file", "folder"])
def test_publishing_leaves_a_folder_that_is_whole_and_nothing_else(tmp_path, before):
    parts = begun(tmp_path)
    for number in (1, 0):
        writer(parts).write(part(number))
    (parts.vectors / ".tmp-0a0b-part-00000-00000002.parquet").write_text("half")
    output = tmp_path / "vectors.parquet"
    if before == "file":
        output.write_text("old")
    if before == "folder":
        output.mkdir()
        (output / "old").write_text("old")
    parts.publish(output, parts.begin(), numbered=True)
    names = ["_elmokit.json", "part-00000-00000000.parquet", "part-00000-00000001.parquet"]
    assert sorted(path.name for path in output.iterdir()) == names
    with open_vectors(output) as found:
        assert len(found) == 2 * len(SENTENCES)
    assert {path.name for path in tmp_path.iterdir()} == {output.name, parts.folder.name}
