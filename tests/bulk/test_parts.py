from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from elmokit.bulk.inputs import RecordPlace
from elmokit.bulk.parts import End, Finished, Part, PartStore, Seen, name_of_part, save_array
from elmokit.errors import DiskError, FormatError
from elmokit.inference.token_vectors import KnownWords

NEW = KnownWords(["a"], np.ones((1, 2), dtype=np.float32))


def part(number: int, *sentences: str, shard: int = 0) -> Part:
    words = [sentence.split() for sentence in sentences]
    end = End(RecordPlace(0, number * 10), 1)
    return Part(shard, number, words, list(range(len(words))), end, 100 * number + 100, 100)


def arrays(*lengths: int) -> list[np.ndarray]:
    return [np.full((length, 2), length, dtype=np.float32) for length in lengths]


@pytest.fixture
def parts(tmp_path: Path) -> PartStore:
    return PartStore(tmp_path, pooled=False)


def test_parts_come_back_in_the_order_of_the_input(parts: PartStore) -> None:
    parts.add(part(0, "g", shard=1), arrays(1), {})
    parts.add(part(10, "d e f"), arrays(3), {"sentences": 1})
    parts.add(part(9, "a b", "", "c"), arrays(2, 0, 1), {"sentences": 3})
    items = list(parts.items())
    assert [item.words for item in items] == [["a", "b"], [], ["c"], ["d", "e", "f"], ["g"]]
    assert [item.id for item in items] == [0, 1, 2, 0, 0]
    assert [item.vectors.shape for item in items] == [(2, 2), (0, 2), (1, 2), (3, 2), (1, 2)]
    assert [item.vectors.max(initial=0) for item in items] == [2, 0, 1, 3, 1]


def test_all_layers_are_joined_along_their_words(parts: PartStore) -> None:
    values = [np.arange(3 * n * 2, dtype=np.float16).reshape(3, n, 2) for n in (2, 1)]
    parts.add(part(0, "a b", "c"), values, {})
    for item, value in zip(parts.items(), values, strict=True):
        np.testing.assert_array_equal(item.vectors, value)
        assert item.vectors.dtype == np.float16


def test_what_is_finished_ends_where_a_part_is_missing(parts: PartStore) -> None:
    assert parts.finished() == Finished()
    for number in range(3):
        parts.add(part(number, "a", "b"), arrays(1, 1), {"sentences": 2})
    assert parts.finished() == Finished(3, End(RecordPlace(0, 20), 1), 300, {"sentences": 6}, "int")
    shutil.rmtree(parts.folder / "part-00000-00000001")
    assert parts.finished().parts == 1


def test_state_is_that_after_a_part(parts: PartStore) -> None:
    state = {"cell": np.ones(3), "next_row": np.array(7)}
    parts.add(part(0, "a"), arrays(1), {}, NEW)
    parts.add(part(1, "b"), arrays(1), {}, NEW, state)
    assert parts.state(name_of_part(0, 0)) is None
    found = parts.state(name_of_part(0, 1))
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {
        "cell": [1, 1, 1],
        "next_row": 7,
    }


def test_words_are_learnt_again_from_where_they_were_forgotten(parts: PartStore) -> None:
    learnt = [
        KnownWords([word], np.full((1, 2), number, dtype=np.float32), afresh=word in "ac")
        for number, word in enumerate("abcd")
    ]
    for number, known in enumerate(learnt):
        parts.add(part(number, "a"), arrays(1), {}, known)
    assert [known.words for known in parts.learnt(2)] == [["a"], ["b"]]
    assert [known.words for known in parts.learnt(4)] == [["c"], ["d"]]
    assert [known.vectors.max() for known in parts.learnt(4)] == [2, 3]
    assert not list(parts.learnt(0))


def test_damaged_values_are_named(parts: PartStore) -> None:
    parts.add(part(0, "a"), arrays(1), {})
    (parts.folder / name_of_part(0, 0) / "values.npy").write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"values\.npy: is damaged"):
        list(parts.items())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_told_by_its_number() -> None:
    with pytest.raises(OSError, match="space") as error:
        save_array(Path("/dev/full"), (100_000,), [np.ones(100_000)])
    assert error.value.errno == errno.ENOSPC


# The index of sentences


def test_sentences_are_found_where_they_were_first_and_if_they_were_finished(
    tmp_path: Path,
) -> None:
    lone = "\ud800"
    seen = Seen(tmp_path, 0)
    seen.add([("a b", 0, 0), (lone, 0, 2)])
    seen.add([("a b", 1, 5), ("d", 1, 7)])
    finished = {"a b": (0, 0), lone: (0, 2)}
    asked = ["a b", "d", "e", lone, "\ud801", "a b"]
    assert seen.find(asked) == finished | {"d": (1, 7)}
    seen.close()
    again = Seen(tmp_path, 1)
    assert again.find(asked) == finished
    again.close()


def test_an_index_that_cannot_be_used_is_one_line_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentences.sqlite").write_bytes(b"no database" * 100)
    index = sqlite3.connect(tmp_path / "sentences.sqlite")
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **named: index)
    with pytest.raises(DiskError, match=r"sentences\.sqlite: cannot be used \(file is not a"):
        Seen(tmp_path, 0)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        index.execute("SELECT 1")
