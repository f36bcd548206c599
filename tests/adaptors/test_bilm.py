"""bilm-tf's calls, against its own fixture and the plain spelling of words."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from adaptors.allennlp_samples import SENTENCES, Files
from closeness import assert_agree
from helpers import error_of, write, write_sentences

from elmokit import batch_to_ids
from elmokit.adaptors.allennlp import ElmoEmbedder
from elmokit.adaptors.bilm import Batcher, TokenBatcher, dump_bilm_embeddings


def test_characters_are_wrapped_in_markers() -> None:
    ids = Batcher("never read", 50).batch_sentences([*SENTENCES, []])

    assert (ids.shape, ids.dtype) == ((4, 6, 50), np.int64)
    assert np.array_equal(ids[0, 1:5], batch_to_ids(SENTENCES)[0])
    assert ids[:, 0, 1].tolist() == [257] * 4
    assert [ids[row, end, 1] for row, end in enumerate([5, 3, 4, 1])] == [258] * 4
    assert not ids[1, 4:].any()


def test_words_are_numbered_from_1(tmp_path: Path) -> None:
    words = write(tmp_path / "words.txt", ["<S>", "</S>", "<UNK>", "The", "bank"])

    ids = TokenBatcher(words).batch_sentences([["The", "river", "bank"], ["The"]])

    assert ids.tolist() == [[1, 4, 3, 5, 2], [1, 4, 2, 0, 0]]
    assert "nowhere" in error_of(TokenBatcher, tmp_path / "nowhere")


def test_no_sentences_give_no_ids() -> None:
    assert len(Batcher().batch_sentences([])) == 0


def test_dumped_lines_continue_one_another(files: Files, tmp_path: Path) -> None:
    text = write_sentences(tmp_path / "text", SENTENCES)

    dump_bilm_embeddings(None, text, *files, tmp_path / "out.hdf5")

    expected = list(ElmoEmbedder(*files).embed_sentences(SENTENCES, batch_size=1))
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "2"}
        assert_agree([file[str(n)][...] for n in range(3)], expected)
    error_of(dump_bilm_embeddings, None, tmp_path / "no", *files, tmp_path / "o", after=tmp_path)
