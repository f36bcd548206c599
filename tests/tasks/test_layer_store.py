"""Layers of a frozen biLM, computed once and found again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from closeness import CLEARLY, assert_close, distance
from helpers import error_of
from small_models import small_embedder

from elmokit.errors import DiskError, InputError
from elmokit.inference.embedder import Embedder
from elmokit.tasks import layer_store
from elmokit.tasks.layer_store import LayerStore, folder_name

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


BYTES_PER_WORD = 3 * 12 * 4


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two words are computed and stored at once."""
    monkeypatch.setattr(layer_store, "COMPUTED_BYTES", 2 * BYTES_PER_WORD)


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
    found = store(SENTENCES)
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
    store([NEW, *SENTENCES])
    assert embedder.computed.count(NEW) == 1
    assert len(embedder.computed) == len(set(SENTENCES))
    assert len(store) == len(set(SENTENCES))
    assert list(SENTENCES[0]) in store


def test_a_sentence_that_was_not_added_is_computed_but_not_kept() -> None:
    embedder = watched()
    store = filled(embedder)
    embedder.computed = []
    first = store([NEW, SENTENCES[0], NEW])
    assert embedder.computed == [NEW]
    assert NEW not in store
    assert torch.equal(first.vectors[:, 0], first.vectors[:, 2])
    store([NEW])
    assert embedder.computed == [NEW, NEW]


def test_words_decide_not_the_text_they_make() -> None:
    store = filled(small_embedder())
    one, other = store([("The river", "bank")]), store([("The", "river bank")])
    assert distance(one.vectors, other.vectors) > CLEARLY


@pytest.mark.usefixtures("small_parts", "temporary")
@pytest.mark.parametrize("layers", ["mix", "top", 1])
def test_disk_and_memory_give_the_same_to_the_bit(tmp_path: Path, layers: str | int) -> None:
    in_memory = filled(small_embedder(), layers=layers)
    spilled = filled(small_embedder(), layers=layers, memory_bytes=0)
    in_folder = filled(small_embedder(), layers=layers, folder=tmp_path / "layers")
    again = LayerStore(small_embedder(), layers=layers, folder=tmp_path / "layers")
    expected = in_memory(SENTENCES)
    for store in (spilled, in_folder, again):
        found = store(SENTENCES)
        assert torch.equal(found.vectors, expected.vectors)
        assert torch.equal(found.mask, expected.mask)


@pytest.mark.parametrize(("layers", "number"), [("top", 2), (0, 0), (1, 1)])
def test_one_layer_alone_can_be_kept(tmp_path: Path, layers: str | int, number: int) -> None:
    store = filled(small_embedder(), layers=layers, folder=tmp_path)
    assert store.numbers == (number,)
    assert_right(store, (number,))
    stored = (tmp_path / layer_store.VALUES).stat().st_size
    assert stored == 4 * 12 * sum(map(len, SENTENCES))


@pytest.mark.usefixtures("small_parts")
def test_beyond_the_budget_layers_go_to_a_folder_that_ends_with_the_store(temporary: Path) -> None:
    store = LayerStore(small_embedder(), memory_bytes=6 * BYTES_PER_WORD)
    store.add(SENTENCES[:1])
    assert not list(temporary.iterdir())
    store.add(SENTENCES)
    (folder,) = temporary.iterdir()
    written = (folder / layer_store.VALUES).stat().st_size
    assert written == BYTES_PER_WORD * sum(map(len, SENTENCES[1:]))
    assert_right(store)
    del store
    gc.collect()
    assert not list(temporary.iterdir())


def test_closing_removes_the_temporary_folder(temporary: Path) -> None:
    with LayerStore(small_embedder(), memory_bytes=0) as store:
        store.add(SENTENCES)
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())
    assert_right(store)


@pytest.mark.usefixtures("small_parts")
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


