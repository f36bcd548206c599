from __future__ import annotations

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

from elmokit.bulk.inputs import Record, RecordPlace
from elmokit.bulk.spool import End, Finished, Part, Spool, save_array
from elmokit.errors import FormatError, InputError
from elmokit.inference.token_vectors import KnownWords

NEW = KnownWords(["a"], np.ones((1, 2), dtype=np.float32))
FACTS = {"model": "a", "state": ("zero", 2)}


def part(number: int, *sentences: str) -> Part:
    records = [
        Record(sentence.split(), RecordPlace(0, number * 10 + row), row)
        for row, sentence in enumerate(sentences)
    ]
    return Part(number, records, End(records[-1].place, 1), 100 * number)


def arrays(*lengths: int) -> list[np.ndarray]:
    return [np.full((length, 2), length, dtype=np.float32) for length in lengths]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    spool.begin(resume=False, force=False)
    return spool


def test_parts_come_back_in_order(spool: Spool) -> None:
    spool.write(part(0, "a b", "", "c"), arrays(2, 0, 1), {"sentences": 3}, NEW)
    spool.write(part(1, "d e f"), arrays(3), {"sentences": 4}, NEW)
    items = list(spool.items(2))
    assert [item.words for item in items] == [["a", "b"], [], ["c"], ["d", "e", "f"]]
    assert [item.id for item in items] == [0, 1, 2, 0]
    assert [item.vectors.shape for item in items] == [(2, 2), (0, 2), (1, 2), (3, 2)]
    assert [item.vectors.max(initial=0) for item in items] == [2, 0, 1, 3]


def test_all_layers_are_joined_along_their_words(spool: Spool) -> None:
    values = [np.arange(3 * n * 2, dtype=np.float16).reshape(3, n, 2) for n in (2, 1)]
    spool.write(part(0, "a b", "c"), values, {}, NEW)
    for item, value in zip(spool.items(1), values, strict=True):
        np.testing.assert_array_equal(item.vectors, value)
        assert item.vectors.dtype == np.float16


