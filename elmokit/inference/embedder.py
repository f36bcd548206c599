"""Embedder: loads a model and embeds sentences, which is what most people need."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from elmokit.config import (
    CharacterEncoderConfig,
    Count,
    ModelConfig,
    Precision,
    State,
    check_choice,
    checked,
)
from elmokit.errors import InputError
from elmokit.formats.find import Location, read_model
from elmokit.inference.layers import WORDS_PER_PIECE, LayerChoice, Mix, Piece, Pool, many_pieces
from elmokit.inference.layers import Vectors as Vectors
from elmokit.inference.token_vectors import (
    check_device,
    check_word_input,
    unusual_words,
    word_cache,
)
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BiLM, BiLMState, keep_other_rows
from elmokit.model.both_directions import run_apart
from elmokit.model.weights import track_writes
from elmokit.text.characters import (
    Sentence,
    batch_by_length,
    check_sentences,
    short,
    windows,
)
from elmokit.text.scripts import SeenScripts
from elmokit.text.tokenizer import AnyTokenizer, SplitsText, tokenizer_of
from elmokit.text.vocabulary import Vocabulary

Result = TypeVar("Result")

# MPS and older versions of CUDA raise a plain RuntimeError, the CPU's allocator too.
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def unless_out_of_memory(run: Callable[[], Result], device: torch.device) -> Result | None:
    """What `run` gives; None where the device has no memory for it."""
    try:
        return run()
    except (torch.cuda.OutOfMemoryError, MemoryError):
        pass
    except RuntimeError as error:
        if not any(sign in str(error).lower() for sign in OUT_OF_MEMORY):
            raise
    # Only here: as long as the error is handled, it keeps the tensors of `run` in memory. Torch
    # keeps memory of a device for later use; the CPU has no such cache.
    empty_cache = getattr(getattr(torch, device.type, None), "empty_cache", None)
    if empty_cache is not None:
        empty_cache()
    return None


# Enough rows for the recurrent product to run near its peak, few enough to stay in cache.
SENTENCES_PER_BATCH = 256
TOKENS_PER_BATCH = 8192
TOKENS_PER_WINDOW = 32768  # how much of a stream is sorted by length at once: bounds its memory
SENTENCES_PER_CARRIED_BATCH = 64
"""Rows of a stream in state `carry`, unless given: AllenNLP's batch."""
LONGEST_WHOLE = 4096
"""Words of the longest sentence read in one piece: a longer one would have a batch to itself, while
many can share one that is read in pieces."""


