"""Words to token vectors: what everything that reads words with a biLM must agree on."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from elmokit.config import CharacterEncoderConfig, ModelConfig, WordEncoderConfig
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.text.characters import character_ids
from elmokit.text.vocabulary import BEGIN, END, Vocabulary


def encode_words(bilm: BiLM, vocabulary: Vocabulary | None, words: Sequence[str]) -> Tensor:
    """Token vectors (words, token_size) of distinct words, sentence markers among them."""
    encoder = bilm.config.encoder
    if isinstance(encoder, CharacterEncoderConfig):
        ids = torch.from_numpy(character_ids(words, encoder.max_characters))
    else:
        assert vocabulary is not None  # see check_word_input
        # Row 0 of the table is padding.
        ids = torch.tensor([vocabulary.id_of(word) + 1 for word in words])
    return bilm.encoder(ids.to(next(bilm.parameters()).device))


def max_characters(config: ModelConfig) -> int:
    """Positions per word, or as good as no limit for a model that reads whole words."""
    encoder = config.encoder
    return encoder.max_characters if isinstance(encoder, CharacterEncoderConfig) else sys.maxsize


def check_word_input(config: ModelConfig, vocabulary: Vocabulary | None) -> None:
    """Refuse a word-input model without the words its table is of."""
    encoder = config.encoder
    if not isinstance(encoder, WordEncoderConfig):
        return
    if vocabulary is None:
        raise InputError("this model reads words, not characters: give its vocabulary file too")
    if len(vocabulary) != encoder.words:
        raise InputError(f"the vocabulary has {len(vocabulary)} words, the model {encoder.words}")
    for marker, number in ((BEGIN, encoder.begin_id), (END, encoder.end_id)):
        if marker not in vocabulary or vocabulary.id_of(marker) + 1 != number:
            raise InputError(f"the vocabulary does not have {marker!r} as word {number - 1}")


def check_device(device: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(f"device {str(device)!r} cannot be used ({why}); use 'cpu'") from None
    if found.type == "meta":
        raise InputError("device 'meta' holds no numbers; use 'cpu'")
    return found
