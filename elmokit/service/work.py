"""What the model is asked for: each kind computes many requests' items in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from elmokit.embedder import Embedder, Layer, Vectors
from elmokit.errors import InputError
from elmokit.language_model import LanguageModel
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.prediction import Place, RankedWord, SentenceScore, WordProbability
from elmokit.reductions import Pool, Reduction, every_layer, reduced_size, reduction_of
from elmokit.text.characters import Sentence

COST_OF_SOFTMAX = 64
"""In words read: the odds of a whole vocabulary at one place."""


@dataclass(frozen=True)
class MixChoice:
    """A mix that somebody sends, as numbers."""

    weights: tuple[float, ...]
    gamma: float
    directions: bool
    """Whether each direction has weights of its own."""

    def mix(self, layers: int) -> ScalarMix | DirectionalMix:
        """The mix itself, of so many layers."""
        make: Callable[..., ScalarMix | DirectionalMix]
        make = DirectionalMix if self.directions else ScalarMix
        mix = make(layers, weights=self.weights, trainable=False)
        with torch.no_grad():
            mix.gamma.fill_(self.gamma)
        return mix


LayerChoice = Literal["average", "top", "all"] | int | MixChoice


@dataclass(frozen=True)
class Embedding:
    """Sentences of words to vectors."""

    embedder: Embedder
    layers: LayerChoice = "average"
    pool: Pool = "none"

    def compute(self, items: Sequence[Sentence]) -> Sequence[Vectors]:
        """An array for each sentence: (…, words, size), or (…, size) where it is pooled."""
        return self.embedder.embed_as(items, self.reduction())

    def cost(self, item: Sentence) -> int:
        """Its words and their two markers."""
        return len(item) + 2

    def values(self, sentences: Sequence[Sentence]) -> int:
        """How many numbers the vectors of some sentences are."""
        config = self.embedder.config
        layers = config.layer_count if self.layers == "all" else 1
        vectors = sum(map(len, sentences)) if self.pool == "none" else len(sentences)
        return vectors * layers * self.vector_size

    @property
    def vector_size(self) -> int:
        """Size of one vector."""
        layer = self._layer()
        return reduced_size("average" if layer is None else layer, self.embedder.config)

    def reduction(self) -> Reduction:
        """What is kept of the layers of a sentence."""
        layer = self._layer()
        if layer is None:
            return every_layer(self.pool)
        return reduction_of(layer, self.embedder.config, self.pool)

    def _layer(self) -> Layer | None:
        """The library's name for the choice; None for all of them."""
        if isinstance(self.layers, MixChoice):
            return self.layers.mix(self.embedder.config.layer_count)
        return None if self.layers == "all" else self.layers


@dataclass(frozen=True)
class Scoring:
    """Sentences of words to their log probabilities."""

    language_model: LanguageModel

    def compute(self, items: Sequence[Sentence]) -> Sequence[SentenceScore]:
        """A score for each sentence."""
        return self.language_model.score(items)

    def cost(self, item: Sentence) -> int:
        """Every word is read, and looked up in the softmax of both directions."""
        return 4 * (len(item) + 2)


class Question(NamedTuple):
    """A place that lacks a word, and what is wanted there."""

    place: Place
    top: int = 10
    candidates: tuple[str, ...] | None = None
    sample: int | None = None
    temperature: float = 1.0
    seed: int | None = None
    among: int | None = None  # draw among so many likeliest words only


Predicted = list[WordProbability] | list[RankedWord] | list[str]


@dataclass(frozen=True)
class Predicting:
    """Places that lack a word to the words that fit."""

    language_model: LanguageModel

    def compute(self, items: Sequence[Question]) -> Sequence[Predicted]:
        """Words for each question."""
        return [self.answer(question) for question in items]

    def cost(self, item: Question) -> int:
        """The words that are read, and the softmax of each word that is drawn."""
        read = len(item.place.before or ()) + len(item.place.after or ())
        return read + COST_OF_SOFTMAX * (2 + (item.sample or 0))

    def answer(self, question: Question) -> Predicted:
        """As `elmo predict` does."""
        before, after = question.place
        if question.sample is not None:
            return self._sample(question)
        if question.candidates is not None:
            return self.language_model.rank(before, question.candidates, after)
        if before is not None and after is not None:
            return self.language_model.missing_words(before, after, question.top)
        if after is None:
            return self.language_model.next_words(before or [], question.top)
        return self.language_model.previous_words(after, question.top)

    def _sample(self, question: Question) -> list[str]:
        before, after = question.place
        if before is not None and after is not None:
            raise InputError("a sample goes on from one end of the text; leave out the ___")
        assert question.sample is not None
        return self.language_model.sample(
            before or (),
            question.sample,
            question.temperature,
            question.seed,
            question.among,
            after=after,
        )
