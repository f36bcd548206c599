"""AllenNLP's biLM: it remembers the batch before, and the token vectors of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.adaptors.allennlp_names import rename_weights
from elmokit.config import CharacterEncoderConfig
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, BiLMState, Layers
from elmokit.model.versions import version_of
from elmokit.text.characters import UnusualWords, character_ids, short, without_markers

UNKNOWN = "@@UNKNOWN@@"
"""The word whose id AllenNLP's vocabularies give to every word they do not have."""


class StatefulBiLM(nn.Module):
    """A biLM in which row i of a batch continues row i of the batch before.

    Args:
        bilm: The language model; it must read characters.
        vocab_to_cache: Words whose token vectors are computed once. Entry 0 is the padding.
    """

    def __init__(self, bilm: BiLM, vocab_to_cache: Sequence[str] | None = None) -> None:
        super().__init__()
        if not isinstance(bilm.config.encoder, CharacterEncoderConfig):
            raise InputError("this model reads words, not characters; use elmokit.Embedder for it")
        self.bilm = bilm
        self.max_characters = bilm.config.encoder.max_characters
        self.vocabulary = (
            CachedVocabulary(vocab_to_cache, self.max_characters) if vocab_to_cache else None
        )
        self._state: BiLMState | None = None

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None, stateful: bool = True
    ) -> Layers:
        """Layers of character ids (batch, words, characters), markers included.

        `word_inputs` (batch, words) are ids of the cached vocabulary.
        """
        self.check(inputs, word_inputs)
        token_vectors, mask = self.token_vectors(inputs, word_inputs)
        state = self._state if stateful else None
        layers, after = self.bilm.contextualize(token_vectors, mask.sum(1), state)
        if stateful:
            self._state = after.detach()
        return layers

    def reset_state(self) -> None:
        """Start from zeros again."""
        self._state = None

    def check(self, inputs: Tensor, word_inputs: Tensor | None) -> None:
        """Refuse ids of the wrong shape."""
        if inputs.dim() != 3 or inputs.shape[-1] != self.max_characters:
            raise InputError(
                f"inputs have shape {tuple(inputs.shape)}; they must be "
                f"(batch, words, {self.max_characters}), as batch_to_ids makes them"
            )
        if word_inputs is not None and word_inputs.shape != inputs.shape[:2]:
            raise InputError(
                f"word_inputs have shape {tuple(word_inputs.shape)} beside inputs "
                f"{tuple(inputs.shape)}; give one id for each word"
            )

    def token_vectors(self, inputs: Tensor, word_inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words + 2, token_size), markers included, and their mask."""
        bilm, vocabulary = self.bilm, self.vocabulary
        if vocabulary is None or word_inputs is None:
            ids, mask = bilm.add_markers(inputs, bilm.mask(inputs))
            return bilm.encode(ids, mask), mask
        known, spellings = vocabulary.spell(word_inputs, inputs)
        ids, mask = bilm.add_markers(spellings, bilm.mask(spellings))
        if torch.is_grad_enabled() and any(p.requires_grad for p in bilm.encoder.parameters()):
            # Remembered vectors would have no gradients, and be out of date after a step.
            return bilm.encode(ids, mask), mask
        # What is left to encode: the two markers, and words that the vocabulary does not have.
        new = mask.clone()
        new[:, 1:-1] &= ~known
        vectors = bilm.encode(ids, new)
        vectors[:, 1:-1][known] = vocabulary.vectors(bilm)[word_inputs[known]]
        return vectors, mask

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Read what AllenNLP saved, too."""
        trained = any(parameter.requires_grad for parameter in self.bilm.parameters())
        rename_weights(state_dict, prefix, f"{prefix}bilm.", keep_cached_words=trained)
        super()._load_from_state_dict(state_dict, prefix, *args)


class CachedVocabulary(nn.Module):
    """Words by number: their spellings, and their token vectors once computed.

    Args:
        words: Word i has id i. Entry 0 is the padding symbol, whatever it is.
        max_characters: Positions per word.
    """

    spellings: Tensor  # (words, max_characters), zeros for the padding

    def __init__(self, words: Sequence[str], max_characters: int) -> None:
        super().__init__()
        if isinstance(words, str):
            raise InputError(f"vocab_to_cache is {short(words)}; give a list of words")
        words = list(words)
        UnusualWords(max_characters).note_all([without_markers(words[1:])])
        spellings = torch.from_numpy(character_ids(words, max_characters))
        spellings[0] = 0
        self.register_buffer("spellings", spellings, persistent=False)
        self.unknown_id = words.index(UNKNOWN) if UNKNOWN in words else -1
        self._vectors: Tensor | None = None
        self._made_from: object = None

    def spell(self, word_ids: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Which words (batch, words) are known, and the spelling of each word.

        A word that the vocabulary does not have is spelt as in `inputs`.
        """
        spelt = (inputs != 0).any(-1)
        known = (word_ids > 0) & (word_ids < len(self.spellings))
        known &= ~((word_ids == self.unknown_id) & spelt)
        nowhere = (word_ids != 0) & ~known & ~spelt
        if bool(nowhere.any()):
            raise InputError(
                f"word_inputs have id {int(word_ids[nowhere][0])}, vocab_to_cache has "
                f"{len(self.spellings)} words; give the characters of other words in inputs"
            )
        spellings = torch.where((word_ids != 0)[..., None], inputs, 0)
        spellings[known] = self.spellings[word_ids[known]].to(inputs)
        return known, spellings

    def vectors(self, bilm: BiLM) -> Tensor:
        """Token vectors (words, token_size), computed anew when the encoder has changed."""
        version = version_of(bilm.encoder.parameters())
        if self._vectors is None or version != self._made_from:
            with torch.no_grad():
                self._vectors = bilm.encoder(self.spellings)
            self._made_from = version
        return self._vectors