def test_pooled_arrays_are_stacked(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out.h5", FACTS, pooled=True)
    spool.folder.mkdir()
    spool.begin(resume=False, force=False)
    spool.write(part(0, "a b", ""), [np.ones(2), np.zeros(2)], {}, NEW)
    assert [item.vectors.tolist() for item in spool.items(1)] == [[1, 1], [0, 0]]


def test_resuming_finds_what_is_finished(spool: Spool, tmp_path: Path) -> None:
    spool.write(part(0, "a"), arrays(1), {"sentences": 1}, NEW)
    spool.write(part(1, "b"), arrays(1), {"sentences": 2}, NEW, {"cell": np.ones(3)})
    again = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    assert again.begin(resume=True, force=False) == Finished(
        2, End(RecordPlace(0, 10), 1), 100, {"sentences": 2}
    )
    state = again.state(1)
    assert state is not None
    np.testing.assert_array_equal(state["cell"], np.ones(3))
    assert again.state(0) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_told_by_its_number() -> None:
    with pytest.raises(OSError, match="space") as error:
        save_array(Path("/dev/full"), (100_000,), [np.ones(100_000)])
    assert error.value.errno == errno.ENOSPC


def test_a_missing_part_ends_what_is_finished(spool: Spool, tmp_path: Path) -> None:
    for number in range(3):
        spool.write(part(number, "a"), arrays(1), {"sentences": number + 1}, NEW)
    shutil.rmtree(spool.folder / "part-00000001")
    again = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    assert again.begin(resume=True, force=False).parts == 1


def test_an_unfinished_run_is_neither_continued_nor_lost_unasked(spool: Spool) -> None:
    spool.write(part(0, "a"), arrays(1), {}, NEW)
    with pytest.raises(InputError, match=r"unfinished run; go on with it \(--resume\)"):
        spool.begin(resume=False, force=False)
    assert spool.begin(resume=False, force=True) == Finished()
    assert not (spool.folder / "part-00000000").exists()


def test_another_model_is_named(spool: Spool, tmp_path: Path) -> None:
    spool.write(part(0, "a"), arrays(1), {}, NEW)
    for facts, name, differing in (
        (FACTS | {"model": "b"}, "model", "was a, is b"),
        (FACTS | {"state": ("warm", 2)}, "state", "was zero, 2, is warm, 2"),
    ):
        other = Spool(tmp_path / "out.h5", facts, pooled=False)
        with pytest.raises(InputError, match=f"was begun with other {name} ") as caught:
            other.begin(resume=True, force=False)
        assert f"({differing}); resume with the same" in str(caught.value)
    assert other.begin(resume=True, force=True) == Finished()


def test_another_version_is_refused(spool: Spool) -> None:
    spool.write(part(0, "a"), arrays(1), {}, NEW)
    record = spool.folder / "run.json"
    record.write_text(record.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(FormatError, match="another version"):
        spool.begin(resume=True, force=False)


def test_damaged_values_are_named(spool: Spool) -> None:
    spool.write(part(0, "a"), arrays(1), {}, NEW)
    (spool.folder / "part-00000000" / "values.npy").write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"values\.npy: is damaged"):
        list(spool.items(1))


def test_leftovers_of_a_killed_process_are_removed(spool: Spool, tmp_path: Path) -> None:
    kept = tmp_path / ".tmp-01234567-another-out.h5"
    kept.write_text("of another output")
    spool.write(part(0, "a"), arrays(1), {}, NEW)
    for name in ("out.h5", "out.h5.parts"):
        (tmp_path / f".tmp-01234567-{name}").write_text("left over")
    (spool.folder / ".tmp-01234567-part-00000001").mkdir()
    assert spool.begin(resume=True, force=False).parts == 1
    assert {path.name for path in tmp_path.iterdir()} == {"out.h5.parts", kept.name}
    assert not list(spool.folder.glob(".tmp-*"))
    spool.remove()
    assert list(tmp_path.iterdir()) == [kept]


def test_a_run_that_was_only_begun_is_begun_again(spool: Spool) -> None:
    (spool.folder / "sentences.sqlite").touch()
    assert spool.begin(resume=False, force=False) == Finished()
    (spool.folder / "run.json").unlink()
    (spool.folder / "part-00000000").mkdir()  # no record says what it is of
    assert spool.begin(resume=True, force=False) == Finished()
    assert [path.name for path in spool.folder.iterdir()] == ["run.json"]


def test_one_process_at_a_time(spool: Spool, tmp_path: Path) -> None:
    other = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    with (
        spool.claimed(),
        pytest.raises(InputError, match=r"out\.h5\.parts: another process is at work"),
        other.claimed(),
    ):
        pass


def test_words_are_learnt_again_from_where_they_were_forgotten(spool: Spool) -> None:
    learnt = [
        KnownWords([word], np.full((1, 2), number, dtype=np.float32), afresh=word in "ac")
        for number, word in enumerate("abcd")
    ]
    for number, known in enumerate(learnt):
        spool.write(part(number, "a"), arrays(1), {}, known)
    assert [known.words for known in spool.learnt(2)] == [["a"], ["b"]]
    assert [known.words for known in spool.learnt(4)] == [["c"], ["d"]]
    assert [known.vectors.max() for known in spool.learnt(4)] == [2, 3]
    assert not list(spool.learnt(0))


def test_a_run_that_nothing_came_of_leaves_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    with spool.claimed():
        spool.begin(resume=False, force=False)
    assert not list(tmp_path.iterdir())
    with spool.claimed():
        spool.begin(resume=False, force=False)
        spool.write(part(0, "a"), arrays(1), {}, NEW)
    assert spool.folder.exists()


def test_a_folder_that_another_process_has_made_since_is_left_alone(tmp_path: Path) -> None:
    first = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    second = Spool(tmp_path / "out.h5", FACTS, pooled=False)
    with first.claimed():
        first.begin(resume=False, force=False)
        first.remove()
        second.folder.mkdir()
        (second.folder / "lock").touch()
    assert second.folder.exists()
