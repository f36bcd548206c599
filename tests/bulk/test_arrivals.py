from __future__ import annotations

import pytest

from elmokit.bulk.ray import PartCollector, PartFolder, PartKey
from elmokit.errors import ElmoError, InputError


def record(part: PartKey) -> dict:
    totals = {"sentences": 2, "words": 5, "blank": 0}
    return {"part": part, "ids": "int", "bytes": 10, "totals": totals}


def test_part_that_did_not_arrive_is_named(tmp_path):
    arrivals = PartCollector(PartFolder(tmp_path), {PartKey(0, 0): record(PartKey(0, 0))}, 20, None)
    arrivals.take({"shard": 0, "parts": 2})
    with pytest.raises(ElmoError, match=r"part-00000-00000001 did not arrive.*--resume"):
        arrivals.check_whole(1)


def test_shard_of_which_nothing_is_told_is_noticed(tmp_path):
    arrivals = PartCollector(PartFolder(tmp_path), {PartKey(0, 0): record(PartKey(0, 0))}, 20, None)
    arrivals.take({"shard": 0, "parts": 1})
    arrivals.check_whole(1)
    with pytest.raises(ElmoError, match="did not arrive"):
        arrivals.check_whole(2)


def test_progress_counts_what_was_done_before_apart(tmp_path):
    told = []
    parts = PartFolder(tmp_path)
    parts.begin()
    parts.path(PartKey(0, 1)).touch()
    arrivals = PartCollector(parts, {PartKey(0, 0): record(PartKey(0, 0))}, 20, told.append)
    arrivals.take({"record": record(PartKey(0, 1)), "known_words": 0.5, "memory": None})
    (progress,) = told
    assert (progress.sentences, progress.words, progress.words_here) == (4, 10, 5)
    assert (progress.first_position, progress.position, progress.size) == (10, 20, 20)


def test_ids_of_another_kind_than_those_before_are_refused(tmp_path):
    folder = PartFolder(tmp_path)
    folder.begin()
    folder.path(PartKey(0, 1)).touch()
    arrivals = PartCollector(folder, {PartKey(0, 0): record(PartKey(0, 0))}, 20, None)
    other = record(PartKey(0, 1)) | {"ids": "str"}
    with pytest.raises(InputError, match=r"-00000001: has ids of kind str, .* of kind int"):
        arrivals.take({"record": other, "known_words": 0.5, "memory": None})
