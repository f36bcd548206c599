"""Static vectors: looked up, compared, and embedded as an Embedder does it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from closeness import assert_close
from helpers import Heard, error_of
from small_models import small_embedder
from static.small_vectors import TABLE, WORDS, random_vectors, small_vectors

from elmokit.errors import ElmoError, InputError
from elmokit.static.vectors import StaticVectors


def test_a_word_has_the_vector_of_its_exact_form_or_its_lower_case_or_zeros() -> None:
    sentences = [["river", "bank", "zebra"], ["Bank", "King", "KING", ""]]
    first, second = small_vectors().embed(sentences)
    assert first.dtype == np.float32
    assert first.tolist() == [*TABLE[[6, 5]].tolist(), [0, 0, 0]]
    assert second.tolist() == [*TABLE[[5, 4, 0]].tolist(), [0, 0, 0]]
    assert not small_vectors(lowercase=False).embed([["KING"]])[0].any()


def test_there_is_one_layer() -> None:
    vectors = small_vectors()
    (layers,) = vectors.embed_layers([["king", "bank"]])
    assert layers.shape == (1, 2, 3)
    for layer in ("average", "top", 0):
        assert np.array_equal(vectors.embed([["king", "bank"]], layer)[0], layers[0])
    with pytest.raises(InputError, match="layers is 1; static vectors have one"):
        vectors.embed([["king"]], 1)


def test_subwords_give_unknown_words_a_vector() -> None:
    vectors = small_vectors(
        subwords=lambda word: np.full(3, len(word), np.float32) if word else None
    )
    assert vectors.embed([["zebra", "king", ""]])[0].tolist() == [[5, 5, 5], [1, 0, 1], [0, 0, 0]]
    assert "zebra" not in vectors
    assert vectors.similarity("zebra", "horses") == pytest.approx(1)


def test_texts_are_encoded_as_the_mean_of_their_known_words() -> None:
    found = small_vectors().encode(["king zebra queen", "zebra", ""])
    assert found.tolist() == [[0.5, 0.5, 1.0], [0, 0, 0], [0, 0, 0]]
    assert small_vectors().encode([]).shape == (0, 3)
    assert small_vectors().encode("king queen zebra", pool="max").tolist() == [1, 1, 1]


def test_the_face_is_that_of_an_embedder() -> None:
    static, elmo = small_vectors(), small_embedder()
    for one in (static, elmo):
        sentences = [["king", "bank"], [], ["river"]]
        words = [len(vectors) for vectors in one.embed(sentences)]
        assert words == [2, 0, 1]
        assert [len(vectors) for vectors in one.embed_stream(iter(sentences))] == words
        streamed = list(one.embed_stream(iter(sentences), "all"))
        assert [vectors.shape[-2:] for vectors in streamed] == [(n, one.vector_size) for n in words]
        texts, heard = ["a king", "bank"], Mock()
        units = one.encode(texts, "top", "max", normalize=True, progress=heard)
        assert_close(np.linalg.norm(units, axis=1), [1, 1])
        assert [told.args for told in heard.call_args_list] == [(1, 2), (2, 2)]
        assert np.array_equal(one.encode("bank"), one.encode(["bank"])[0])
        assert "pool is 'sum'" in error_of(one.encode, texts, pool="sum", kind=ElmoError)
        assert one.tokenize("a king") == ["a", "king"]
        assert one.split("a king\nhere") == [["a", "king"], ["here"]]
        assert "expected a list of sentences" in error_of(one.embed, "a king", kind=InputError)
        assert "expected a list of texts" in error_of(one.encode, None, kind=InputError)


def test_king_without_man_and_with_woman_is_queen() -> None:
    found = small_vectors().analogy(["king", "woman"], ["man"], top=2)
    assert found[0].word == "queen"
    assert {one.word for one in found}.isdisjoint({"king", "King", "woman", "man"})


def test_a_model_s_vectors_of_a_word_are_averaged_over_a_text() -> None:
    embedder, heard = small_embedder(), Heard()
    sentences = [["a", "b", "a"], [], ["c", "a", "b"], ["Bank"]]
    found = StaticVectors.from_model(embedder, sentences, 1, min_count=2, observer=heard)
    words = np.concatenate(embedder.embed(sentences, 1))
    assert found.words == ["a", "b"]
    assert_close(found.rows([0, 1]), [words[[0, 2, 4]].mean(0), words[[1, 5]].mean(0)])
    assert heard.stages["embedding"][-1] == (7, None)
    assert (found.name, found.description["layers"]) == ("ELMo mean", "1")
    fewer = StaticVectors.from_model(embedder, sentences, min_count=1, max_words=3)
    assert fewer.words == ["a", "b", "c"]
    assert "no word comes 5 times" in error_of(StaticVectors.from_model, embedder, sentences)
    assert "is 'all'" in error_of(StaticVectors.from_model, embedder, sentences, "all")


def test_text_that_cannot_be_read_twice_gives_no_vectors() -> None:
    class OneFewer(list[list[str]]):
        def __iter__(self) -> Iterator[list[str]]:
            return iter([self.pop()] * len(self))

    from_model = partial(StaticVectors.from_model, small_embedder(), min_count=1)
    assert "generator once; give a list" in error_of(from_model, (one for one in [["a", "b"]]))
    assert " words, then 2; give a list" in error_of(from_model, OneFewer([["a", "b"]] * 4))


def test_analogy_and_neighbours_equal_gensim_s() -> None:
    pytest.importorskip("gensim.models.keyedvectors", reason="the extra static")
    vectors = random_vectors()
    keyed = vectors.to_gensim()
    assert keyed.index_to_key == vectors.words
    assert vectors.to_gensim(words=3).index_to_key == vectors.words[:3]
    ours = vectors.analogy(["w1", "w2"], ["w4"], top=5)
    theirs = keyed.most_similar(["w1", "w2"], ["w4"], topn=5)
    assert [one.word for one in ours] == [word for word, _ in theirs]
    assert_close([one.cosine for one in ours], [one for _, one in theirs])
    assert [one.word for one in vectors.neighbours("w7", 5)] == [
        word for word, _ in keyed.most_similar("w7", topn=5)
    ]


def test_a_word_without_a_vector_is_named_with_near_forms() -> None:
    with pytest.raises(InputError, match=r"'banks' has no vector in static vectors; near .* bank"):
        small_vectors().similarity("banks", "king")
    with pytest.raises(InputError, match=r"'zebra' has no vector in .*; try another word"):
        small_vectors().neighbours("zebra")


def test_half_precision_is_computed_with_in_single_precision() -> None:
    vectors = small_vectors()
    halved = StaticVectors(WORDS, TABLE.astype(np.float16))
    assert halved.similarity("king", "bank") == pytest.approx(
        vectors.similarity("king", "bank"), abs=1e-3
    )
    assert halved.embed([["bank"]])[0].dtype == np.float32


def test_many_words_are_compared_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = random_vectors()
    whole = vectors.neighbours("w7", 5)
    monkeypatch.setattr("elmokit.static.vectors.ROWS_AT_ONCE", 7)
    assert [one.word for one in random_vectors().neighbours("w7", 5)] == [one.word for one in whole]


def test_a_zero_vector_is_like_no_other_and_the_first_of_equal_ones_comes_first() -> None:
    table = [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 0.0]]
    vectors = StaticVectors(["a", "b", "c", "zero"], table)
    assert vectors.similarity("a", "zero") == 0
    assert vectors.neighbours("b") == [("a", 0), ("c", 0), ("zero", 0)]
    assert vectors.neighbours("a") == [("c", 1), ("b", 0), ("zero", 0)]
    assert vectors.neighbours("a", top=1) == [("c", 1)]


@pytest.mark.parametrize(
    ("words", "table"),
    [(["a"], [[1.0], [2.0]]), (["a"], [1.0]), ([], np.zeros((0, 2))), (["a", "a"], [[1.0], [2.0]])],
)
def test_a_table_of_another_shape_and_a_word_given_twice_are_errors(
    words: list[str], table: object
) -> None:
    with pytest.raises(InputError, match=r"give \(words, size\)|a word twice"):
        StaticVectors(words, table)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.bin", "v.safetensors"])
def test_saved_vectors_are_loaded_again(tmp_path: Path, name: str) -> None:
    small_vectors(description={"method": "cbow"}).save(tmp_path / name)
    found = StaticVectors.load(tmp_path / name)
    assert found.words == WORDS
    assert_close(found.rows(range(7)), TABLE.astype(np.float16))
    if name.endswith(".safetensors"):
        assert (found.name, found.tokenizer.name) == ("word2vec", "whitespace")
    else:
        assert (found.name, found.tokenizer.name) == ("v", "default")


def test_the_first_words_can_be_saved_alone(tmp_path: Path) -> None:
    small_vectors().save(tmp_path / "v.txt", words=2)
    assert StaticVectors.load(tmp_path / "v.txt").words == WORDS[:2]