class Embedder(SplitsText):
    """Contextual word vectors from a biLM. Calls from several threads are safe.

    Args:
        bilm: The language model. It is put into evaluation mode, and on `device` if one is given.
        tokenizer: What `tokenize` and `encode` split raw text with: a name, an object
            with `sentences` and `words`, or a function that gives the words of a text.
        vocabulary: The words of a word-input model, or of the softmax.
        state: `"zero"`: a sentence's vectors depend on the sentence alone. `"carry"`: each call
            continues the one before, row by row, as the old programs do. `"warm"`: each sentence
            is read `warm_runs` times and the last reading taken.
        precision: `"exact"` float32, or `"fast"`: products with large weights in 8-bit integers
            on a CPU, in bfloat16 on CUDA.
        warm_runs: Readings in state `"warm"`.
        batch_size: Rows of a stream in state `"carry"`.
        cache_words: The most words whose token vectors are remembered.
        device: Where to compute; the model's own device if None.
        scripts: Warns of text in a script that the model has hardly seen; of a loaded model it
            is there.

    Attributes:
        memory_retries: How often a batch was halved because there was no memory for it.
        token_cache: The token vectors of words that were read.
        unusual: Counts words that need a warning.
        carried: What state `carry` has read so far; None before the first sentence.
    """

    def __init__(
        self,
        bilm: BiLM | None = None,
        *,
        tokenizer: AnyTokenizer = "default",
        vocabulary: Vocabulary | None = None,
        state: State = "zero",
        precision: Precision = "exact",
        warm_runs: int = 2,
        batch_size: int = SENTENCES_PER_CARRIED_BATCH,
        cache_words: int = 65536,
        device: str | torch.device | None = None,
        scripts: SeenScripts | None = None,
    ) -> None:
        if not isinstance(bilm, BiLM):
            raise InputError(
                "Embedder(bilm) is made of a BiLM; Embedder.load() is that of a model: the bundled "
                "one, a name, a folder or its files"
            )
        checked("state", state, State)
        checked("precision", precision, Precision)
        checked("warm_runs", warm_runs, Count)
        checked("batch_size", batch_size, Count)
        self.bilm = bilm.to(check_device(device)).eval() if device is not None else bilm.eval()
        track_writes(bilm)
        self.tokenizer = tokenizer_of(tokenizer)
        self.vocabulary = vocabulary
        self.state: State = state
        self.precision: Precision = precision
        self.warm_runs = warm_runs
        self.batch_size = batch_size
        self.memory_retries = 0
        self.unusual = unusual_words(self.config)
        self.token_cache = word_cache(bilm, vocabulary, cache_words, scripts)
        self._scripts = scripts
        self.carried: BiLMState | None = None
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
        tokenizer: AnyTokenizer | None = None,
        progress: Progress | None = None,
        device: str | torch.device | None = None,
        state: State = "zero",
        precision: Precision = "exact",
        warm_runs: int = 2,
        batch_size: int = SENTENCES_PER_CARRIED_BATCH,
        cache_words: int = 65536,
        softmax: bool = False,
    ) -> Embedder:
        """Load the bundled English model, a model folder, or an AllenNLP pair.

        `load()`, `load("my-model")`, `load("options.json", "weights.hdf5")`.
        `vocabulary`, `embedding` and `progress` are those of `formats.find.read_model`, the rest
        those of the constructor. The tokenizer is the one the model was trained with unless given.
        Vectors need no softmax; `softmax` reads it and its words for whoever saves the biLM.
        """
        saved = read_model(
            model,
            weights,
            vocabulary=vocabulary,
            embedding=embedding,
            progress=progress,
            softmax=softmax,
        )
        return cls(
            BiLM.from_weights(saved.config, saved.weights),
            tokenizer=tokenizer if tokenizer is not None else saved.tokenizer,
            vocabulary=saved.vocabulary,
            state=state,
            precision=precision,
            warm_runs=warm_runs,
            batch_size=batch_size,
            cache_words=cache_words,
            device=device,
            scripts=saved.scripts,
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
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.bilm.parameters()).device

    def fingerprint(self) -> str:
        """SHA-256 of everything in the model that its vectors depend on."""
        sha256 = hashlib.sha256(json.dumps(self.config.to_dict(), sort_keys=True).encode())
        if not isinstance(self.config.encoder, CharacterEncoderConfig) and self.vocabulary:
            characters = getattr(self.vocabulary, "characters", ())
            known = "\n".join((*self.vocabulary.words, *characters))
            sha256.update(known.encode("utf-8", "surrogatepass"))
        for name, value in sorted(self.bilm.state_dict().items()):
            if "softmax" not in name:
                sha256.update(name.encode())
                # As bytes: NumPy has no bfloat16.
                values = value.detach().cpu().contiguous().flatten()
                sha256.update(values.view(torch.uint8).numpy().data)
        return sha256.hexdigest()

    def embed(
        self, sentences: Sequence[Sentence], layers: str | int | Mix = "average", pool: Pool = None
    ) -> list[Vectors]:
        """Embed each sentence of words as an array (words, size).

        `layers` is "average", "top", a number (0 is the token layer), a mix that a task trained, or
        "all": (layers, words, size). `pool` is "mean" or "max" over the words, which leaves (size,)
        or (layers, size). A sentence may be of any length: a long one is read in pieces, with the
        same result. In state `carry` the list is one batch: sentence i continues sentence i of the
        call before.
        """
        sentences = check_sentences(sentences)
        self.unusual.note_all(sentences)
        return self.embed_as(sentences, self.choose(layers, pool))

    def embed_layers(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """The same as `embed(sentences, layers="all")`: arrays (layers, words, size)."""
        return self.embed(sentences, "all")

    def embed_stream(
        self, sentences: Iterable[Sentence], layers: str | int | Mix = "average", pool: Pool = None
    ) -> Iterator[Vectors]:
        """Embed any number of sentences in constant memory: the arrays of `embed`, in order.

        In state `carry` they are read in batches of `batch_size`: 64, AllenNLP's, unless given.
        """
        return self._stream(sentences, self.choose(layers, pool))

    def encode(
        self,
        texts: str | Sequence[str],
        layers: str | int | Mix = 0,
        pool: Literal["mean", "max"] = "mean",
        normalize: bool = False,
        progress: Progress | None = None,
    ) -> Vectors:
        """Embed raw texts as vectors (texts, size), or one text as a vector (size,).

        `layers` is as in `embed`, but not "all". The default, the mean over the words of layer 0,
        which needs no LSTM, is chosen by a table: `python -m runs.sentence_vectors`. A text
        without words is zeros. `normalize` brings vectors to length 1, so that products are
        cosines. `progress` is told how many texts are done, and of how many.
        """
        if isinstance(texts, str):
            return self.encode([texts], layers, pool, normalize, progress)[0]
        if not isinstance(texts, Iterable):
            raise InputError(f"expected a list of texts, got {short(texts)}")
        check_choice("pool", pool, ("mean", "max"))
        choice = self.choose(layers, pool)
        if choice.name == "all":
            raise InputError("a text has one vector: layers is 'all'; use 'average', or embed")
        split = [[words for words in self.split(text) if words] for text in texts]
        pooled = self._stream((words for text in split for words in text), choice)
        found = choice.of_texts(split, pooled, self.config, progress)
        if normalize:
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            found /= np.where(lengths == 0, 1, lengths)
        return found

    def choose(self, layers: str | int | Mix, pool: Pool = None) -> LayerChoice:
        """A choice among the layers of this model."""
        return LayerChoice(layers, self.config.layer_count, pool)

    @torch.inference_mode()
    def embed_as(
        self,
        sentences: Sequence[Sentence],
        choice: LayerChoice,
        longest: int = LONGEST_WHOLE,
        first_row: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Vectors]:
        """Embed each sentence as an array of what `choice` keeps of it; words are not noted.

        Sentences of more than `longest` words are read in pieces, each direction from its own end
        and with its state carried from piece to piece: the result is the same, in less memory. A
        mix that needs all of a sentence at once, layer norm for one, has it read at once.

        A batch for which there is no memory is halved, down to one sentence, and so are those after
        it that are larger than its half. In state `carry` sentence i continues row `first_row + i`;
        after an error every row is as it was.

        `progress` is told how many sentences and words each batch has that is done.
        """
        longest = longest if choice.by_halves else sys.maxsize
        if self.state != "carry" or not sentences:
            return self._embed_rows(sentences, choice, longest, None, progress)[0]
        with self._carry_lock:
            rows = range(first_row, first_row + len(sentences))
            before = self.bilm.state_of_rows(self.carried, rows.stop, next(self.bilm.parameters()))
            results, after = self._embed_rows(
                sentences, choice, longest, before.of_rows(rows), progress
            )
            assert after is not None  # rows that continue have a state in the end
            self.carried = keep_other_rows(before.with_rows(rows, after), self.carried)
        return results

    def reset_state(self) -> None:
        """Forget what state `carry` has read so far."""
        self.carried = None

    def _stream(self, sentences: Iterable[Sentence], choice: LayerChoice) -> Iterator[Vectors]:
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        if self.state == "carry":
            # Rows may not depend on how long the sentences are.
            batches = windows(sentences, sys.maxsize, self.batch_size)
        else:
            batches = windows(sentences, TOKENS_PER_WINDOW, TOKENS_PER_WINDOW)
        for batch in batches:
            self.unusual.note_all(batch)
            yield from self.embed_as(batch, choice)

    def _embed_rows(
        self,
        sentences: Sequence[Sentence],
        choice: LayerChoice,
        longest: int,
        state: BiLMState | None,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[list[Vectors], BiLMState | None]:
        """Embed sentences in batches of similar length; rows continue `state` and move it on."""
        results: list[Vectors | None] = [None] * len(sentences)
        lengths = [len(sentence) for sentence in sentences]

        def size(batch: list[int]) -> int:
            return len(batch) * max(tokens_at_once(lengths[number], longest) for number in batch)

        waiting = batches_of(lengths, longest)[::-1]
        room = sys.maxsize
        while waiting:
            batch = waiting.pop()
            half = batch[: (len(batch) + 1) // 2]
            if len(batch) > 1 and size(batch) > room:
                waiting += [batch[len(half) :], half]
                continue
            before = None if state is None else state.of_rows(batch)
            embed = partial(
                run_apart,
                partial(self._embed_batch, [sentences[n] for n in batch], choice, longest, before),
                len(batch),
                self.device,
                self.config.recurrent_numbers,
            )
            done = embed() if len(batch) == 1 else unless_out_of_memory(embed, self.device)
            if done is None:
                self.memory_retries += 1
                waiting.append(batch)
                room = size(half)
                continue
            vectors, after = done
            for number, result in zip(batch, vectors, strict=True):
                results[number] = result
            state = None if state is None else state.with_rows(batch, after)
            if progress is not None:
                progress(len(batch), sum(lengths[number] for number in batch))
        return results, state  # type: ignore[return-value]

    def _embed_batch(
        self,
        sentences: Sequence[Sentence],
        choice: LayerChoice,
        longest: int,
        state: BiLMState | None,
    ) -> tuple[list[Vectors], BiLMState]:
        """Embed one batch, in the order and rows given; give the state after it, too."""
        lengths = [len(sentence) for sentence in sentences]
        markers = self.vocabulary or Vocabulary
        marked = [[markers.begin, *sentence, markers.end] for sentence in sentences]
        ends = [len(words) for words in marked]
        long = max(lengths) > longest
        pieces = list(many_pieces(ends)) if long else [Piece([0] * len(ends), ends)]
        collection = choice.collection(lengths)
        contextual = choice.name != "0" or self.state == "carry"  # else no LSTM is needed
        readings = self.warm_runs if self.state == "warm" and contextual else 1
        for reading in range(readings):
            for piece in pieces:
                words = self.token_cache.padded(piece.of(marked))
                directions = piece.directions if contextual else ()
                layers, state = self.bilm.contextualize(*words, state, self.precision, directions)
                if reading == readings - 1:
                    collection.add(piece, choice.reduce(layers))
        assert state is not None  # every batch has a piece
        return collection.arrays(), state

    def __reduce__(self) -> tuple[Callable[..., Embedder], tuple[BiLM]]:
        # A copy, or a worker's, starts with an empty cache and no carried state.
        settings: dict[str, Any] = {
            "tokenizer": self.tokenizer,
            "vocabulary": self.vocabulary,
            "state": self.state,
            "precision": self.precision,
            "warm_runs": self.warm_runs,
            "batch_size": self.batch_size,
            "cache_words": self.token_cache.capacity,
            "scripts": self._scripts,
        }
        return partial(type(self), **settings), (self.bilm,)


def tokens_at_once(words: int, longest: int) -> int:
    """How many tokens of a sentence are read at once, markers included: all, or a piece."""
    return words + 2 if words <= longest else WORDS_PER_PIECE


def batches_of(lengths: Sequence[int], longest: int) -> list[list[int]]:
    """Sentence numbers in batches of similar length, those of more than `longest` words apart."""
    short = [number for number, length in enumerate(lengths) if length <= longest]
    long = [number for number, length in enumerate(lengths) if length > longest]
    long.sort(key=lambda number: -lengths[number])
    return [
        [numbers[position] for position in batch]
        for numbers in (long, short)
        for batch in batch_by_length(
            [tokens_at_once(lengths[number], longest) for number in numbers],
            TOKENS_PER_BATCH,
            SENTENCES_PER_BATCH,
        )
    ]
