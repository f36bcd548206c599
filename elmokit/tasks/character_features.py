"""Features of a word's spelling that a task learns: the character CNN of taggers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmokit.config import CharacterEncoderConfig
from elmokit.model.character_encoder import CharacterEncoder
from elmokit.text.characters import MAX_CHARACTERS, character_ids


class CharacterFeatures(nn.Module):
    """Embeds the bytes of a word, convolves them, and keeps each filter's largest response.

    It is the biLM's character encoder without highways and projection, trained from scratch. The
    sizes are those of the paper's tagger.

    Args:
        filters: How many features a word has.
        width: Characters that a filter sees.
        character_size: Size of one character's embedding.
        max_characters: Positions per word, its begin and end marks included; longer ones are cut.
    """

    def __init__(
        self,
        *,
        filters: int = 128,
        width: int = 3,
        character_size: int = 16,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        super().__init__()
        config = CharacterEncoderConfig(
            filters=((width, filters),),
            character_size=character_size,
            max_characters=max_characters,
            highways=0,
        )
        self.size = filters
        self.max_characters = max_characters
        self.encoder = CharacterEncoder(config, token_size=filters)

    def forward(self, words: Sequence[str]) -> Tensor:
        """Features (words, size) of words, which should be distinct: each is computed."""
        ids = torch.from_numpy(character_ids(words, self.max_characters))
        return self.encoder(ids.to(self.encoder.characters.weight.device))
