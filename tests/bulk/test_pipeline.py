from __future__ import annotations

import errno
import json
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import assert_agree, assert_close
from small_models import small_embedder

from elmokit.bulk import pipeline
from elmokit.bulk import pipeline as job
from elmokit.bulk.compute import BulkProgress, Computer, Summary
from elmokit.bulk.inputs import Input, open_input
from elmokit.bulk.pipeline import Part, SentenceParts, VectorSettings, embed_files
from elmokit.errors import DiskError, InputError, StoppedError
from elmokit.formats.mixes import write_mix
from elmokit.inference.embedder import Embedder
from elmokit.inference.lookup import CachedEmbedder
from elmokit.io.text_files import TextSettings
from elmokit.jobs.run_folder import RunFolder
from elmokit.model.scalar_mix import ScalarMix
from elmokit.vectors.files import open_vectors
from elmokit.vectors.hdf5 import DeferredErrorFile


def parts_of(output: Path) -> Path:
    return RunFolder.beside(output).folder


FORMATS = [".h5", ".npz", ".jsonl", ".parquet"]
WORDS = ["the", "a", "bank", "river", "play", "of", "light", "spring", "crane", "한국어", "naïve"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few sentences make many parts."""
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", 60)


def some_lines(count: int, seed: int = 0, blank: float = 0.1) -> list[str]:
    """Sentences of up to nine words, some of them blank, some twice."""
    draw = random.Random(seed)
    lines: list[str] = []
    for _ in range(count):
        if lines and draw.random() < 0.2:
            lines.append(draw.choice(lines))
        else:
            length = 0 if draw.random() < blank else draw.randint(1, 9)
            lines.append(" ".join(draw.choices(WORDS, k=length)))
    return lines


def write_text(folder: Path, lines: list[str], name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def source_of(path: Path, **settings: Any) -> Input:
    return open_input([str(path)], TextSettings(**settings))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path, some_lines(80))


def contents(path: Path) -> list[tuple[str | None, bytes]]:
    with open_vectors(path) as found:
        return [(item.sentence, item.vectors.tobytes()) for item in found]


@pytest.mark.parametrize("suffix", FORMATS)
def test_line_n_is_vector_n(text: Path, tmp_path: Path, suffix: str) -> None:
    embedder, lines = small_embedder(), text.read_text(encoding="utf-8").split("\n")[:-1]
    summary = embed_files(embedder, source_of(text), tmp_path / f"out{suffix}")
    expected = embedder.embed([line.split() for line in lines])
    with open_vectors(tmp_path / f"out{suffix}") as found:
        assert [item.sentence for item in found] == lines
        assert_agree([item.vectors for item in found], expected)
    assert summary.sentences == 80
    assert summary.words == sum(len(line.split()) for line in lines)
    assert summary.blank == sum(not line for line in lines)
    assert not parts_of(tmp_path / f"out{suffix}").exists()


@pytest.mark.parametrize("pool", ["none", "mean", "max"])
@pytest.mark.parametrize("layers", ["average", "top", "0", "all"])
def test_layers_and_pools_are_those_of_the_embedder(
    text: Path, tmp_path: Path, layers: str, pool: Any
) -> None:
    embedder = small_embedder()
    embed_files(
        embedder, source_of(text), tmp_path / "out.npz", VectorSettings(layers=layers, pool=pool)
    )
    lines = [line.split() for line in text.read_text(encoding="utf-8").split("\n")[:-1]]
    every = embedder.embed_layers(lines)
    pick = {"average": lambda a: a.mean(0), "top": lambda a: a[-1], "0": lambda a: a[0]}
    with open_vectors(tmp_path / "out.npz") as found:
        for item, layer_vectors in zip(found, every, strict=True):
            wanted = pick.get(layers, lambda a: a)(layer_vectors)
            if pool != "none" and not wanted.shape[-2]:
                wanted = np.zeros(wanted.shape[:-2] + wanted.shape[-1:])
            elif pool != "none":
                wanted = wanted.mean(-2) if pool == "mean" else wanted.max(-2)
            assert_close(item.vectors, wanted)


def test_a_trained_mix_is_read_from_its_file(text: Path, tmp_path: Path) -> None:
    embedder, mix = small_embedder(), ScalarMix(3)
    with torch.no_grad():
        for value, parameter in enumerate(mix.parameters()):
            parameter.add_(0.3 * (value + 1))
    write_mix(mix, tmp_path / "mix.json")
    settings = VectorSettings(layers="mix", mix=str(tmp_path / "mix.json"))
    embed_files(embedder, source_of(text), tmp_path / "out.npz", settings)
    lines = [line.split() for line in text.read_text(encoding="utf-8").split("\n")[:-1]]
    with open_vectors(tmp_path / "out.npz") as found:
        assert_agree([item.vectors for item in found], embedder.embed(lines, mix))


class Crash(Exception):
    """Stands for a power cut."""


def crash_at(number: int, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Fail at a part, before or after it is written."""
    write = SentenceParts.add

    def failing(self: SentenceParts, part: Part, *arguments: Any) -> None:
        if part.number == number and not after:
            raise Crash
        write(self, part, *arguments)
        if part.number == number:
            raise Crash

    monkeypatch.setattr(SentenceParts, "add", failing)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_resumed_run_gives_the_same_file(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    after: bool,
    state: Any,
) -> None:
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    embed_files(small_embedder(state=state), source_of(text), whole)
    for number in (0, 2, 5):
        with monkeypatch.context() as patch:
            crash_at(number, patch, after=after)
            with pytest.raises(Crash):
                embed_files(small_embedder(state=state), source_of(text), cut, resume=True)
        assert not cut.exists()
    summary = embed_files(small_embedder(state=state), source_of(text), cut, resume=True)
    assert summary.sentences == 80
    assert contents(cut) == contents(whole)
    if suffix == ".parquet":
        assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.filterwarnings("ignore:unusual word")
def test_totals_of_a_resumed_run_are_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = write_text(tmp_path, [*some_lines(60), "w" * 80, "w" * 80 + " a"])
    whole = embed_files(small_embedder(), source_of(text), tmp_path / "whole.npz")
    crash_at(3, monkeypatch, after=True)
    with pytest.raises(Crash):
        embed_files(small_embedder(), source_of(text), tmp_path / "cut.npz")
    monkeypatch.undo()
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", 60)
    cut = embed_files(small_embedder(), source_of(text), tmp_path / "cut.npz", resume=True)
    for name in ("sentences", "words", "blank", "duplicates", "unusual_words"):
        assert getattr(cut, name) == getattr(whole, name), name
    assert whole.unusual_words


def test_a_line_of_many_sentences_is_cut_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = write_text(tmp_path, ["The bank is here. It rains. " * 30, "", "One more."])
    settings = {"split": True, "tokenizer": "default"}
    embed_files(small_embedder(), source_of(text, **settings), tmp_path / "whole.npz")
    with monkeypatch.context() as patch:
        crash_at(2, patch, after=True)
        with pytest.raises(Crash):
            embed_files(small_embedder(), source_of(text, **settings), tmp_path / "cut.npz")
    summary = embed_files(
        small_embedder(), source_of(text, **settings), tmp_path / "cut.npz", resume=True
    )
    assert summary.sentences == 61
    assert contents(tmp_path / "cut.npz") == contents(tmp_path / "whole.npz")


def test_each_distinct_sentence_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, computed = small_embedder(), []
    embed_as = Embedder.embed_as

    def counting(self: Embedder, sentences: Any, *arguments: Any, **named: Any) -> Any:
        computed.extend(map(tuple, sentences))
        return embed_as(self, sentences, *arguments, **named)

    monkeypatch.setattr(Embedder, "embed_as", counting)
    lines = some_lines(50, blank=0) * 3
    summary = embed_files(embedder, source_of(write_text(tmp_path, lines)), tmp_path / "out.npz")
    assert len(computed) == len(set(computed)) == len(set(lines))
    assert summary.duplicates == len(lines) - len(set(lines))
    by_sentence: dict[str | None, set[bytes]] = {}
    for sentence, values in contents(tmp_path / "out.npz"):
        by_sentence.setdefault(sentence, set()).add(values)
    assert all(len(values) == 1 for values in by_sentence.values())


@pytest.mark.parametrize("tokens", [8, 30, 60, 10_000])
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_long_sentences_are_counted_as_often_as_the_text_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, state: Any
) -> None:
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", tokens)
    monkeypatch.setattr(job, "Computer", partial(Computer, longest=5))
    long, short = "a b c d e f", "a b c d e"
    text = write_text(tmp_path, [long, short, long, "a", "", long, f"{long} g", short, long])
    embedder = small_embedder(state=state)
    summary = embed_files(embedder, source_of(text), tmp_path / "out.npz")
    assert summary.long_sentences == 5
    assert "5 long sentences (over 5 words) read in pieces" in summary.describe()
    assert summary.to_dict()["longest_whole"] == 5
    assert summary.duplicates == (0 if state == "carry" else 4)


