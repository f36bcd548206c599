"""simple_elmo's model: `from elmokit.adaptors.simple_elmo import ElmoModel`.

As there, a call begins from zeros, reads its first batch twice, and continues from batch to batch.
Unlike there, what stands behind the end of a sentence is zero, and averages do not count it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.formats.find import Location
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.inference.language_model import LanguageModel
from elmokit.inference.predictions import WordProbability
from elmokit.text.characters import Sentence, check_sentences, short

Layer = Literal["average", "top", "all"]
Arrays = NDArray[np.float64]


class ElmoModel:
    """What simple_elmo's class was: `load` comes first."""

    def __init__(self) -> None:
        self.batch_size = 32
        self.vector_size = 0
        self.n_layers = 0
        self._embedder: Embedder | None = None
        self._language_model: LanguageModel | None = None

    def load(
        self, directory: Location, max_batch_size: int = 32, limit: int = 100, full: bool = False
    ) -> str:
        """Load a model: whatever `elmokit.Embedder.load` reads.

        `full` reads its softmax and words too, for `get_elmo_substitutes`. `limit` changes nothing.
        """
        checked("max_batch_size", max_batch_size, Count)
        self.batch_size = max_batch_size
        self._language_model = None
        if full:
            self._language_model = model = LanguageModel.load(directory)
            self._embedder = Embedder(model.bilm, vocabulary=model.vocabulary, state="carry")
        else:
            self._embedder = Embedder.load(directory, state="carry")
        self.vector_size = self._embedder.vector_size
        self.n_layers = self._embedder.config.layer_count
        return "The model is now loaded."

    def get_elmo_vectors(
        self,
        texts: Sequence[Sentence],
        warmup: bool = True,
        layers: Layer = "average",
        session: object = None,
    ) -> Arrays:
        """Vectors (sentences, [layers,] words, size), zero behind the end of a sentence.

        With a `session`, whatever it is, the call continues the one before.
        """
        found, shape = self._read(texts, warmup, layers, session)
        longest = max((array.shape[-2] for array in found), default=0)
        vectors = np.zeros((len(found), *shape, longest, self.vector_size))
        for row, array in zip(vectors, found, strict=True):
            row[..., : array.shape[-2], :] = array
        return vectors

    def get_elmo_vector_average(
        self,
        texts: Sequence[Sentence],
        warmup: bool = True,
        layers: Layer = "average",
        session: object = None,
    ) -> Arrays:
        """The mean over each sentence's words, of length 1: (sentences, [layers,] size)."""
        found, shape = self._read(texts, warmup, layers, session)
        averages = np.zeros((len(found), *shape, self.vector_size))
        for row, array in zip(averages, found, strict=True):
            if array.shape[-2]:
                mean = array.mean(-2, dtype=np.float64)
                row[:] = mean / (np.linalg.norm(mean) or 1)
        return averages

    def get_elmo_substitutes(
        self, data: Sequence[str], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """For each word of each sentence, the likeliest words after those before it, and so back.

        Best first, with their ids and log probabilities; `<S>` and `</S>` unless `nodelimiters`.
        """
        model = self._language_model
        if model is None:
            raise InputError("the softmax is not loaded; write load(…, full=True)")

        def candidates(found: list[WordProbability]) -> dict[str, Any]:
            kept = [one for one in found if not nodelimiters or one.word not in ("<S>", "</S>")]
            return {
                "candidates": [model.vocabulary.id_of(one.word) for one in kept[:topn]],
                "candidate_words": [one.word for one in kept[:topn]],
                "logp": [
                    round(math.log(one.probability), 4) if one.probability else -math.inf
                    for one in kept[:topn]
                ],
            }

        sentences = [text.split() for text in data]
        return [
            [
                {
                    "word": word,
                    "forward": candidates(model.next_words(words[:place], topn + 1)),
                    "backward": candidates(model.previous_words(words[place + 1 :], topn + 1)),
                }
                for place, word in enumerate(words)
            ]
            for words in sentences
        ]

    def warmup(self, sess: object, texts: Sequence[Sentence]) -> None:
        """Read the first batch of some sentences, for the state alone."""
        self._loaded().embed(texts[: self.batch_size])

    def _read(
        self, texts: Sequence[Sentence], warmup: bool, layers: Layer, session: object
    ) -> tuple[list[Vectors], tuple[int, ...]]:
        """Arrays (…, words, size), and what their shape begins with."""
        if layers not in ("average", "top", "all"):
            raise InputError(f"layers is {short(layers)}; use 'average', 'top' or 'all'")
        texts = check_sentences(texts)
        embedder, size = self._loaded(), self.batch_size
        if session is None:
            embedder.reset_state()
        if warmup:
            self.warmup(session, texts)
        batches = (texts[start : start + size] for start in range(0, len(texts), size))
        found = [array for batch in batches for array in embedder.embed(batch, layers)]
        return found, (self.n_layers,) if layers == "all" else ()

    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise InputError("no model is loaded; call load first")
        return self._embedder
