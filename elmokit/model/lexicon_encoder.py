"""Lexicon encoder of ELMoForManyLangs: words from a table joined to words from characters."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from elmokit.config import LEXICON_MARKS, LexiconEncoderConfig
from elmokit.model.character_encoder import WORDS_PER_GROUP, CharacterEncoder, Highway
from elmokit.model.weights import watch_optimisers

PADDING, UNKNOWN, BEGIN, END, BEGIN_WORD, END_WORD = range(1, len(LEXICON_MARKS) + 1)


class LexiconEncoder(nn.Module):
    """Token vectors from a word's id and its characters, of an alphabet of the model's own.

    Ids are (words, 1 + max_characters): the word's, then its characters', each one more than its
    row in the table, so that zeros are a word that is not there.
    """

    def __init__(self, config: LexiconEncoderConfig, token_size: int) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.words, config.word_size) if config.word_size else None
        size, filters = config.character_size, config.filters if config.character_size else ()
        self.characters = nn.Embedding(config.characters, size) if size else None
        self.convolutions: Iterable[nn.Conv1d]
        self.convolutions = nn.ModuleList(  # type: ignore[assignment]
            nn.Conv1d(size, number, width) for width, number in filters
        )
        self.highways: Iterable[Highway]
        self.highways = nn.ModuleList(  # type: ignore[assignment]
            Highway(config.filter_count) for _ in range(config.highways if size else 0)
        )
        features = config.word_size + (config.filter_count if size else 0)
        self.projection = nn.Linear(features, token_size)

    @property
    def begin_marker(self) -> Tensor:
        """The word that begins a sentence, (1 + max_characters,)."""
        return self._marker(self.config.begin_id, BEGIN)

    @property
    def end_marker(self) -> Tensor:
        """The word that ends a sentence, (1 + max_characters,)."""
        return self._marker(self.config.end_id, END)

    def _marker(self, word_id: int, mark: int) -> Tensor:
        ids = torch.full((1 + self.config.max_characters,), PADDING)
        ids[0] = word_id
        # As everywhere in this format, the marks of a word's two ends have each other's name.
        ids[1:4] = torch.tensor([END_WORD, mark, BEGIN_WORD])
        return ids

    def forward(self, ids: Tensor) -> Tensor:
        """Encode words (words, 1 + max_characters) as token vectors (words, token_size)."""
        features = []
        if self.words is not None:
            features.append(self.words(ids[:, 0].long() - 1))
        if self.characters is not None:
            features.append(self._of_characters(ids[:, 1:]))
        vectors: Tensor = self.projection(torch.cat(features, dim=-1))
        if vectors.requires_grad:
            watch_optimisers()
        return vectors

    def _of_characters(self, ids: Tensor) -> Tensor:
        """What filters and highways make of (words, max_characters), similar lengths at a time."""
        lengths = (ids != PADDING).sum(1)
        order = lengths.argsort()
        parts = []
        for group in torch.split(order, WORDS_PER_GROUP):
            # Further windows of nothing but padding would have the same value.
            longest = int(lengths[group].max()) + self.config.max_width
            characters = ids[group, :longest] - 1
            features = CharacterEncoder.convolve(self, characters)  # type: ignore[arg-type]
            for highway in self.highways:
                features = highway(features)
            parts.append(features)
        return torch.cat(parts)[order.argsort()]