def test_sizes_of_parts_and_threads_change_nothing(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    before = torch.get_num_threads()
    try:
        for number, (tokens, threads) in enumerate([(40, 1), (500, 2), (10_000, 1)]):
            monkeypatch.setattr(pipeline, "TOKENS_PER_PART", tokens)
            torch.set_num_threads(threads)
            output = tmp_path / f"{number}.npz"
            embed_files(small_embedder(), source_of(text), output)
            with open_vectors(output) as found:
                results.append([item.vectors for item in found])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert_agree(other, results[0])


def test_memory_of_a_part_bounds_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BYTES_PER_PART", 10 * 12 * 4)
    assert pipeline.tokens_per_part(Computer(small_embedder())) == 10


def test_an_existing_output_is_kept_unless_forced(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    embed_files(small_embedder(), source_of(text), output)
    before = output.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        embed_files(small_embedder(), source_of(text), output)
    with pytest.raises(InputError, match="is there already, and of another run"):
        embed_files(small_embedder(seed=1), source_of(text), output, resume=True)
    assert output.read_bytes() == before
    embed_files(small_embedder(seed=1), source_of(text), output, force=True)
    assert output.read_bytes() != before


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_run_is_told_that_it_is_finished(
    text: Path, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / f"out{suffix}"
    embed_files(small_embedder(), source_of(text), output)
    before = output.read_bytes()
    monkeypatch.setattr(Embedder, "embed_as", None)
    summary = embed_files(small_embedder(), source_of(text), output, resume=True)
    assert summary.already_finished
    assert summary.sentences == 80
    assert "already finished, with 80 sentences" in summary.describe()
    assert output.read_bytes() == before
    other = write_text(tmp_path, ["another text"])
    with pytest.raises(InputError, match="of another run"):
        embed_files(small_embedder(), source_of(other), output, resume=True)


def test_what_is_read_is_never_replaced(text: Path, tmp_path: Path) -> None:
    output = text.rename(tmp_path / "both.jsonl")
    output.write_text('{"text": "a b"}\n')
    with pytest.raises(InputError, match="is the input too"):
        embed_files(small_embedder(), source_of(output), output, force=True)
    assert output.read_text() == '{"text": "a b"}\n'


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
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], name: str
) -> None:
    output = tmp_path / "out.npz"
    with monkeypatch.context() as patch:
        crash_at(1, patch, after=True)
        with pytest.raises(Crash):
            embed_files(small_embedder(), source_of(text), output)
    if "text" in change:
        text.write_text(change["text"])
    embedder = small_embedder(change.get("seed", 0), state=change.get("state", "zero"))
    with pytest.raises(InputError, match=rf"is of another run \({name}\b"):
        embed_files(embedder, source_of(text), output, change.get("settings"), resume=True)


def test_a_resumed_run_takes_the_number_of_threads_it_was_begun_with(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, seen = tmp_path / "out.npz", set()
    before = torch.get_num_threads()
    with monkeypatch.context() as patch:
        crash_at(1, patch, after=True)
        with pytest.raises(Crash):
            embed_files(small_embedder(), source_of(text), output, threads=before + 1)
    with pytest.raises(InputError, match=f"threads was {before + 1}, is {before}"):
        embed_files(small_embedder(), source_of(text), output, resume=True, threads=before)
    embed_files(
        small_embedder(),
        source_of(text),
        output,
        resume=True,
        report=lambda _: seen.add(torch.get_num_threads()),
    )
    assert seen == {before + 1}
    assert torch.get_num_threads() == before


def test_interruption_says_how_to_go_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(progress: BulkProgress) -> None:
        if progress.sentences > 30:
            raise KeyboardInterrupt

    output = tmp_path / "out.npz"
    with pytest.raises(StoppedError, match=r"is in .*out\.npz\.parts; .*with --resume"):
        embed_files(small_embedder(), source_of(text), output, report=stop)
    assert not output.exists()
    assert embed_files(small_embedder(), source_of(text), output, resume=True).sentences == 80


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("call", [1, 40, -2])
def test_interrupted_assembly_keeps_the_parts_and_goes_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, call: int
) -> None:
    write, calls, interruption = DeferredErrorFile.write, [0], [0]

    def interrupted(self: DeferredErrorFile, data: Any) -> int:
        calls[0] += 1
        if calls[0] == interruption[0]:
            signal.raise_signal(number)
        return write(self, data)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeferredErrorFile, "write", interrupted)
    embed_files(small_embedder(), source_of(text), tmp_path / "whole.h5")
    interruption[0] = calls[0] + call if call < 0 else call  # the last ones close the file
    calls[0] = 0
    output, before = tmp_path / "out.h5", signal.signal(number, stop)
    try:
        with pytest.raises(StoppedError, match=r"is in .*out\.h5\.parts; .*with --resume"):
            embed_files(small_embedder(), source_of(text), output)
    finally:
        signal.signal(number, before)
    assert {path.name for path in tmp_path.iterdir()} == {text.name, "whole.h5", "out.h5.parts"}

    interruption[0] = 0
    assert embed_files(small_embedder(), source_of(text), output, resume=True).sentences == 80
    assert contents(output) == contents(tmp_path / "whole.h5")
    assert {path.name for path in tmp_path.iterdir()} == {text.name, "whole.h5", "out.h5"}


