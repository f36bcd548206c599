"""Layers of a frozen biLM, computed once and found again."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import CLEARLY, assert_close, distance
from small_models import small_embedder

from elmokit.errors import DiskError, FormatError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.tasks import layer_store
from elmokit.tasks import layer_store as layer_chunks
from elmokit.tasks.layer_store import LayerStore, layer_numbers

SENTENCES = [
    ("The", "river", "bank"),
    (),
    ("A", "강", "bank", "account", "."),
    ("bank",),
    ("The", "river", "bank", "account"),
    ("The", "river bank"),
    ("The river", "bank"),
]
NEW = ("Never", "seen", "before")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk for every five words or so, of which two are computed at once."""
    bytes_per_word = 3 * 12 * 4
    monkeypatch.setattr(layer_store, "CHUNK_BYTES", 5 * bytes_per_word)
    monkeypatch.setattr(layer_store, "COMPUTED_BYTES", 2 * bytes_per_word)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


class Watched(Embedder):
    """Knows which sentences it has computed."""

    computed: list[tuple[str, ...]]

    def embed_as(self, sentences: Any, *settings: Any, **more: Any) -> Any:
        self.computed = [*getattr(self, "computed", []), *map(tuple, sentences)]
        return super().embed_as(sentences, *settings, **more)


def watched() -> Watched:
    return Watched(small_embedder().bilm, tokenizer="whitespace")


def filled(embedder: Embedder, **settings: Any) -> LayerStore:
    store = LayerStore(embedder, **settings)
    store.add(SENTENCES)
    return store


@cache
def expected_layers() -> list[np.ndarray]:
    return small_embedder().embed_layers(SENTENCES)


def assert_right(store: LayerStore, numbers: tuple[int, ...] = (0, 1, 2)) -> None:
    """All layers of the sentences, padded, are those of the embedder."""
    found = store.layers(SENTENCES)
    assert found.vectors.shape == (len(numbers), len(SENTENCES), 5, 12)
    assert found.vectors.dtype == torch.float32
    assert found.mask.sum(1).tolist() == [len(sentence) for sentence in SENTENCES]
    for row, layers in enumerate(expected_layers()):
        words = layers.shape[1]
        expected = layers[list(numbers)]
        assert_close(found.vectors[:, row, :words], expected)
        assert found.vectors[:, row, words:].eq(0).all()


def test_layers_are_those_of_the_embedder_whether_added_or_not() -> None:
    assert_right(LayerStore(small_embedder()))
    assert_right(filled(small_embedder()))


def test_what_was_added_is_not_computed_again() -> None:
    embedder = watched()
    store = filled(embedder)
    assert sorted(embedder.computed) == sorted(set(SENTENCES) - {()})
    store.add([*SENTENCES, NEW])
    store.layers([NEW, *SENTENCES])
    assert embedder.computed.count(NEW) == 1
    assert len(embedder.computed) == len(set(SENTENCES))
    assert len(store) == len(set(SENTENCES))
    assert list(SENTENCES[0]) in store


def test_a_sentence_that_was_not_added_is_computed_but_not_kept() -> None:
    embedder = watched()
    store = filled(embedder)
    embedder.computed = []
    first = store.layers([NEW, SENTENCES[0], NEW])
    assert embedder.computed == [NEW]
    assert NEW not in store
    assert torch.equal(first.vectors[:, 0], first.vectors[:, 2])
    store.layers([NEW])
    assert embedder.computed == [NEW, NEW]


def test_words_decide_not_the_text_they_make() -> None:
    store = filled(small_embedder())
    one, other = store.layers([("The river", "bank")]), store.layers([("The", "river bank")])
    assert distance(one.vectors, other.vectors) > CLEARLY


