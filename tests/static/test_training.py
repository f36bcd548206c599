"""Training equals gensim called directly, and goes from files to a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from closeness import assert_close
from helpers import Heard, error_of
from static.small_vectors import random_sentences

from elmokit.errors import ConfigError, ElmoError, FormatError, InputError
from elmokit.io.text_files import TextSettings
from elmokit.static.training import (
    TrainingSettings,
    skip_gram_pairs,
    train_from_files,
    train_vectors,
)
from elmokit.static.vectors import StaticVectors

models = pytest.importorskip("gensim.models", reason="the extra static is not installed")

WHITESPACE = TextSettings()


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{"size": 6, "epochs": 2, "threads": 1, "buckets": 50} | changes)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in random_sentences()))
    return path


@pytest.mark.parametrize("method", ["skip-gram", "cbow", "fasttext"])
def test_vectors_equal_those_of_gensim_called_directly(method: Any) -> None:
    sentences = random_sentences()
    trained = train_vectors(
        sentences, settings(method=method, seed=7, window=3, min_count=2, negative=4)
    )
    kind = models.FastText if method == "fasttext" else models.Word2Vec
    buckets = {"bucket": 50} if method == "fasttext" else {}
    direct = kind(
        sentences,
        vector_size=6,
        window=3,
        min_count=2,
        negative=4,
        sg=int(method != "cbow"),
        epochs=2,
        workers=1,
        seed=7,
        **buckets,
    ).wv
    assert trained.vectors.words == direct.index_to_key
    assert np.array_equal(trained.vectors.rows(range(len(direct))), direct.vectors)
    assert (trained.sentences, trained.words) == (200, 2000)


def test_the_most_frequent_words_are_kept() -> None:
    sentences = [["a"] * 30, ["b"] * 20, ["c"] * 10] * 5
    trained = train_vectors(sentences, settings(max_words=2))
    assert trained.vectors.words == ["a", "b"]


def test_progress_goes_over_all_epochs() -> None:
    heard = Heard()
    train_vectors(random_sentences(), settings(epochs=3), observer=heard)
    assert heard.stages["counting words"][-1] == (2000, None)
    assert heard.stages["training"][0] == (0, 6000)
    assert heard.stages["training"][-1] == (6000, None)


def test_an_error_in_a_later_reading_is_raised_and_does_not_hang() -> None:
    class Failing:
        readings = 0

        def __iter__(self) -> Iterator[list[str]]:
            self.readings += 1
            for sentence in random_sentences():
                yield sentence
                if self.readings > 1:
                    raise FormatError("the disk is gone")

    assert "the disk is gone" in error_of(train_vectors, Failing(), settings(), kind=FormatError)


def test_text_of_rare_words_only_is_refused() -> None:
    with pytest.raises(InputError, match="none of 2 words comes 5 times"):
        train_vectors([["a", "b"]], settings())


def test_files_train_as_their_sentences_do(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "v.bin"
    trained = train_from_files([text], output, settings(), text=WHITESPACE)
    direct = train_vectors(random_sentences(), settings()).vectors
    found = StaticVectors.load(output)
    assert found.words == direct.words
    assert np.array_equal(found.rows(range(len(found))), direct.rows(range(len(direct))))
    assert (len(trained.vectors), trained.words, trained.sentences) == (30, 2000, 200)
    assert [path.name for path in output.parent.iterdir()] == ["v.bin"]


def test_raw_text_is_split_and_lowered(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("The cat sat. The dog sat!\n" * 20)
    output = tmp_path / "v.safetensors"
    train_from_files([tmp_path / "raw.txt"], output, settings(), lowercase=True)
    found = StaticVectors.load(output)
    assert sorted(found.words) == ["!", ".", "cat", "dog", "sat", "the"]
    assert (found.name, found.tokenizer.name) == ("word2vec", "default")
    assert found.find("dogs") is None  # only fastText has subwords


def test_fasttext_s_own_file_keeps_the_subwords(text: Path, tmp_path: Path) -> None:
    fast = settings(method="fasttext")
    train_from_files([text], tmp_path / "v.bin", fast, text=WHITESPACE)
    direct = train_vectors(random_sentences(), fast).vectors
    found = StaticVectors.load(tmp_path / "v.bin")
    assert found.name == "fastText"
    assert_close(found.vector("w3"), direct.vector("w3"))
    assert_close(found.vector("w3xyz"), direct.vector("w3xyz"))
    assert "w3xyz" not in found


def test_what_is_there_is_replaced_only_by_force(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "v.vec"
    output.write_text("old")
    with pytest.raises(InputError, match=r"v\.vec: is there already"):
        train_from_files([text], output, settings(), text=WHITESPACE)
    assert output.read_text() == "old"
    train_from_files([text], output, settings(), text=WHITESPACE, force=True)
    assert output.read_text().startswith("30 6\n")


@pytest.mark.parametrize("name", ["v", "v.model", "v.txt.gz"])
def test_a_name_of_no_format_is_refused_before_training(text: Path, name: str) -> None:
    with pytest.raises(ElmoError, match=r"give a name that ends in one of \.safetensors, \.txt"):
        train_from_files([text], text.with_name(name), settings(), text=WHITESPACE)


def test_bad_text_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"a b\nc \xff\n")
    with pytest.raises(FormatError, match=r"text\.txt, line 2: is not UTF-8"):
        train_from_files([tmp_path / "text.txt"], tmp_path / "v.vec", settings())
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


# Skip-gram pairs

SENTENCE = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


def test_pairs_are_those_of_the_tutorials_picture() -> None:
    pairs = list(chain.from_iterable(skip_gram_pairs(SENTENCE, window=2)))
    assert pairs[:13] == [
        *[("the", "quick"), ("the", "brown")],
        *[("quick", "the"), ("quick", "brown"), ("quick", "fox")],
        *[("brown", "the"), ("brown", "quick"), ("brown", "fox"), ("brown", "jumps")],
        *[("fox", "quick"), ("fox", "brown"), ("fox", "jumps"), ("fox", "over")],
    ]
    assert pairs[-2:] == [("dog", "the"), ("dog", "lazy")]
    assert len(pairs) == 2 + 3 + 4 * 5 + 3 + 2
    assert skip_gram_pairs(["fox"], window=2) == [[]]
    assert skip_gram_pairs([], window=2) == []
    assert "window is 0" in error_of(skip_gram_pairs, SENTENCE, window=0, kind=ConfigError)
