from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from elmokit.bundled import known_versions
from elmokit.errors import DiskError, FormatError, InputError, StoppedError
from elmokit.jobs.run_folder import RunFolder, check_same, difference

IDENTITY = {"model": "a", "state": ("zero", 2)}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder.beside(tmp_path / "out.h5")
    run.folder.mkdir()
    run.begin(IDENTITY, resume=False, force=False)
    return run


def work(run: RunFolder) -> None:
    (run.folder / "part").mkdir()


def test_an_unfinished_run_is_neither_continued_nor_lost_unasked(run: RunFolder) -> None:
    work(run)
    with pytest.raises(InputError, match=r"out\.h5\.parts: .*\(--resume\)"):
        run.begin(IDENTITY, resume=False, force=False)
    assert run.begin(IDENTITY, resume=True, force=False)
    assert not run.begin(IDENTITY, resume=False, force=True)
    assert not run.holds_work()


def test_one_difference_to_another_run_is_named(run: RunFolder) -> None:
    work(run)
    for other, differing in (
        (IDENTITY | {"model": "b"}, "model was a, is b"),
        (IDENTITY | {"state": ("warm", 2)}, "state was zero, 2, is warm, 2"),
    ):
        with pytest.raises(InputError, match=rf"out\.h5\.parts: .*\({differing}\); resume with"):
            run.begin(other, resume=True, force=False)
    assert not run.begin(other, resume=True, force=True)


def test_what_may_differ_does_not_count() -> None:
    before = {"settings": {"logging": {"every": 1}, "steps": 2}, "progress": 7}
    check_same(before, {"settings": {"steps": 2}}, Path("run"), "", {"settings.logging"})
    with pytest.raises(InputError, match=r"run: .*settings\.steps was 2, is not there"):
        check_same(before, {"settings": {}}, Path("run"), "", {"settings.logging", "settings.step"})


def test_another_version_is_refused(run: RunFolder) -> None:
    work(run)
    record = run.folder / "run.json"
    record.write_text(record.read_text().replace('"version": 1', '"version": 0'))
    with pytest.raises(FormatError, match="another version"):
        run.begin(IDENTITY, resume=True, force=False)


def test_leftovers_of_a_killed_process_are_removed(run: RunFolder, tmp_path: Path) -> None:
    kept = tmp_path / ".tmp-01234567-another-out.h5"
    kept.write_text("of another output")
    work(run)
    for name in ("out.h5", "out.h5.parts"):
        (tmp_path / f".tmp-01234567-{name}").write_text("left over")
    (run.folder / ".tmp-01234567-part").mkdir()
    with run.claimed():
        assert run.begin(IDENTITY, resume=True, force=False)
    assert {path.name for path in tmp_path.iterdir()} == {"out.h5.parts", kept.name}
    assert not list(run.folder.glob(".tmp-*"))
    run.remove()
    assert list(tmp_path.iterdir()) == [kept]


def test_a_run_that_was_only_begun_is_begun_again(run: RunFolder) -> None:
    (run.folder / "sentences.sqlite").touch()
    assert not run.begin(IDENTITY, resume=False, force=False)
    (run.folder / "run.json").unlink()
    work(run)  # no record says what it is of
    assert not run.begin(IDENTITY, resume=True, force=False)
    assert [path.name for path in run.folder.iterdir()] == ["run.json"]