def test_what_a_kill_left_of_the_parts_is_removed_by_the_same_command(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.npz"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed before it could
        embed_files(small_embedder(), source_of(text), output)
    assert len(list(tmp_path.glob(".tmp-*-out.npz.parts"))) == 1
    before = output.read_bytes()
    assert embed_files(small_embedder(), source_of(text), output, resume=True).already_finished
    assert {path.name for path in tmp_path.iterdir()} == {text.name, output.name}
    assert output.read_bytes() == before


@pytest.mark.parametrize("suffix", FORMATS)
def test_sentences_of_as_many_words_as_layers_are_not_taken_for_words(
    tmp_path: Path, suffix: str
) -> None:
    text = write_text(tmp_path, ["a river bank", "the light play"])
    output = tmp_path / f"out{suffix}"
    settings = VectorSettings(layers="all", pool="mean")
    embed_files(small_embedder(), source_of(text), output, settings)
    with open_vectors(output) as found:
        assert found[0].vectors.shape == (3, 12)
    with pytest.raises(InputError, match="a vector for each sentence"):
        CachedEmbedder(output)


def test_progress_tells_sentences_words_and_time(text: Path, tmp_path: Path) -> None:
    told: list[BulkProgress] = []
    summary = embed_files(
        small_embedder(), source_of(text), tmp_path / "out.npz", report=told.append
    )
    assert [one.sentences for one in told] == sorted(one.sentences for one in told)
    assert [one.position for one in told] == sorted(one.position for one in told)
    assert 0 < told[0].sentences < summary.sentences
    assert told[-1].sentences == summary.sentences
    assert told[-1].words == summary.words
    assert told[-1].position == told[-1].size == text.stat().st_size
    assert told[-1].seconds_left == 0
    assert 0 < told[-1].known_words < 1
    assert summary.peak_memory_bytes is not None
    assert summary.peak_memory_bytes > 10_000_000


def test_progress_is_told_before_the_first_part_is_done(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", 1 << 15)
    monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 10)
    told: list[BulkProgress] = []
    embed_files(small_embedder(), source_of(text), tmp_path / "out.npz", report=told.append)
    assert len(told) > 5
    assert told[0].sentences == 10
    assert 0 < told[0].position < text.stat().st_size / 2
    assert told[0].seconds_left is not None


def test_a_full_disk_stops_cleanly_and_the_run_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    # The last part has one sentence, far longer than all before and than the index.
    text = write_text(tmp_path, [*some_lines(80), "bank " * 2000])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(DiskError) as error:
            embed_files(small_embedder(), source_of(text), output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    last = len(list(tmp_path.glob("out.npz.parts/part-*")))
    assert last > 1
    assert str(error.value).startswith(
        f"{parts_of(output)}/part-00000-{last:08d}: cannot be written (["
    )
    assert "free some space" in str(error.value)
    assert str(error.value).endswith("to resume, run the same command with --resume")
    assert not output.exists()
    summary = embed_files(small_embedder(), source_of(text), output, resume=True)
    assert summary.sentences == 81


def at_the_end(text: Path, then: Callable[[], object]) -> Callable[[BulkProgress], None]:
    """Do something when all of a text is read."""
    size = text.stat().st_size
    return lambda progress: then() if progress.position == size else None  # type: ignore[func-returns-value]


def test_an_output_that_appears_meanwhile_is_not_replaced(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    appear = at_the_end(text, lambda: output.write_text("of another"))
    with pytest.raises(InputError, match=r"has appeared .* move the other output away"):
        embed_files(small_embedder(), source_of(text), output, report=appear)
    with pytest.raises(InputError, match=r"has appeared .* move the other output away"):
        embed_files(small_embedder(), source_of(text), output, resume=True)
    assert output.read_text() == "of another"
    output.unlink()
    assert embed_files(small_embedder(), source_of(text), output, resume=True).sentences == 80


def test_an_output_that_appears_while_it_is_assembled_is_not_replaced(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "ITEMS_BETWEEN_REPORTS", 5)
    output = tmp_path / "out.npz"

    def appear(progress: BulkProgress) -> None:
        if progress.written == 5:
            output.write_text("of another")

    with pytest.raises(InputError, match=r"has appeared .* move the other output away"):
        embed_files(small_embedder(), source_of(text), output, report=appear)
    assert output.read_text() == "of another"
    assert [path.name for path in tmp_path.glob(".tmp-*")] == []


def test_a_forced_run_replaces_what_was_there_also_when_it_is_resumed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.npz"
    output.write_text("of another")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_vectors", interrupt)
        with pytest.raises(StoppedError, match="--resume"):
            embed_files(small_embedder(), source_of(text), output, force=True)
    assert output.read_text() == "of another"
    assert embed_files(small_embedder(), source_of(text), output, resume=True).sentences == 80
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
        embed_files(small_embedder(), source_of(text), output)
    monkeypatch.undo()
    assert embed_files(small_embedder(), source_of(text), output, resume=True).already_finished
    assert [path.name for path in tmp_path.glob(".tmp-*")] == []


def test_an_output_written_otherwise_is_of_another_run(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.h5"
    embed_files(small_embedder(), source_of(text), output)
    settings = VectorSettings(keep_sentences=False)
    with pytest.raises(InputError, match="is there already, and of another run"):
        embed_files(small_embedder(), source_of(text), output, settings, resume=True)


@pytest.mark.parametrize("suffix", FORMATS)
def test_single_ids_may_be_missing(tmp_path: Path, suffix: str) -> None:
    rows = [{"text": f"a {number}", "id": None if number == 7 else number} for number in range(9)]
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_input([table], TextSettings(text_column="text", keep="id"))
    embed_files(small_embedder(), source, tmp_path / f"out{suffix}")
    with open_vectors(tmp_path / f"out{suffix}") as found:
        assert [item.id for item in found] == [row["id"] for row in rows]


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
            embed_files(small_embedder(), source_of(text), output, resume=resume)
        assert output.read_text() == "of another"
        assert not parts_of(output).exists()
        output.unlink()


def test_a_text_that_changes_meanwhile_is_refused(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    change = at_the_end(text, lambda: text.write_text("another text ."))
    with pytest.raises(InputError, match=r"text\.txt: changed while it was read; .*--force"):
        embed_files(small_embedder(), source_of(text), output, report=change)
    assert not output.exists()
    assert parts_of(output).exists()


def test_ctrl_c_before_the_first_part_does_not_speak_of_parts(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline.Run, "compute", stop)
    with pytest.raises(StoppedError, match=r"stopped; nothing was done yet"):
        embed_files(small_embedder(), source_of(text), tmp_path / "out.npz")
    assert not parts_of(tmp_path / "out.npz").exists()


def test_parts_of_a_link_are_kept_beside_what_it_points_to(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "out.npz"
    elsewhere.mkdir()
    link.symlink_to(elsewhere / "real.npz")
    with monkeypatch.context() as patch:
        crash_at(1, patch, after=True)
        with pytest.raises(Crash):
            embed_files(small_embedder(), source_of(text), link)
    (elsewhere / ".tmp-01234567-real.npz").write_text("left by a kill")
    assert embed_files(small_embedder(), source_of(text), link, resume=True).sentences == 80
    assert link.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["real.npz"]
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "out.npz", "elsewhere"}


def test_a_folder_that_may_not_be_searched_is_one_line(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    source = source_of(text)
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(DiskError, match=r"out\.npz: cannot be written .*you have access to"):
        embed_files(small_embedder(), source, tmp_path / "out.npz")


def test_a_shortage_of_memory_is_told() -> None:
    assert "2 times out of memory" in Summary("out.h5", out_of_memory=2).describe()


def test_sentences_are_left_out_on_wish(text: Path, tmp_path: Path) -> None:
    embed_files(
        small_embedder(), source_of(text), tmp_path / "out.h5", VectorSettings(keep_sentences=False)
    )
    with open_vectors(tmp_path / "out.h5") as found:
        assert len(found) == 80
        assert found[0].sentence is None


def test_ids_of_two_kinds_are_refused_at_once(tmp_path: Path) -> None:
    table = tmp_path / "table.jsonl"
    table.write_text('{"text": "a", "id": 1}\n{"text": "b", "id": "two"}\n')
    source = source_of(table, keep="id")
    with pytest.raises(InputError, match=r"table\.jsonl, line 2: its id is a text, the first"):
        embed_files(small_embedder(), source, tmp_path / "out.parquet")
