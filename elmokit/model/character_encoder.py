"""Character encoder: words from their characters by convolutions, highways, projection."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    CHARACTERS,
    END_SENTENCE,
    END_WORD,
    WORD_PADDING,
    CharacterEncoderConfig,
)
from elmokit.model.weights import watch_optimisers

WORDS_PER_GROUP = 512
"""Words of similar length that are encoded together: bounds the memory that many words take."""


class Highway(nn.Module):
    """gate * relu(transform) + (1 - gate) * input, as the published files store it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Pass (words, size) through, changed as far as the gate is open."""
        gate = torch.sigmoid(self.gate(vectors))
        transformed = functional.relu(self.transform(vectors))
        # Under autocast the products are of another type, which lerp does not mix.
        return torch.lerp(vectors, transformed.to(vectors), gate.to(vectors))


class CharacterEncoder(nn.Module):
    """Token vectors that depend on a word's characters alone."""

    def __init__(self, config: CharacterEncoderConfig, token_size: int) -> None:
        super().__init__()
        self.config = config
        self.characters = nn.Embedding(CHARACTERS, config.character_size, padding_idx=0)
        self.convolutions: Iterable[nn.Conv1d]
        self.convolutions = nn.ModuleList(  # type: ignore[assignment]
            nn.Conv1d(config.character_size, number, width) for width, number in config.filters
        )
        self.highways: Iterable[Highway]
        self.highways = nn.ModuleList(  # type: ignore[assignment]
            Highway(config.filter_count) for _ in range(config.highways)
        )
        # Equal sizes need no projection; published files then have none.
        self.projection = (
            nn.Linear(config.filter_count, token_size)
            if config.filter_count != token_size
            else None
        )
        self.initialise()

    def forward(self, character_ids: Tensor) -> Tensor:
        """Encode words (words, max_characters) as token vectors (words, token_size)."""
        lengths = character_lengths(character_ids)
        if len(character_ids) <= WORDS_PER_GROUP:
            return self.encode(self.trim(character_ids, lengths))
        # Short words pass through short windows, instead of all through the longest one.
        order = lengths.argsort()
        groups = torch.split(order, WORDS_PER_GROUP)
        parts = [self.encode(self.trim(character_ids[g], lengths[g])) for g in groups]
        return torch.cat(parts)[order.argsort()]

    def encode(self, character_ids: Tensor) -> Tensor:
        """Token vectors (words, token_size) of words that have been trimmed alike."""
        features = self.convolve(character_ids)
        for highway in self.highways:
            features = highway(features)
        vectors = features if self.projection is None else self.projection(features)
        if vectors.requires_grad:
            watch_optimisers()
        return vectors

    @property
    def begin_marker(self) -> Tensor:
        """The word that begins a sentence, (max_characters,)."""
        return marker(BEGIN_SENTENCE, self.config.max_characters)

    @property
    def end_marker(self) -> Tensor:
        """The word that ends a sentence, (max_characters,)."""
        return marker(END_SENTENCE, self.config.max_characters)

    def trim(self, character_ids: Tensor, lengths: Tensor) -> Tensor:
        """Cut (words, characters) to the positions that can decide the result.

        The convolutions see padding characters, so a word needs one window of nothing but padding
        after its end; every further such window has the same value and cannot change the maximum.
        """
        longest = int(lengths.max()) if len(lengths) else 0
        return character_ids[:, : longest + self.config.max_width]

    def convolve(self, character_ids: Tensor) -> Tensor:
        """Largest response of every filter, (words, characters) to (words, filters)."""
        characters = self.characters(character_ids.long())
        # Bias and activation never turn an order, so they may follow the maximum, on fewer numbers.
        responses = []
        for filters in self.convolutions:
            # One matrix product over all windows: about three times as fast as conv1d on a CPU.
            windows = characters.unfold(1, filters.kernel_size[0], 1).flatten(2)
            strongest = (windows @ filters.weight.flatten(1).t()).amax(1)
            responses.append(strongest if filters.bias is None else strongest + filters.bias)
        activation = torch.relu if self.config.activation == "relu" else torch.tanh
        return activation(torch.cat(responses, dim=-1))

    def initialise(self) -> None:
        """Start from the values of the original training code."""
        with torch.no_grad():
            self.characters.weight.uniform_(-1.0, 1.0)
            self.characters.weight[0].zero_()
            for convolution in self.convolutions:
                nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
                if self.config.activation == "relu":
                    nn.init.uniform_(convolution.weight, -0.05, 0.05)
                else:
                    fan_in = convolution.in_channels * convolution.kernel_size[0]
                    nn.init.normal_(convolution.weight, std=1 / math.sqrt(fan_in))
            for highway in self.highways:
                initialise_linear(highway.gate, bias=-2.0)
                initialise_linear(highway.transform)
            if self.projection is not None:
                initialise_linear(self.projection)


def marker(mark: int, max_characters: int) -> Tensor:
    """A sentence marker as a word: (max_characters,) character ids."""
    word = torch.full((max_characters,), WORD_PADDING)
    word[:3] = torch.tensor([BEGIN_WORD, mark, END_WORD])
    return word


def character_lengths(character_ids: Tensor) -> Tensor:
    """Characters of each word up to its last one that is not padding, (words,)."""
    positions = torch.arange(1, character_ids.shape[1] + 1, device=character_ids.device)
    return ((character_ids != WORD_PADDING) * positions).amax(1)


def initialise_linear(linear: nn.Linear, bias: float = 0.0) -> None:
    """N(0, 1 / sqrt(inputs)) and a constant bias."""
    nn.init.normal_(linear.weight, std=1 / math.sqrt(linear.in_features))
    nn.init.constant_(linear.bias, bias)