@pytest.mark.usefixtures("small_chunks", "temporary")
@pytest.mark.parametrize("layers", ["mix", "top", 1])
def test_disk_and_memory_give_the_same_to_the_bit(tmp_path: Path, layers: str | int) -> None:
    in_memory = filled(small_embedder(), layers=layers)
    spilled = filled(small_embedder(), layers=layers, memory_bytes=0)
    in_folder = filled(small_embedder(), layers=layers, folder=tmp_path / "layers")
    again = LayerStore(small_embedder(), layers=layers, folder=tmp_path / "layers")
    expected = in_memory.layers(SENTENCES)
    for store in (spilled, in_folder, again):
        found = store.layers(SENTENCES)
        assert torch.equal(found.vectors, expected.vectors)
        assert torch.equal(found.mask, expected.mask)


@pytest.mark.parametrize(("layers", "number"), [("top", 2), (0, 0), (1, 1)])
def test_one_layer_alone_can_be_kept(tmp_path: Path, layers: str | int, number: int) -> None:
    store = filled(small_embedder(), layers=layers, folder=tmp_path)
    assert store.numbers == (number,)
    assert_right(store, (number,))
    kept = sum(path.stat().st_size for path in tmp_path.rglob(layer_chunks.VALUES))
    assert kept == 4 * 12 * sum(map(len, SENTENCES))


def test_some_of_the_layers_can_be_asked_for() -> None:
    store = filled(small_embedder())
    every = store.layers(SENTENCES).vectors
    assert torch.equal(store.layers(SENTENCES, [2, 0]).vectors, every[[2, 0]])
    unseen = store.layers([NEW], [1]).vectors
    assert torch.equal(unseen, store.layers([NEW]).vectors[[1]])
    with pytest.raises(InputError, match="layer 3 is not in the store, which keeps 0, 1, 2"):
        store.layers(SENTENCES, [3])


@pytest.mark.usefixtures("small_chunks")
def test_beyond_the_budget_layers_go_to_a_folder_that_ends_with_the_store(temporary: Path) -> None:
    one_chunk = 3 * 12 * 4 * 6
    store = filled(small_embedder(), memory_bytes=one_chunk)
    (folder,) = temporary.iterdir()
    written = sum(path.stat().st_size for path in folder.rglob(layer_chunks.VALUES))
    assert 0 < written < 3 * 12 * 4 * sum(map(len, SENTENCES))
    assert_right(store)
    del store
    gc.collect()
    assert not list(temporary.iterdir())


@pytest.mark.usefixtures("small_chunks")
def test_within_the_budget_nothing_is_written(temporary: Path) -> None:
    filled(small_embedder())
    assert not list(temporary.iterdir())


def test_closing_removes_the_temporary_folder(temporary: Path) -> None:
    with LayerStore(small_embedder(), memory_bytes=0) as store:
        store.add(SENTENCES)
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())
    assert_right(store)


