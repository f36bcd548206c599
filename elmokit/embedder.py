"""Load a model, embed sentences: what most people need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import ModelConfig, Precision, State, check_choice, check_size
from elmokit.errors import InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.models import Location, read_model
from elmokit.model.bilm import BiLM, BiLMState, Layers
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.model.versions import version_of
from elmokit.text.batching import batch_by_length, windows
from elmokit.text.characters import Sentence, UnusualWords, check_sentences, short
from elmokit.text.tokenizer import Tokenizer, load_tokenizer
from elmokit.text.vocabulary import BEGIN, END, Vocabulary
from elmokit.token_vectors import check_device, check_word_input, encode_words, max_characters
from elmokit.word_cache import WordCache

Vectors = NDArray[np.float32]
Layer = Literal["average", "top"] | int | ScalarMix | DirectionalMix
Reduce = Callable[[Layers], Tensor]

# Enough rows for the recurrent product to run near its peak, few enough to stay in cache.
SENTENCES_PER_BATCH = 256
TOKENS_PER_BATCH = 8192
TOKENS_PER_WINDOW = 32768
"""How much of a stream is sorted by length at once: bounds its memory."""
SENTENCES_PER_CARRIED_BATCH = 64
"""Rows of a stream in state `carry`: AllenNLP's batch."""


