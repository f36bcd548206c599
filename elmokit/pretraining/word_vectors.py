"""A word-input model that starts from vectors somebody else has trained."""

from __future__ import annotations

import torch

from elmokit.errors import InputError
from elmokit.formats.word_vectors import read_word_vectors
from elmokit.model.bilm import BiLM
from elmokit.model.word_encoder import WordEncoder
from elmokit.text.vocabulary import Vocabulary


def start_from_vectors(bilm: BiLM, vocabulary: Vocabulary, path: str) -> int:
    """Put the vectors of a text file in the place of random ones; give how many it had."""
    assert isinstance(bilm.encoder, WordEncoder)  # the config was checked
    found = read_word_vectors(path, wanted=set(vocabulary.words))
    size = bilm.config.token_size
    if not found.words:
        raise InputError(f"{path}: has none of the vocabulary's {len(vocabulary):,} words")
    if found.vectors.shape[1] != size:
        raise InputError(
            f"{path}: its vectors have {found.vectors.shape[1]} numbers and the model's {size}; "
            "set model.token_size to fit"
        )
    # Row 0 of the table is padding.
    rows = torch.tensor([vocabulary.id_of(word) + 1 for word in found.words])
    with torch.no_grad():
        bilm.encoder.words.weight[rows] = torch.from_numpy(found.vectors)
    return len(found.words)
