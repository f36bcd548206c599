from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from analysis.neighbours.small_indexes import (
    EVERY_LAYER,
    built,
    rows_expected,
    rows_of,
    sentences,
    vectors_of,
    write_corpus,
)
from closeness import assert_close
from helpers import Heard, error_of, write
from small_models import small_embedder

from elmokit.analysis.neighbours.build import Build, IndexSettings, build_index
from elmokit.analysis.neighbours.store import (
    OccurrenceStore,
    check_target,
    read_description,
    table_errors,
)
from elmokit.bulk import pipeline
from elmokit.bulk.inputs import open_input
from elmokit.errors import DiskError, ElmoWarning, FormatError, InputError, StoppedError
from elmokit.io.text_files import TextSettings
from elmokit.jobs.run_folder import RunFolder

pytest.importorskip("lancedb", reason="the extra analysis is not installed")

LINES = sentences(36)
TOKENS_PER_PART = 50


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS_PER_PART)


def killed_at(monkeypatch, folder: Path, kind: type, method: str, call: int, before: bool) -> None:
    """Build an index and be killed at some call of a method."""
    original, calls = getattr(kind, method), [0]

    def method_or_kill(self, *arguments, **settings):
        calls[0] += 1
        if calls[0] == call and before:
            raise Killed
        result = original(self, *arguments, **settings)
        if calls[0] == call:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(kind, method, method_or_kill)
        error_of(built, folder, LINES, resume=True, kind=Killed)


def test_every_word_of_every_sentence_is_kept_with_its_place(tmp_path):
    summary = built(tmp_path, LINES)
    expected = rows_expected(LINES)
    assert rows_of(tmp_path / "index") == expected
    assert (summary.sentences, summary.occurrences) == (len(LINES), len(expected))
    assert summary.forms == len({row.form for row in expected})
    assert not RunFolder.beside(tmp_path / "index").folder.exists()


def test_vectors_are_the_directions_of_the_layers_in_half_precision(tmp_path):
    embedder = small_embedder()
    built(tmp_path, LINES[:9], IndexSettings(layers="1,average"), embedder)
    found = vectors_of(tmp_path / "index", "1"), vectors_of(tmp_path / "index", "average")
    layers = embedder.embed_layers(LINES[:9])
    for words, vectors in zip(LINES[:9], layers, strict=True):
        for position in range(len(words)):
            for stored, vector in zip(
                found, (vectors[1, position], vectors[:, position].mean(0)), strict=True
            ):
                direction = vector / np.linalg.norm(vector)
                assert_close(stored[tuple(words), position], direction.astype(np.float16))


def test_a_sentence_that_is_repeated_is_kept_once(tmp_path):
    lines = [*LINES, *LINES[:20], [], LINES[-1], LINES[-1]]
    summary = built(tmp_path, lines)
    assert rows_of(tmp_path / "index") == rows_expected(LINES)
    assert summary.duplicates == 22


def test_only_some_words_are_kept_on_demand_in_capitals_or_not(tmp_path):
    built(tmp_path, LINES, IndexSettings(words=frozenset({"BANK", "crane"})))
    expected = [row for row in rows_expected(LINES) if row.form in ("bank", "crane")]
    assert rows_of(tmp_path / "index") == expected
    write_corpus(tmp_path / "corpus.txt", [["Yes", ",", "sir", "!"], ["...", "--"]])
    built(tmp_path, [], IndexSettings(skip_punctuation=True), force=True)
    assert [row.word for row in rows_of(tmp_path / "index")] == ["Yes", "sir"]


def test_a_word_that_utf8_cannot_hold_is_kept_all_the_same(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": ["a\\ud800b", "bank"]}\n')
    source = open_input([str(corpus)], TextSettings())
    with pytest.warns(ElmoWarning, match="lone surrogates"):
        build_index(small_embedder(), source, tmp_path / "index")
    assert [row.word for row in rows_of(tmp_path / "index")] == ["a\ufffdb", "bank"]


@pytest.mark.parametrize(
    ("kind", "method", "call", "before"),
    [
        (Build, "record", 1, True),
        (Build, "record", 3, True),
        (Build, "add", 4, True),
        (OccurrenceStore, "_count_forms", 1, False),
        (OccurrenceStore, "finish", 1, False),
    ],
)
def test_a_build_that_was_killed_goes_on_with_no_occurrence_lost_or_doubled(
    tmp_path, monkeypatch, kind, method, call, before
):
    killed_at(monkeypatch, tmp_path, kind, method, call, before)
    assert not (tmp_path / "index").exists()
    summary = built(tmp_path, LINES, resume=True)
    assert rows_of(tmp_path / "index") == rows_expected(LINES)
    assert summary.occurrences == len(rows_expected(LINES))
    assert not RunFolder.beside(tmp_path / "index").folder.exists()


def test_a_kill_between_the_two_tables_leaves_no_half_part(tmp_path, monkeypatch):
    original = OccurrenceStore.add

    def only_sentences(self, first, kept, occurrences):
        if first:
            self._occurrences = None  # sentences are added, then this fails
        original(self, first, kept, occurrences)

    with monkeypatch.context() as patch:
        patch.setattr(OccurrenceStore, "add", only_sentences)
        error_of(built, tmp_path, LINES, kind=AttributeError)
    built(tmp_path, LINES, resume=True)
    assert rows_of(tmp_path / "index") == rows_expected(LINES)


def test_a_kill_after_the_index_got_its_name_leaves_nothing_to_do(tmp_path, monkeypatch):
    killed_at(monkeypatch, tmp_path, RunFolder, "remove", 1, True)
    assert RunFolder.beside(tmp_path / "index").folder.exists()
    assert built(tmp_path, LINES, resume=True).already_finished
    assert not RunFolder.beside(tmp_path / "index").folder.exists()
    assert rows_of(tmp_path / "index") == rows_expected(LINES)


def test_only_the_parts_that_are_missing_are_computed_again(tmp_path, monkeypatch):
    killed_at(monkeypatch, tmp_path, Build, "record", 4, True)
    heard = Heard()
    built(tmp_path, LINES, resume=True, observer=heard)
    assert heard.measured[-1]["words"] == sum(map(len, LINES))
    (before, size), *_ = heard.stages["indexing"]
    assert size is not None
    assert 0 < before < size


def test_an_interrupt_says_how_to_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "record", Mock(side_effect=KeyboardInterrupt))
    error = error_of(built, tmp_path, LINES, kind=StoppedError)
    assert f"{tmp_path / 'index.parts'}; to resume, run the same command with --resume" in error