def test_words_that_no_text_file_can_hold_come_back(tmp_path: Path) -> None:
    odd = ("a b", "", "\n", "\ud800", "강")
    embedder = small_embedder()
    with pytest.warns(UserWarning, match="unusual word"):
        expected = LayerStore(embedder)([odd]).vectors
    LayerStore(embedder, folder=tmp_path).add([odd])
    store = LayerStore(embedder, folder=tmp_path)
    assert odd in store
    assert_close(store([odd]).vectors, expected)


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


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("parts", range(6))
def test_a_run_that_ended_half_way_is_taken_up(tmp_path: Path, parts: int) -> None:
    error_of(filled, killed_after(parts), folder=tmp_path, kind=Killed)
    embedder = watched()
    store = LayerStore(embedder, folder=tmp_path)
    known = len(store)
    store.add(SENTENCES)
    assert known + len(embedder.computed) == len(set(SENTENCES) - {()})
    assert_right(store)
    assert_right(LayerStore(small_embedder(), folder=tmp_path))


def cut(name: str, size: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with open(folder / name, "rb+") as file:
            file.truncate(max(0, file.seek(0, 2) - size))

    return damage


def unfinished_values(folder: Path) -> None:
    """What a process that was killed while it wrote leaves behind."""
    with open(folder / layer_store.VALUES, "ab") as file:
        file.write(b"\0" * (BYTES_PER_WORD + 5))


def not_words(folder: Path) -> None:
    path = folder / layer_store.SENTENCES
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"[1]\n", *rest[1:]]))


@pytest.mark.parametrize(
    "damage",
    [
        cut(layer_store.VALUES, 20),
        cut(layer_store.VALUES, 10_000),
        cut(layer_store.SENTENCES, 3),
        cut(layer_store.SENTENCES, 10_000),
        unfinished_values,
        not_words,
    ],
)
def test_what_a_kill_or_damage_left_incomplete_is_computed_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    filled(small_embedder(), folder=tmp_path)
    damage(tmp_path)
    store = filled(small_embedder(), folder=tmp_path)
    assert_right(store)
    assert_right(LayerStore(small_embedder(), folder=tmp_path))
    stored = (tmp_path / layer_store.VALUES).stat().st_size
    assert stored == BYTES_PER_WORD * sum(map(len, SENTENCES))


def test_other_models_layers_and_ways_to_read_have_other_folders() -> None:
    names = [
        folder_name(small_embedder(), "mix"),
        folder_name(small_embedder(), "top"),
        folder_name(small_embedder(seed=1), "mix"),
        folder_name(small_embedder(state="warm"), "mix"),
        folder_name(small_embedder(precision="fast"), "mix"),
    ]
    assert len(set(names)) == 5
    assert folder_name(small_embedder(), "mix") == names[0]


def test_state_carry_is_refused() -> None:
    assert "state 'carry'" in error_of(LayerStore, small_embedder(state="carry"), kind=InputError)


@pytest.mark.parametrize("layers", ["average", 3, -1, True, 1.0])
def test_layers_that_the_model_does_not_have_are_refused(layers: Any) -> None:
    with pytest.raises(InputError, match="use 'mix', 'top', or 0 to 2"):
        LayerStore(small_embedder(), layers=layers)


def test_a_text_in_place_of_words_is_refused() -> None:
    store = LayerStore(small_embedder())
    assert "not a list of words" in error_of(store.add, ["The river bank"], kind=InputError)
    assert "not a list of words" in error_of(store, ["The river bank"], kind=InputError)


@pytest.mark.usefixtures("small_parts")
def test_progress_counts_the_words_that_are_computed() -> None:
    told: list[tuple[int, int | None]] = []
    store = LayerStore(small_embedder())
    store.add(SENTENCES[:3])
    store.add(SENTENCES, lambda done, total: told.append((done, total)))
    words = sum(map(len, SENTENCES[3:]))
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == (words, words)


@pytest.mark.usefixtures("small_parts")
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