class Embedder:
    """Contextual word vectors from a biLM. Calls from several threads are safe.

    Args:
        bilm: The language model. It is put into evaluation mode, and on `device` if one is given.
        tokenizer: What `tokenize` and `encode` split raw text with; a name or a tokenizer.
        vocabulary: The words of a word-input model, or of the softmax.
        state: `"zero"`: a sentence's vectors depend on the sentence alone. `"carry"`: each call
            continues the one before, row by row, as the old programs do. `"warm"`: each sentence
            is read `warm_runs` times and the last reading kept.
        precision: `"exact"` float32, or `"fast"`: matrix products in bfloat16, or in 8-bit
            integers where the processor has no bfloat16.
        warm_runs: Readings in state `"warm"`.
        cache_words: The most words whose token vectors are remembered.
        device: Where to compute; the model's own device if None.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        tokenizer: str | Tokenizer = "default",
        vocabulary: Vocabulary | None = None,
        state: State = "zero",
        precision: Precision = "exact",
        warm_runs: int = 2,
        cache_words: int = 65536,
        device: str | torch.device | None = None,
    ) -> None:
        check_choice("state", state, get_args(State))
        check_choice("precision", precision, get_args(Precision))
        check_size("warm_runs", warm_runs)
        self.bilm = bilm.to(check_device(device)).eval() if device is not None else bilm.eval()
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.vocabulary = vocabulary
        self.state: State = state
        self.precision: Precision = precision
        self.warm_runs = warm_runs
        self._unusual = UnusualWords(max_characters(self.config))
        self._cache = WordCache(self._encode_words, cache_words)
        self._encoder_version: object = None
        self._carried: BiLMState | None = None
        self._carry_lock = Lock()
        check_word_input(self.config, vocabulary)

    @classmethod
    def load(
        cls,
        model: Location | None = None,
        weights: Location | None = None,
        *,
        vocabulary: Location | None = None,
        embedding: Location | None = None,
        tokenizer: str | Tokenizer | None = None,
        progress: Progress | None = None,
        device: str | torch.device | None = None,
        state: State = "zero",
        precision: Precision = "exact",
        warm_runs: int = 2,
        cache_words: int = 65536,
    ) -> Embedder:
        """Load a model folder, or an AllenNLP pair: `load("options.json", "weights.hdf5")`.

        `vocabulary`, `embedding` and `progress` are those of `formats.models.read_model`, the rest
        those of the constructor. The tokenizer is the one the model was trained with unless given.
        """
        if model is None:
            raise InputError(
                "no model is bundled with this version; name one: Embedder.load('model-folder') "
                "or Embedder.load('options.json', 'weights.hdf5')"
            )
        saved = read_model(
            model, weights, vocabulary=vocabulary, embedding=embedding, progress=progress
        )
        return cls(
            BiLM.from_weights(saved.config, saved.weights),
            tokenizer=tokenizer if tokenizer is not None else saved.tokenizer,
            vocabulary=saved.vocabulary,
            state=state,
            precision=precision,
            warm_runs=warm_runs,
            cache_words=cache_words,
            device=device,
        )

    def __repr__(self) -> str:
        config = self.config
        return (
            f"Embedder({config.layer_count} layers of {config.vector_size}, "
            f"state={self.state!r}, precision={self.precision!r})"
        )

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.bilm.config

    @property
    def vector_size(self) -> int:
        """Size of a word's vector in each layer."""
        return self.config.vector_size

    @property
    def unusual_words(self) -> dict[str, int]:
        """How many words of each unusual kind were read."""
        return dict(self._unusual.counts)

    def embed(self, sentences: Sequence[Sentence], layer: Layer = "average") -> list[Vectors]:
        """Embed each sentence of words as an array (words, size).

        `layer` is "average", "top", a number (0 is the token layer), or a mix that a task trained.
        In state `carry` the list is one batch: sentence i continues sentence i of the call before.
        """
        return self._embed_all(sentences, self._reduction(layer))

    def embed_layers(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """Embed each sentence of words as an array (layers, words, size)."""
        return self._embed_all(sentences, every_layer)

    def embed_stream(
        self, sentences: Iterable[Sentence], layer: Layer = "average"
    ) -> Iterator[Vectors]:
        """Embed any number of sentences in constant memory: arrays (words, size), in order.

        In state `carry` they are read in batches of 64, as AllenNLP does.
        """
        return self._stream(sentences, self._reduction(layer))

    def embed_layers_stream(self, sentences: Iterable[Sentence]) -> Iterator[Vectors]:
        """Embed any number of sentences in constant memory: (layers, words, size), in order."""
        return self._stream(sentences, every_layer)

    def encode(self, texts: Sequence[str], layer: Layer = "average") -> Vectors:
        """Embed raw texts as sentence vectors (texts, size): the mean over their words.

        A text without words is zeros.
        """
        if isinstance(texts, str):
            raise InputError(f"expected a list of texts, got one; write [{texts[:40]!r}]")
        if not isinstance(texts, Iterable):
            raise InputError(f"expected a list of texts, got {short(texts)}")
        split = [self.split(text) for text in texts]
        vectors = self.embed_stream((sentence for text in split for sentence in text), layer)
        size = self._reduced_size(layer)
        means = np.zeros((len(split), size), dtype=np.float32)
        for mean, text in zip(means, split, strict=True):
            words = [next(vectors) for _ in text]
            if any(len(sentence) for sentence in words):
                mean[:] = np.concatenate(words).mean(0)
        return means

    def tokenize(self, text: str) -> list[str]:
        """Split raw text into words, with the tokenizer the model was trained with."""
        return [word for sentence in self.split(text) for word in sentence]

    def split(self, text: str) -> list[list[str]]:
        """Split raw text into sentences of words, with the same tokenizer."""
        if not isinstance(text, str):
            raise InputError(f"expected a text, got {short(text)}")
        return [[token.text for token in sentence] for sentence in self.tokenizer.sentences(text)]

    def reset_state(self) -> None:
        """Forget what state `carry` has read so far."""
        self._carried = None

    def _embed_all(self, sentences: Sequence[Sentence], reduce: Reduce) -> list[Vectors]:
        check_sentences(sentences)
        if self.state == "carry":
            return self._embed_batch(sentences, reduce) if sentences else []
        results: list[Vectors | None] = [None] * len(sentences)
        lengths = [len(sentence) + 2 for sentence in sentences]
        for batch in batch_by_length(lengths, TOKENS_PER_BATCH, SENTENCES_PER_BATCH):
            vectors = self._embed_batch([sentences[number] for number in batch], reduce)
            for number, result in zip(batch, vectors, strict=True):
                results[number] = result
        return results  # type: ignore[return-value]

    def _stream(self, sentences: Iterable[Sentence], reduce: Reduce) -> Iterator[Vectors]:
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        if self.state == "carry":
            # Rows may not depend on how long the sentences are.
            batches = windows(sentences, sys.maxsize, SENTENCES_PER_CARRIED_BATCH)
        else:
            batches = windows(sentences, TOKENS_PER_WINDOW, TOKENS_PER_WINDOW)
        for batch in batches:
            yield from self._embed_all(batch, reduce)

    @torch.inference_mode()
    def _embed_batch(self, sentences: Sequence[Sentence], reduce: Reduce) -> list[Vectors]:
        """Embed one batch, in the order and rows given."""
        token_vectors, lengths = self._token_vectors(sentences)
        reduced = reduce(self._contextualize(token_vectors, lengths)).float().cpu().numpy()
        return [
            # A copy: a view of one sentence would keep the whole batch in memory.
            reduced[..., row, 1 : len(sentence) + 1, :].copy()
            for row, sentence in enumerate(sentences)
        ]

    def _contextualize(self, token_vectors: Tensor, lengths: Tensor) -> Layers:
        """The biLM's layers, started as `state` says."""

        def run(state: BiLMState | None) -> tuple[Layers, BiLMState]:
            return self.bilm.contextualize(token_vectors, lengths, state, self.precision)

        if self.state == "carry":
            with self._carry_lock:
                layers, self._carried = run(self._carried)
            return layers
        layers, state = run(None)
        for _ in range(self.warm_runs - 1 if self.state == "warm" else 0):
            layers, state = run(state)
        return layers

    def _token_vectors(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words + 2, token_size), markers included, and their lengths."""
        self._forget_changed_encoder()
        self._unusual.note_all(sentences)
        marked = [[BEGIN, *sentence, END] for sentence in sentences]
        lengths = [len(words) for words in marked]
        vectors = self._cache.vectors([word for words in marked for word in words])
        padded = vectors.new_zeros(len(marked), max(lengths), self.config.token_size)
        for row, (start, end) in zip(padded, pairwise(accumulate(lengths, initial=0)), strict=True):
            row[: end - start] = vectors[start:end]
        return padded, torch.tensor(lengths)

    def __reduce__(self) -> tuple[Callable[..., Embedder], tuple[BiLM]]:
        # A copy, or a worker's, starts with an empty cache and no carried state.
        settings: dict[str, Any] = {
            "tokenizer": self.tokenizer,
            "vocabulary": self.vocabulary,
            "state": self.state,
            "precision": self.precision,
            "warm_runs": self.warm_runs,
            "cache_words": self._cache.capacity,
        }
        return partial(type(self), **settings), (self.bilm,)

    def _encode_words(self, words: Sequence[str]) -> Tensor:
        return encode_words(self.bilm, self.vocabulary, words)

    def _forget_changed_encoder(self) -> None:
        """Empty the word cache when somebody has trained or moved the encoder since."""
        version = version_of(self.bilm.encoder.parameters())
        if version != self._encoder_version:
            self._cache.clear()
            self._encoder_version = version

    def _reduction(self, layer: Layer) -> Reduce:
        """What makes one vector of a word's layers."""
        if isinstance(layer, ScalarMix | DirectionalMix):
            if layer.layers != self.config.layer_count:
                raise InputError(
                    f"the mix is of {layer.layers} layers, the model has {self.config.layer_count}"
                )
            return lambda layers: layer(layers.vectors, layers.mask)
        if layer == "average":
            return lambda layers: layers.vectors.mean(0)
        top = self.config.lstm_layers
        number = top if layer == "top" else layer
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= top:
            raise InputError(
                f"layer is {layer!r}; use 'average', 'top', 0 to {top}, or a mix; "
                "embed_layers gives all of them"
            )
        return lambda layers: layers.vectors[number]

    def _reduced_size(self, layer: Layer) -> int:
        adds = isinstance(layer, DirectionalMix) and layer.join == "add"
        return self.config.token_size if adds else self.vector_size


def every_layer(layers: Layers) -> Tensor:
    """All layers (layers, batch, words, size), as they are."""
    return layers.vectors