def test_an_unfinished_run_is_not_touched_without_being_asked(tmp_path, monkeypatch):
    killed_at(monkeypatch, tmp_path, Build, "record", 3, False)
    with pytest.raises(InputError, match=r"index\.parts: .*\(--resume\)"):
        built(tmp_path, LINES)
    with pytest.raises(InputError, match="holds an unfinished run"):  # before a model is loaded
        check_target(tmp_path / "index", resume=False, force=False)
    with pytest.raises(InputError, match=r"\(model is another"):
        built(tmp_path, LINES, embedder=small_embedder(seed=1), resume=True)
    with pytest.raises(InputError, match=r"settings.* was .*layers|layers was"):
        built(tmp_path, LINES, IndexSettings(layers="top"), resume=True)
    built(tmp_path, LINES, embedder=small_embedder(seed=1), force=True)
    assert rows_of(tmp_path / "index") == rows_expected(LINES)


def test_tables_that_have_not_what_their_record_says_are_refused(tmp_path, monkeypatch):
    import lancedb

    killed_at(monkeypatch, tmp_path, Build, "record", 3, False)
    tables = RunFolder.beside(tmp_path / "index").folder / "index"
    lancedb.connect(tables).open_table("occurrences").delete("sentence = 2")
    with pytest.raises(FormatError, match=r"has not what its record says.*--force"):
        built(tmp_path, LINES, resume=True)


def test_the_same_run_on_a_whole_index_has_nothing_to_do(tmp_path):
    built(tmp_path, LINES)
    assert built(tmp_path, LINES, resume=True).already_finished
    with pytest.raises(InputError, match=r"is there already.*--force"):
        built(tmp_path, LINES)
    write_corpus(tmp_path / "corpus.txt", LINES[:3])
    assert "of another run" in error_of(built, tmp_path, LINES[:3], resume=True, kind=InputError)
    built(tmp_path, LINES[:3], force=True)
    assert rows_of(tmp_path / "index") == rows_expected(LINES[:3])


def test_a_folder_that_is_not_an_index_is_never_replaced(tmp_path):
    letters = write(tmp_path / "index" / "letters.txt", "dear")
    error_of(built, tmp_path, LINES, force=True, kind=InputError, after=tmp_path / "index: ")
    assert letters.read_text() == "dear"


def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.txt"
    monkeypatch.setattr(Build, "read", lambda self: write_corpus(corpus, LINES[:2]))
    assert "changed while it was read" in error_of(built, tmp_path, LINES, kind=InputError)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("layers", ["3", "first", "1,,2", ""])
def test_layers_that_the_model_has_not_and_a_state_of_its_own_are_an_error(tmp_path, layers):
    error_of(built, tmp_path, LINES, IndexSettings(layers=layers), kind=InputError, after="layers")
    carried = small_embedder(state="carry")
    error_of(built, tmp_path, LINES, embedder=carried, kind=InputError, after="in state 'carry'")


def test_an_index_says_what_it_was_made_of(tmp_path):
    embedder = small_embedder()
    built(tmp_path, LINES, EVERY_LAYER, embedder, model="tiny")
    found = read_description(tmp_path / "index")
    assert (found.model, found.fingerprint) == ("tiny", embedder.fingerprint())
    assert (found.layers, found.tokenizer) == (("0", "1", "2"), "whitespace")
    assert set(found.versions) == {"elmokit", "lancedb"}
    assert not found.vector_index


def test_a_full_disk_is_one_line_that_says_how_to_go_on(tmp_path, monkeypatch):
    def full(self, first, kept, occurrences):
        with table_errors(self.location):
            raise OSError("No space left on device (os error 28)\n  at src/write.rs")

    monkeypatch.setattr(OccurrenceStore, "add", full)
    with pytest.raises(DiskError, match=r"No space left.*free some space.*--resume"):
        built(tmp_path, LINES)