@pytest.mark.usefixtures("small_chunks")
def test_a_second_run_in_the_folder_computes_nothing(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    embedder = watched()
    assert_right(filled(embedder, folder=tmp_path))
    assert not hasattr(embedder, "computed")


def test_a_run_with_more_sentences_computes_those_alone(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    embedder = watched()
    store = LayerStore(embedder, folder=tmp_path)
    store.add([*SENTENCES, NEW])
    assert embedder.computed == [NEW]
    assert NEW in LayerStore(small_embedder(), folder=tmp_path)
    assert_right(store)


def test_what_another_store_adds_meanwhile_is_not_computed_again(tmp_path: Path) -> None:
    embedder = watched()
    store = LayerStore(embedder, folder=tmp_path)
    filled(small_embedder(), folder=tmp_path)
    store.add(SENTENCES)
    assert not hasattr(embedder, "computed")
    assert_right(store)


def test_a_folder_with_all_layers_serves_one_that_wants_the_top_alone(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    store = LayerStore(small_embedder(), layers="top", folder=tmp_path)
    store.add([NEW])
    assert torch.equal(store.layers(SENTENCES, [2]).vectors, store.layers(SENTENCES).vectors[[2]])
    again = LayerStore(small_embedder(), folder=tmp_path)
    assert NEW in again
    assert_right(again)


def test_words_that_no_text_file_can_hold_come_back(tmp_path: Path) -> None:
    odd = ("a b", "", "\n", "\ud800", "강")
    embedder = small_embedder()
    with pytest.warns(UserWarning, match="unusual word"):
        expected = LayerStore(embedder).layers([odd]).vectors
    LayerStore(embedder, folder=tmp_path).add([odd])
    store = LayerStore(embedder, folder=tmp_path)
    assert odd in store
    assert_close(store.layers([odd]).vectors, expected)


class Killed(Exception):
    """Stands for the end of a process."""


def killed_after(parts: int) -> Watched:
    """An embedder whose process ends after it has computed some parts."""

    class Mortal(Watched):
        left = parts

        def embed_as(self, *settings: Any, **more: Any) -> Any:
            if not self.left:
                raise Killed
            self.left -= 1
            return super().embed_as(*settings, **more)

    return Mortal(small_embedder().bilm, tokenizer="whitespace")


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("parts", range(6))
def test_a_run_that_ended_half_way_is_taken_up(tmp_path: Path, parts: int) -> None:
    with pytest.raises(Killed):
        filled(killed_after(parts), folder=tmp_path)
    embedder = watched()
    store = LayerStore(embedder, folder=tmp_path)
    known = len(store)
    store.add(SENTENCES)
    assert known + len(embedder.computed) == len(set(SENTENCES) - {()})
    assert_right(store)
    assert_right(LayerStore(small_embedder(), folder=tmp_path))


@pytest.mark.usefixtures("small_chunks")
def test_what_a_killed_process_was_writing_is_never_read_and_goes(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    newest = sorted(tmp_path.glob("layers-*"))[-1]
    # A chunk has its name only when it is whole; until then it is called like this.
    unfinished = newest.rename(tmp_path / f".tmp-0123abcd-{newest.name}")
    cut_values(unfinished)

    store = LayerStore(small_embedder(), folder=tmp_path)
    assert 0 < len(store) < len(set(SENTENCES) - {()})
    assert not unfinished.exists()
    store.add(SENTENCES)
    assert_right(store)
    assert_right(LayerStore(small_embedder(), folder=tmp_path))


def cut_values(chunk: Path) -> None:
    with open(chunk / layer_chunks.VALUES, "rb+") as file:
        file.truncate(20)


def empty_values(chunk: Path) -> None:
    (chunk / layer_chunks.VALUES).write_bytes(b"")


def no_values(chunk: Path) -> None:
    (chunk / layer_chunks.VALUES).unlink()


def no_sentences(chunk: Path) -> None:
    (chunk / layer_chunks.SENTENCES).unlink()


def cut_sentences(chunk: Path) -> None:
    path = chunk / layer_chunks.SENTENCES
    path.write_text(path.read_text()[:-8])


def other_sentences(chunk: Path) -> None:
    (chunk / layer_chunks.SENTENCES).write_text('{"sentences": [["one"], 2]}')


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "damage",
    [cut_values, empty_values, no_values, no_sentences, cut_sentences, other_sentences],
)
def test_a_damaged_chunk_is_computed_again(tmp_path: Path, damage: Any) -> None:
    whole = len(filled(small_embedder(), folder=tmp_path))
    damage(sorted(tmp_path.glob("layers-*"))[1])
    store = LayerStore(small_embedder(), folder=tmp_path)
    assert 0 < len(store) < whole
    store.add(SENTENCES)
    assert_right(store)
    assert_right(LayerStore(small_embedder(), folder=tmp_path))


def test_a_store_of_another_model_is_refused(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    with pytest.raises(InputError, match="holds layers of another model; choose another folder"):
        LayerStore(small_embedder(seed=1), folder=tmp_path)


@pytest.mark.parametrize(
    ("settings", "name"), [({"state": "warm"}, "state"), ({"precision": "fast"}, "precision")]
)
def test_a_store_of_another_way_to_read_is_refused(
    tmp_path: Path, settings: dict[str, str], name: str
) -> None:
    filled(small_embedder(), folder=tmp_path)
    with pytest.raises(InputError, match=f"holds layers of another {name}"):
        LayerStore(small_embedder(**settings), folder=tmp_path)


def test_a_store_that_lacks_layers_is_refused(tmp_path: Path) -> None:
    filled(small_embedder(), layers="top", folder=tmp_path)
    with pytest.raises(InputError, match="does not hold layer 0"):
        LayerStore(small_embedder(), folder=tmp_path)


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "layers-00000000").mkdir()
    with pytest.raises(InputError, match="holds files that are no stored layers"):
        LayerStore(small_embedder(), folder=tmp_path)
    assert (tmp_path / "layers-00000000").exists()


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path)
    record = tmp_path / layer_chunks.RECORD
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": 2}))
    with pytest.raises(FormatError, match="is of another version"):
        LayerStore(small_embedder(), folder=tmp_path)


def test_state_carry_is_refused() -> None:
    with pytest.raises(InputError, match="state 'carry'"):
        LayerStore(small_embedder(state="carry"))


@pytest.mark.parametrize("layers", ["average", 3, -1, True, 1.0])
def test_layers_that_the_model_does_not_have_are_refused(layers: Any) -> None:
    with pytest.raises(InputError, match="use 'mix', 'top', or 0 to 2"):
        LayerStore(small_embedder(), layers=layers)


def test_a_text_in_place_of_words_is_refused() -> None:
    store = LayerStore(small_embedder())
    with pytest.raises(InputError, match="not a list of words"):
        store.add(["The river bank"])
    with pytest.raises(InputError, match="not a list of words"):
        store.layers(["The river bank"])


@pytest.mark.usefixtures("small_chunks")
def test_progress_counts_the_words_that_are_computed() -> None:
    told: list[tuple[int, int | None]] = []
    store = LayerStore(small_embedder())
    store.add(SENTENCES[:3])
    store.add(SENTENCES, lambda done, total: told.append((done, total)))
    words = sum(map(len, SENTENCES[3:]))
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == (words, words)


@pytest.mark.usefixtures("small_chunks")
def test_no_more_is_computed_at_once_than_the_memory_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    embedder = small_embedder()
    at_once: list[int] = []
    compute = embedder.embed_as
    monkeypatch.setattr(
        embedder,
        "embed_as",
        lambda some, *rest: [at_once.append(sum(map(len, some))), compute(some, *rest)][1],
    )
    filled(embedder, folder=tmp_path)
    assert sum(at_once) == sum(map(len, SENTENCES))
    assert max(at_once) == 5  # the longest sentence; others go by twos and threes


def test_a_full_disk_is_one_line_and_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LayerStore(small_embedder(), folder=tmp_path)

    def full(*_: Any) -> Iterator[Any]:
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(store, "_computed", full)
    with pytest.raises(DiskError, match=r"No space left on device.*free some space"):
        store.add(SENTENCES)
    monkeypatch.undo()
    assert len(store) == 0
    store.add(SENTENCES)
    assert_right(store)


def test_the_fingerprint_tells_models_apart_and_knows_a_copy(tmp_path: Path) -> None:
    embedder = small_embedder()
    before = embedder.fingerprint()
    assert before == small_embedder().fingerprint()
    with torch.no_grad():
        next(embedder.bilm.parameters()).flatten()[0].add_(1.0)
    assert embedder.fingerprint() != before


def test_numbers_of_layers() -> None:
    assert layer_numbers("mix", 2) == (0, 1)


def test_a_store_can_be_moved(tmp_path: Path) -> None:
    filled(small_embedder(), folder=tmp_path / "one")
    shutil.move(tmp_path / "one", tmp_path / "other")
    assert_right(LayerStore(small_embedder(), folder=tmp_path / "other"))
