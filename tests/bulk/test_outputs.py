"""Outputs and run folders: what is kept, replaced, resumed, and told."""

from __future__ import annotations

import errno
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from bulk.small_jobs import FORMATS, contents, crash, embed, parts_of, some_lines, write_text
from helpers import Heard, limited_files
from small_models import small_embedder

from elmokit.bulk import pipeline
from elmokit.bulk.inputs import open_input
from elmokit.bulk.pipeline import VectorSettings, embed_files
from elmokit.errors import DiskError, InputError, StoppedError
from elmokit.inference.embedder import Embedder
from elmokit.io.text_files import TextSettings
from elmokit.jobs.run_folder import RunFolder
from elmokit.vectors.files import open_vectors

pytestmark = pytest.mark.usefixtures("small_parts")


def test_an_existing_output_is_kept_unless_forced(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    embed(text, output)
    before = output.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        embed(text, output)
    for other in ({"seed": 1}, {"settings": VectorSettings(keep_sentences=False)}):
        with pytest.raises(InputError, match="is there already, and of another run"):
            embed(text, output, resume=True, **other)
    assert output.read_bytes() == before
    embed(text, seed=1, output=output, force=True)
    assert output.read_bytes() != before


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_run_is_told_that_it_is_finished(
    text: Path, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / f"out{suffix}"
    embed(text, output)
    before = output.read_bytes()
    monkeypatch.setattr(Embedder, "embed_as", None)
    summary = embed(text, output, resume=True)
    assert summary.already_finished
    assert summary.sentences == 80
    assert "already finished, with 80 sentences" in summary.describe()
    assert output.read_bytes() == before
    other = write_text(tmp_path, ["another text"])
    with pytest.raises(InputError, match="of another run"):
        embed(other, output, resume=True)


def test_what_is_read_is_never_replaced(text: Path, tmp_path: Path) -> None:
    output = text.rename(tmp_path / "both.jsonl")
    output.write_text('{"text": "a b"}\n')
    with pytest.raises(InputError, match="is the input too"):
        embed(output, output, force=True)
    assert output.read_text() == '{"text": "a b"}\n'
    parts_of(tmp_path / "out.h5").mkdir()
    inside = output.rename(parts_of(tmp_path / "out.h5") / "in.jsonl")
    for force in (False, True):
        with pytest.raises(InputError, match="is the input too"):
            embed(inside, tmp_path / "out.h5", force=force)
    assert inside.read_text() == '{"text": "a b"}\n'


def test_parts_of_a_forced_run_are_kept_when_the_run_before_is_resumed(
    text: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.npz"
    embed(text, output)
    crash(text, output, seed=1, force=True)
    left = sorted(parts_of(output).glob("part-*"))
    assert left
    with pytest.raises(InputError, match=r"is of another run \(model"):
        embed(text, output, resume=True)
    assert sorted(parts_of(output).glob("part-*")) == left
    assert not embed(text, output, seed=1, resume=True).already_finished


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "model"),
        ({"state": "warm"}, "state"),
        ({"settings": VectorSettings(layers="top")}, "layers"),
        ({"settings": VectorSettings(pool="max")}, "pool"),
        ({"settings": VectorSettings(dtype="float16")}, "dtype"),
        ({"text": "another text ."}, "input"),
    ],
)
def test_resuming_another_run_is_refused(
    text: Path, tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    output = tmp_path / "out.npz"
    crash(text, output)
    if contents := change.pop("text", None):
        text.write_text(contents)
    with pytest.raises(InputError, match=rf"is of another run \({name}\b"):
        embed(text, output, resume=True, **change)


def test_a_resumed_run_takes_the_number_of_threads_it_was_begun_with(
    text: Path, tmp_path: Path
) -> None:
    output, seen = tmp_path / "out.npz", set()
    before = torch.get_num_threads()
    crash(text, output, threads=before + 1)
    with pytest.raises(InputError, match=f"threads was {before + 1}, is {before}"):
        embed(text, output, resume=True, threads=before)
    seeing = Heard(lambda _: seen.add(torch.get_num_threads()))
    embed(text, output, resume=True, observer=seeing)
    assert seen == {before + 1}
    assert torch.get_num_threads() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("stage", ["embedding", "writing"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_its_parts_and_is_resumed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, stage: str
) -> None:
    monkeypatch.setattr(pipeline, "ITEMS_BETWEEN_REPORTS", 5)
    embed(text, tmp_path / "whole.h5")

    def send(heard: Heard) -> None:
        if len(heard.stages.get(stage, [])) > 4:
            signal.raise_signal(number)

    output, before = tmp_path / "out.h5", signal.signal(number, interrupt)
    try:
        with pytest.raises(StoppedError, match=r"is in .*out\.h5\.parts; .*with --resume"):
            embed(text, output, observer=Heard(send))
    finally:
        signal.signal(number, before)
    assert {path.name for path in tmp_path.iterdir()} == {text.name, "whole.h5", "out.h5.parts"}

    assert embed(text, output, resume=True).sentences == 80
    assert contents(output) == contents(tmp_path / "whole.h5")
    assert {path.name for path in tmp_path.iterdir()} == {text.name, "whole.h5", "out.h5"}


def test_a_full_disk_stops_cleanly_and_the_run_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    # The last part has one sentence, far longer than all before and than the index.
    text = write_text(tmp_path, [*some_lines(80), "bank " * 2000])
    with limited_files(60_000), pytest.raises(DiskError) as error:
        embed(text, output)
    last = len(list(tmp_path.glob("out.npz.parts/part-*")))
    assert last > 1
    assert str(error.value).startswith(
        f"{parts_of(output)}/part-00000-{last:08d}: cannot be written (["
    )
    assert "free some space" in str(error.value)
    assert str(error.value).endswith("to resume, run the same command with --resume")
    assert not output.exists()
    summary = embed(text, output, resume=True)
    assert summary.sentences == 81


@pytest.mark.parametrize("stage", ["embedding", "writing"])
def test_an_output_that_appears_meanwhile_is_not_replaced(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setattr(pipeline, "ITEMS_BETWEEN_REPORTS", 5)
    output = tmp_path / "out.npz"
    appear = Heard(lambda heard: stage in heard.stages and output.write_text("of another"))
    with pytest.raises(InputError, match=r"has appeared .* move the other output away"):
        embed(text, output, observer=appear)
    with pytest.raises(InputError, match=r"has appeared .* move the other output away"):
        embed(text, output, resume=True)
    assert output.read_text() == "of another"
    assert [path.name for path in tmp_path.glob(".tmp-*")] == []
    output.unlink()
    assert embed(text, output, resume=True).sentences == 80


def test_a_forced_run_replaces_what_was_there_also_when_it_is_resumed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.npz"
    output.write_text("of another")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_vectors", interrupt)
        with pytest.raises(StoppedError, match="--resume"):
            embed(text, output, force=True)
    assert output.read_text() == "of another"
    assert embed(text, output, resume=True).sentences == 80
    with open_vectors(output) as found:
        assert len(found) == 80


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_parts_are_removed_says_that_the_output_is_complete(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.npz"
    monkeypatch.setattr("elmokit.io.files.remove_leftovers", interrupt)
    with pytest.raises(StoppedError, match=r"stopped; .*out\.npz is complete$"):
        embed(text, output)
    monkeypatch.undo()
    assert embed(text, output, resume=True).already_finished
    assert [path.name for path in tmp_path.glob(".tmp-*")] == []


def test_an_output_that_another_process_has_just_finished_is_kept(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, claimed = tmp_path / "out.npz", RunFolder.claimed

    def finished_first(self: RunFolder) -> Any:
        output.write_text("of another")
        return claimed(self)

    monkeypatch.setattr(RunFolder, "claimed", finished_first)
    for resume in (False, True):
        with pytest.raises(InputError, match=r"out\.npz: is (there|whole) already"):
            embed(text, output, resume=resume)
        assert output.read_text() == "of another"
        assert not parts_of(output).exists()
        output.unlink()


def test_a_text_that_changes_meanwhile_is_an_error(text: Path, tmp_path: Path) -> None:
    output, size = tmp_path / "out.npz", text.stat().st_size

    def change(heard: Heard) -> None:
        if heard.stages["embedding"][-1][0] == size:
            text.write_text("another text .")

    with pytest.raises(InputError, match=r"text\.txt: changed while it was read; .*--force"):
        embed(text, output, observer=Heard(change))
    assert not output.exists()
    assert parts_of(output).exists()


def test_ctrl_c_before_the_first_part_does_not_speak_of_parts(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.LocalRun, "compute", interrupt)
    with pytest.raises(StoppedError, match=r"stopped; nothing was done yet"):
        embed(text, tmp_path / "out.npz")
    assert not parts_of(tmp_path / "out.npz").exists()


def test_parts_of_a_link_are_kept_beside_what_it_points_to(text: Path, tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "out.npz"
    elsewhere.mkdir()
    link.symlink_to(elsewhere / "real.npz")
    crash(text, link)
    (elsewhere / ".tmp-01234567-real.npz").write_text("left by a kill")
    assert embed(text, link, resume=True).sentences == 80
    assert link.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["real.npz"]
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "out.npz", "elsewhere"}


def test_a_folder_that_may_not_be_searched_is_one_line(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    source = open_input([str(text)], TextSettings())
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(DiskError, match=r"out\.npz: cannot be written .*you have access to"):
        embed_files(small_embedder(), source, tmp_path / "out.npz")