def test_one_process_at_a_time(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.beside(tmp_path / "out.h5")
    with (
        run.claimed(),
        pytest.raises(InputError, match=r"out\.h5\.parts: another process is at work"),
        other.claimed(),
    ):
        pass


def test_a_run_that_nothing_came_of_leaves_nothing(tmp_path: Path) -> None:
    run = RunFolder.beside(tmp_path / "out.h5")
    for came in (False, True):
        with run.claimed():
            run.begin(IDENTITY, resume=False, force=False)
            if came:
                work(run)
        assert run.folder.exists() == came


def test_a_folder_that_is_what_is_made_loses_but_its_lock(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "task")
    with run.claimed():
        assert list(run.folder.iterdir())
    assert not run.folder.exists()
    with run.claimed():
        work(run)
    assert [path.name for path in run.folder.iterdir()] == ["part"]


def test_a_folder_that_another_process_has_made_since_is_left_alone(tmp_path: Path) -> None:
    first, second = RunFolder.beside(tmp_path / "out.h5"), RunFolder.beside(tmp_path / "out.h5")
    with first.claimed():
        first.begin(IDENTITY, resume=False, force=False)
        first.publish()
        second.folder.mkdir()
        (second.folder / ".lock").touch()
    assert second.folder.exists()


def test_an_interruption_says_how_to_resume(tmp_path: Path) -> None:
    run = RunFolder.beside(tmp_path / "out.h5")
    with pytest.raises(StoppedError, match="nothing was done yet"), run.claimed():
        raise KeyboardInterrupt
    with run.claimed():
        run.begin(IDENTITY, resume=False, force=False)
        work(run)
    with pytest.raises(StoppedError, match=r"in .*out\.h5\.parts; .*--resume"), run.claimed():
        raise KeyboardInterrupt
    with pytest.raises(DiskError, match=r"^full; .*--resume"), run.claimed():
        raise DiskError("full") from OSError()


def test_an_output_that_was_not_there_when_the_run_began_is_not_replaced(run: RunFolder) -> None:
    assert run.output is not None
    run.check_free()
    run.output.write_text("of another")
    with pytest.raises(InputError, match=r"out\.h5: has appeared since"):
        run.check_free()
    run.begin(IDENTITY, resume=False, force=True)
    run.check_free()


@pytest.mark.parametrize("before", ["nothing", "file", "folder"])
def test_publishing_leaves_a_folder_that_is_complete_and_nothing_else(
    run: RunFolder, tmp_path: Path, before: str
) -> None:
    assert run.output is not None
    work(run)
    if before == "file":
        run.output.write_text("old")
    if before == "folder":
        run.output.mkdir()
        (run.output / "old").write_text("old")
    (run.folder / "part" / "new").touch()
    run.publish(run.folder / "part")
    assert [path.name for path in run.output.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [run.output]


def test_failed_publishing_puts_the_old_folder_back(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.output is not None
    work(run)
    run.output.mkdir()
    (run.output / "old").write_text("old")
    rename = os.rename

    def failing(source: Path, target: Path) -> None:
        if source == run.folder / "part":
            raise OSError(errno.ENOSPC, "full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(DiskError, match="free some space"):
        run.publish(run.folder / "part")
    assert (run.output / "old").read_text() == "old"


def test_a_folder_around_the_user_is_not_replaced(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.output is not None
    (run.output / "inside").mkdir(parents=True)
    monkeypatch.chdir(run.output / "inside")
    with pytest.raises(InputError, match="is around the current"):
        run.check_output(resume=False, force=True)


OLD, NEW = list(known_versions())[:2]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("cpu", "cuda", "was cpu, is cuda"),
        (["average", None], ["top", None], "was average, is top"),
        ({"a": 1}, {}, "a was 1, is not there"),
        ({"model": OLD}, {"model": NEW}, "model was english-small 1, is english-small 2"),
        ({"model": OLD}, {"model": "f" * 64}, "model is another"),
        ({"inputs": [{"bytes": 3}]}, {"inputs": [{"bytes": 4}]}, "inputs.1.bytes was 3, is 4"),
    ],
)
def test_what_differs_is_named_with_both_values(before: Any, now: Any, said: str) -> None:
    assert difference(before, now) == said


def test_long_values_are_told_apart_by_their_ends() -> None:
    folder = "folder/" * 30
    said = difference(folder + "a.txt", folder + "b.txt")
    assert "a.txt, is …" in said
    assert said.endswith("b.txt")
    assert len(said) < 150
