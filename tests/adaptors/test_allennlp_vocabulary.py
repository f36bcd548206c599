"""Words whose token vectors are computed once: `vocab_to_cache` and `word_inputs`."""

from __future__ import annotations

import pytest
import torch
from adaptors.allennlp_samples import SENTENCES, VOCABULARY, Files, assert_same, word_ids
from closeness import assert_close

from elmokit.adaptors.allennlp import Elmo, batch_to_ids
from elmokit.errors import ElmoWarning


def encoded_words(elmo: Elmo) -> list[int]:
    """How many words each run of the character encoder reads from now on."""
    counts: list[int] = []
    elmo._elmo_lstm.bilm.encoder.register_forward_pre_hook(
        lambda _, inputs: counts.append(len(inputs[0]))
    )
    return counts


def test_cached_vocabulary_gives_what_the_characters_give(files: Files) -> None:
    plain = Elmo(*files, 2, dropout=0.0)
    cached = Elmo(*files, 2, dropout=0.0, vocab_to_cache=VOCABULARY)

    for batch in (SENTENCES, SENTENCES[1:], SENTENCES):
        assert_same(cached(batch_to_ids(batch), word_ids(batch)), plain(batch_to_ids(batch)))


def test_cached_words_need_no_characters_and_are_computed_once(files: Files) -> None:
    sentences = [["The", "bank", "."], ["A", "river"]]
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    plain = Elmo(*files, 1, dropout=0.0, stateful=False)
    counts = encoded_words(cached)

    for _ in range(3):
        found = cached(torch.zeros(2, 3, 50, dtype=torch.int64), word_ids(sentences))
        assert_same(found, plain(batch_to_ids(sentences)))

    markers = 2
    assert sorted(counts) == [markers, markers, markers, len(VOCABULARY)]


@pytest.mark.parametrize("missing_id", [len(VOCABULARY), 10_000, -1])
def test_words_outside_the_cache_are_read_from_their_own_characters_only(
    files: Files, missing_id: int
) -> None:
    sentences = [["The", "bank", "talks"], ["talks", "loudly"]]
    ids = word_ids(sentences)
    ids[ids == 1] = missing_id
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    cached(batch_to_ids(sentences[:1]), word_ids(sentences[:1]))
    counts = encoded_words(cached)

    found = cached(batch_to_ids(sentences), ids)

    assert_same(found, Elmo(*files, 1, dropout=0.0, stateful=False)(batch_to_ids(sentences)))
    assert counts == [4]  # two markers, "talks", "loudly"


def test_cached_vectors_follow_an_encoder_that_has_changed(
    files: Files, other_files: Files
) -> None:
    cached = Elmo(*files, 1, dropout=0.0, stateful=False, vocab_to_cache=VOCABULARY)
    other = Elmo(*other_files, 1, dropout=0.0, stateful=False)
    cached(batch_to_ids(SENTENCES), word_ids(SENTENCES))

    cached.load_state_dict(other.state_dict())

    ids = batch_to_ids(SENTENCES)
    assert_same(cached(ids, word_ids(SENTENCES)), other(ids))


def test_cached_words_of_a_trained_biLM_still_train_its_encoder(files: Files) -> None:
    gradients = []
    for vocabulary in (VOCABULARY, None):
        elmo = Elmo(*files, 1, requires_grad=True, dropout=0.0, vocab_to_cache=vocabulary)
        words = word_ids(SENTENCES) if vocabulary else None
        elmo(batch_to_ids(SENTENCES), words)["elmo_representations"][0].square().sum().backward()
        gradients.append(elmo._elmo_lstm.bilm.encoder.characters.weight.grad)

    assert_close(*gradients)


def test_word_inputs_without_a_cached_vocabulary_are_reported(files: Files) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, stateful=False)
    ids = batch_to_ids(SENTENCES)

    with pytest.warns(ElmoWarning, match="word_inputs are not used"):
        found = elmo(ids, word_ids(SENTENCES))

    assert_same(found, elmo(ids))
