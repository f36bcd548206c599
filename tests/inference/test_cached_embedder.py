"""Vectors out of a file, where an embedder would compute them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from closeness import assert_agree
from small_models import small_embedder
from torch.utils.data import DataLoader

from elmokit.errors import InputError
from elmokit.inference import lookup as cached_embedder
from elmokit.inference.lookup import CachedEmbedder
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.vectors.files import write_vectors

SENTENCES = [
    ["The", "river", "bank"],
    [],
    ["A", "강", "bank", "account"],
    ["bank"],
    ["The", "river", "bank", "account"],
]
SUFFIXES = [".h5", ".npz", ".jsonl", ".parquet"]


@pytest.fixture(params=SUFFIXES)
def suffix(request: pytest.FixtureRequest) -> str:
    if request.param == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    return str(request.param)


def all_layers(path: Path, **settings: Any) -> Path:
    layers = small_embedder().embed_layers(SENTENCES)
    write_vectors(
        path, zip(SENTENCES, layers, strict=True), description={"layers": "all"}, **settings
    )
    return path


def one_layer(path: Path, layer: str | int = "average", **said: Any) -> Path:
    vectors = small_embedder().embed(SENTENCES, layer)  # type: ignore[arg-type]
    write_vectors(path, zip(SENTENCES, vectors, strict=True), description=said)
    return path


def assert_equal(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert_agree(found, expected)
    assert all(one.dtype == np.float32 for one in found)


def test_all_layers_give_what_the_embedder_gives(tmp_path: Path, suffix: str) -> None:
    embedder = small_embedder()
    cached = CachedEmbedder(all_layers(tmp_path / f"all{suffix}"))
    asked = [SENTENCES[4], [], SENTENCES[0], SENTENCES[2], SENTENCES[0]]

    assert cached.vector_size == embedder.vector_size
    assert_equal(cached.embed_layers(asked), embedder.embed_layers(asked))
    assert_equal(cached.embed(asked), embedder.embed(asked))
    mixes = ScalarMix(3, weights=[1, 2, 0.5]), DirectionalMix(3, join="add")
    for layer in ("average", "top", 0, 1, 2, *mixes):
        assert_equal(cached.embed(asked, layer), embedder.embed(asked, layer))


def test_one_layer_gives_what_the_embedder_gives(tmp_path: Path, suffix: str) -> None:
    path = one_layer(tmp_path / f"one{suffix}", "top", layers="top")
    cached = CachedEmbedder(path)

    assert_equal(cached.embed(SENTENCES, "top"), small_embedder().embed(SENTENCES, "top"))
    assert cached.embed([], "top") == []


def test_half_precision_is_within_a_unit_in_its_last_place(tmp_path: Path) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / "half.h5", dtype="float16"))

    found = cached.embed_layers(SENTENCES)
    assert all(layers.dtype == np.float32 for layers in found)
    exact = small_embedder().embed_layers(SENTENCES)
    assert_agree(found, [layers.astype(np.float16) for layers in exact])


def test_array_belongs_to_whoever_asked_for_it(tmp_path: Path) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / "all.npz"))
    for layer in ("average", 0):
        before = cached.embed([["bank"]], layer)[0].copy()
        cached.embed([["bank"]], layer)[0][:] = 7

        assert np.array_equal(cached.embed([["bank"]], layer)[0], before)


# Which layer


def test_layer_that_the_file_does_not_hold_is_refused(tmp_path: Path) -> None:
    cached = CachedEmbedder(one_layer(tmp_path / "one.h5", 1, layers=1))

    assert len(cached.embed(SENTENCES, 1)) == len(SENTENCES)
    with pytest.raises(InputError, match="holds layer '1', not 'average'; ask for that one"):
        cached.embed(SENTENCES)
    with pytest.raises(InputError, match="holds layer '1', not 'mix'"):
        cached.embed(SENTENCES, ScalarMix(3))
    with pytest.raises(InputError, match=r"holds layer '1', not 'all'; .* --layers all"):
        cached.embed_layers(SENTENCES)


def test_file_that_does_not_tell_its_layer_needs_to_be_told(tmp_path: Path) -> None:
    path = one_layer(tmp_path / "one.h5")

    with pytest.raises(InputError, match=r"does not tell which layer .*holds='average'\)"):
        CachedEmbedder(path).embed(SENTENCES)
    with pytest.raises(InputError, match="does not tell which layer"):
        CachedEmbedder(path).embed(SENTENCES, ScalarMix(3))
    assert_equal(
        CachedEmbedder(path, holds="average").embed(SENTENCES), small_embedder().embed(SENTENCES)
    )


def test_file_is_believed_before_its_reader(tmp_path: Path) -> None:
    path = one_layer(tmp_path / "one.h5", layers="average")

    assert CachedEmbedder(path, holds="average").embed(SENTENCES)
    with pytest.raises(InputError, match="holds 'average' by its own account, not 'top'"):
        CachedEmbedder(path, holds="top")


# Which sentence


def test_sentence_that_is_not_there_is_named(tmp_path: Path, suffix: str) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / f"all{suffix}"))

    with pytest.raises(InputError, match="no vectors for sentence 1, 'the river bank'") as error:
        cached.embed([["bank"], ["the", "river", "bank"]])

    assert "elmo embed" in str(error.value)


def test_sentences_that_share_a_hash_are_told_apart(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_embedder, "hash_of", lambda spelling: 7)
    cached = CachedEmbedder(all_layers(tmp_path / f"all{suffix}"))

    assert_equal(cached.embed(SENTENCES), small_embedder().embed(SENTENCES))
    with pytest.raises(InputError, match="no vectors for sentence 0"):
        cached.embed([["other"]])


def test_words_with_spaces_are_not_taken_for_several(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    items = [(["a b"], np.full((1, 2), 1)), (["a", "b"], np.full((2, 2), 2))]
    write_vectors(path, items, description={"layers": "average"})

    cached = CachedEmbedder(path)

    assert cached.embed([["a", "b"]])[0].tolist() == [[2, 2], [2, 2]]
    with pytest.raises(InputError, match="no vectors"):
        cached.embed([["a", "b", ""]])


def test_lone_surrogates_are_dropped_as_models_drop_them(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, [(["a\ud800", "b"], np.ones((2, 3)))])

    assert CachedEmbedder(path, holds="average").embed([["a\ud800", "b"]])[0].shape == (2, 3)


def test_streams_give_what_lists_give(tmp_path: Path) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / "a.h5"))
    assert_equal(list(cached.embed_stream(iter(SENTENCES), "top")), cached.embed(SENTENCES, "top"))
    assert_equal(list(cached.embed_stream(SENTENCES, "all")), cached.embed_layers(SENTENCES))


def test_what_only_a_model_has_is_told_to_be_missing(tmp_path: Path) -> None:
    cached: Any = CachedEmbedder(all_layers(tmp_path / "a.h5"))
    for name in ("bilm", "encode", "tokenize", "split"):
        with pytest.raises(AttributeError, match=f"'{name}': it .* take an Embedder for that"):
            getattr(cached, name)
    assert not hasattr(cached, "state")


def test_last_of_equal_sentences_is_found(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write_vectors(path, ((["a", "b"], np.full((2, 3), n)) for n in range(5)))

    assert (CachedEmbedder(path, holds="average").embed([["a", "b"]])[0] == 4).all()


# Which file


def test_file_of_the_allennlp_command_will_do(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.hdf5", "w") as file:
        file["0"] = np.ones((3, 2, 4), dtype=np.float32)
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = '{"a b": "0"}'

    cached = CachedEmbedder(tmp_path / "old.hdf5")

    assert cached.embed_layers([["a", "b"]])[0].shape == (3, 2, 4)
    assert cached.embed([["a", "b"]])[0].tolist() == np.ones((2, 4)).tolist()


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_pooled_vectors_are_refused(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    path = tmp_path / f"pooled{suffix}"
    # As many words as layers: only the description tells them apart.
    write_vectors(path, [(["a", "b", "c"], np.ones(shape))], description={"pool": "mean"})

    with pytest.raises(InputError, match=r"a vector for each sentence, .* --pool none"):
        CachedEmbedder(path)


def test_file_without_sentences_or_vectors_is_refused(tmp_path: Path, suffix: str) -> None:
    write_vectors(tmp_path / f"none{suffix}", [])
    with pytest.raises(InputError, match="holds no vectors"):
        CachedEmbedder(tmp_path / f"none{suffix}")

    with pytest.raises(InputError, match="has no sentences to look up"):
        CachedEmbedder(all_layers(tmp_path / f"all{suffix}", keep_sentences=False))


# Workers


def test_pickled_one_finds_the_same(tmp_path: Path, suffix: str) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / f"all{suffix}"))
    copy = pickle.loads(pickle.dumps(cached))
    expected = cached.embed(SENTENCES)
    cached.close()

    assert_equal(copy.embed(SENTENCES), expected)
    with pytest.raises(InputError, match="is closed"):
        cached.embed(SENTENCES)


class Sentences:
    """A dataset whose items are looked up by the worker."""

    def __init__(self, cached: CachedEmbedder) -> None:
        self.cached = cached

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> np.ndarray:
        return self.cached.embed([SENTENCES[number % len(SENTENCES)]])[0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader_find_the_same(tmp_path: Path, suffix: str) -> None:
    cached = CachedEmbedder(all_layers(tmp_path / f"all{suffix}"))
    loader = DataLoader(Sentences(cached), batch_size=4, num_workers=2, collate_fn=list)  # type: ignore

    found = [vectors for batch in loader for vectors in batch]

    assert_equal(found, cached.embed(SENTENCES) * 8)
