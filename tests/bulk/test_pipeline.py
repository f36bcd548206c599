"""What comes out of embedding files, in one go or resumed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from bulk.small_jobs import (
    FORMATS,
    contents,
    crash,
    embed,
    parts_of,
    sentences_of,
    some_lines,
    write_text,
)
from closeness import assert_agree, assert_close
from helpers import Heard, write
from small_models import small_embedder

from elmokit.bulk import pipeline
from elmokit.bulk.compute import Computer
from elmokit.bulk.pipeline import VectorSettings, embed_files
from elmokit.errors import InputError
from elmokit.formats.mixes import write_mix
from elmokit.inference.embedder import Embedder
from elmokit.inference.lookup import CachedEmbedder
from elmokit.io.text_files import TextSettings
from elmokit.model.scalar_mix import ScalarMix
from elmokit.vectors.files import open_vectors

pytestmark = pytest.mark.usefixtures("small_parts")


def test_files_and_settings_may_be_named(text: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    settings = VectorSettings(layers="top", pool="mean")
    embed(text, one, settings, inputs=TextSettings(split=True, tokenizer="whitespace"))
    embed_files(small_embedder(), str(text), other, layers="top", pool="mean", split=True)
    assert contents(one) == contents(other)
    with pytest.raises(TypeError, match="colour"):
        embed_files(small_embedder(), [text], tmp_path / "a.npz", colour="red")


@pytest.mark.parametrize("suffix", FORMATS)
def test_line_n_is_vector_n(text: Path, tmp_path: Path, suffix: str) -> None:
    sentences, output = sentences_of(text), tmp_path / f"out{suffix}"
    summary = embed(text, output)
    with open_vectors(output) as found:
        assert [item.sentence for item in found] == list(map(" ".join, sentences))
        assert_agree([item.vectors for item in found], small_embedder().embed(sentences))
    assert summary.sentences == 80
    assert summary.words == sum(map(len, sentences))
    assert summary.blank == sentences.count([])
    assert not parts_of(output).exists()


@pytest.mark.parametrize(("layers", "pool"), [("0", "none"), ("all", "max"), ("mix", "mean")])
def test_layers_and_pools_are_those_of_the_embedder(
    text: Path, tmp_path: Path, layers: str, pool: Any
) -> None:
    mix = ScalarMix(3, weights=[0.5, 1.0, -2.0])
    write_mix(mix, tmp_path / "mix.json")
    trained = str(tmp_path / "mix.json") if layers == "mix" else None
    settings = VectorSettings(layers=layers, pool=pool, mix=trained)
    embed(text, tmp_path / "out.npz", settings)
    with open_vectors(tmp_path / "out.npz") as found:
        expected = small_embedder().embed(sentences_of(text), mix if trained else layers, pool)
        assert_agree([item.vectors for item in found], expected)


@pytest.mark.parametrize(
    ("suffix", "after", "state"),
    [  # every two values together
        *[(suffix, False, state) for suffix in FORMATS[:2] for state in ("zero", "carry")],
        *[(suffix, True, state) for suffix in FORMATS[2:] for state in ("zero", "carry")],
        *[(suffix, suffix in FORMATS[:2], "warm") for suffix in FORMATS],
    ],
)
def test_a_resumed_run_gives_the_same_file(
    text: Path, tmp_path: Path, suffix: str, after: bool, state: Any
) -> None:
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    embed(text, state=state, output=whole)
    for number in (0, 2, 5):
        crash(text, cut, number, after, state=state, resume=True)
        assert not cut.exists()
    summary = embed(text, state=state, output=cut, resume=True)
    assert summary.sentences == 80
    assert contents(cut) == contents(whole)
    if suffix == ".parquet":
        assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.filterwarnings("ignore:unusual word")
def test_totals_of_a_resumed_run_are_of_the_whole(tmp_path: Path) -> None:
    text = write_text(tmp_path, [*some_lines(60), "w" * 80, "w" * 80 + " a"])
    whole = embed(text, tmp_path / "whole.npz")
    crash(text, tmp_path / "cut.npz", 3)
    cut = embed(text, tmp_path / "cut.npz", resume=True)
    for name in ("sentences", "words", "blank", "duplicates", "unusual_words"):
        assert getattr(cut, name) == getattr(whole, name), name
    assert whole.unusual_words


def test_a_line_of_many_sentences_is_cut_between_them(tmp_path: Path) -> None:
    text = write_text(tmp_path, ["The bank is here. It rains. " * 30, "", "One more."])
    settings = TextSettings(split=True)
    embed(text, tmp_path / "whole.npz", inputs=settings)
    crash(text, tmp_path / "cut.npz", 2, inputs=settings)
    summary = embed(text, tmp_path / "cut.npz", inputs=settings, resume=True)
    assert summary.sentences == 61
    assert contents(tmp_path / "cut.npz") == contents(tmp_path / "whole.npz")


def test_each_distinct_sentence_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[tuple[str, ...]] = []
    embed_as = Embedder.embed_as

    def counting(self: Embedder, sentences: Any, *arguments: Any, **named: Any) -> Any:
        computed.extend(map(tuple, sentences))
        return embed_as(self, sentences, *arguments, **named)

    monkeypatch.setattr(Embedder, "embed_as", counting)
    lines = some_lines(50, blank=0) * 3
    summary = embed(write_text(tmp_path, lines), tmp_path / "out.npz")
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
    monkeypatch.setattr(pipeline, "Computer", partial(Computer, longest=5))
    long, short = "a b c d e f", "a b c d e"
    text = write_text(tmp_path, [long, short, long, "a", "", long, f"{long} g", short, long])
    summary = embed(text, tmp_path / "out.npz", state=state)
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
            embed(text, output)
            with open_vectors(output) as found:
                results.append([item.vectors for item in found])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert_agree(other, results[0])


def test_memory_of_a_part_bounds_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BYTES_PER_PART", 10 * 12 * 4)
    assert pipeline.tokens_per_part(Computer(small_embedder())) == 10


@pytest.mark.parametrize("suffix", FORMATS)
def test_sentences_of_as_many_words_as_layers_are_not_taken_for_words(
    tmp_path: Path, suffix: str
) -> None:
    text = write_text(tmp_path, ["a river bank", "the light play"])
    output = tmp_path / f"out{suffix}"
    settings = VectorSettings(layers="all", pool="mean")
    embed(text, output, settings)
    with open_vectors(output) as found:
        assert found[0].vectors.shape == (3, 12)
    with pytest.raises(InputError, match="a vector for each sentence"):
        CachedEmbedder(output)


def test_progress_tells_sentences_words_and_time(text: Path, tmp_path: Path) -> None:
    heard, size = Heard(), text.stat().st_size
    summary = embed(text, tmp_path / "out.npz", observer=heard)
    (begun, *told), sentences = (
        heard.stages["embedding"],
        [one["sentences"] for one in heard.measured],
    )
    assert begun == (0, size)
    assert told == sorted(told)
    assert told[-1][0] == size
    assert sentences == sorted(sentences)
    assert 0 < sentences[0] < sentences[-1] == summary.sentences
    assert heard.measured[-1]["words"] == summary.words
    assert 0 < heard.measured[-1]["cached_words"] < 1
    assert summary.peak_memory_bytes is not None
    assert summary.peak_memory_bytes > 10_000_000


def test_progress_is_told_before_the_first_part_is_done(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", 1 << 15)
    monkeypatch.setattr("elmokit.inference.embedder.SENTENCES_PER_BATCH", 10)
    heard = Heard()
    embed(text, tmp_path / "out.npz", observer=heard)
    assert len(heard.measured) > 5
    assert heard.measured[0]["sentences"] == 10
    assert 0 < heard.stages["embedding"][1][0] < text.stat().st_size / 2


@pytest.mark.parametrize("suffix", FORMATS)
def test_single_ids_may_be_missing_but_not_be_of_another_kind(tmp_path: Path, suffix: str) -> None:
    rows = [{"text": f"a {number}", "id": None if number == 7 else number} for number in range(9)]
    table = write(tmp_path / "rows.jsonl", map(json.dumps, rows))
    embed(table, tmp_path / f"out{suffix}", inputs=TextSettings(keep="id"))
    with open_vectors(tmp_path / f"out{suffix}") as found:
        assert [item.id for item in found] == [row["id"] for row in rows]
    write(table, ['{"text": "a", "id": 1}', '{"text": "b", "id": "two"}'])
    with pytest.raises(InputError, match=r"rows\.jsonl, line 2: its id is a text, the first"):
        embed(table, tmp_path / f"other{suffix}", inputs=TextSettings(keep="id"))


def test_raw_text_is_split_by_a_tokenizer_of_the_user(tmp_path):
    text = write_text(tmp_path, ["a-b c-d"])
    embedder = small_embedder(tokenizer=lambda text: text.split("-"))
    embed_files(embedder, [text], tmp_path / "own.jsonl", tokenize=True)
    embed_files(embedder, [text], tmp_path / "named.jsonl", tokenize=True, tokenizer="whitespace")
    own, named = (open_vectors(tmp_path / name) for name in ("own.jsonl", "named.jsonl"))
    assert_close(own[0].vectors, embedder.embed([["a", "b c", "d"]])[0])
    assert len(named[0].vectors) == 2
