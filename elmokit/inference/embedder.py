"""Load a model, embed sentences: what most people need."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.config import (
    ModelConfig,
    Precision,
    State,
    WordEncoderConfig,
    check_choice,
    check_size,
)
from elmokit.errors import InputError
from elmokit.formats.find import Location, read_model
from elmokit.inference.layers import (
    WORDS_PER_PIECE,
    LayerChoice,
    Mix,
    Pool,
    many_pieces,
    one_piece,
)
from elmokit.inference.layers import Vectors as Vectors
from elmokit.inference.lookup import CachedEmbedder as CachedEmbedder
from elmokit.inference.token_vectors import (
    KnownWords,
    Mark,
    WordCache,
    check_device,
    check_word_input,
    encode_words,
    max_characters,
)
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BiLM, BiLMState, keep_other_rows
from elmokit.model.both_directions import FEWEST_ROWS, can_share_cores, run_apart, run_each
from elmokit.model.lstm import LSTMState
from elmokit.model.weights import track_writes, version_of
from elmokit.text.batching import batch_by_length, windows
from elmokit.text.characters import Sentence, UnusualWords, check_sentences, short
from elmokit.text.tokenizer import Tokenizer, load_tokenizer
from elmokit.text.vocabulary import BEGIN, END, Vocabulary


def fingerprint(bilm: BiLM, vocabulary: Vocabulary | None) -> str:
    """SHA-256 of everything in a model that its vectors depend on; the softmax is no part of it."""
    sha256 = hashlib.sha256(json.dumps(bilm.config.to_dict(), sort_keys=True).encode())
    if isinstance(bilm.config.encoder, WordEncoderConfig) and vocabulary is not None:
        sha256.update("\n".join(vocabulary.words).encode("utf-8", "surrogatepass"))
    for name, value in sorted(bilm.state_dict().items()):
        if "softmax" not in name:
            sha256.update(name.encode())
            # As bytes: NumPy has no bfloat16.
            values = value.detach().cpu().contiguous().flatten()
            sha256.update(values.view(torch.uint8).numpy().data)
    return sha256.hexdigest()


StateArrays = dict[str, NDArray[Any]]


def state_arrays(state: BiLMState) -> StateArrays:
    """The parts (layers, rows, size) of a state by name: `forward_cells` and the like."""
    return {name: as_array(part) for name, part in parts_by_name(state).items()}


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], bilm: BiLM) -> BiLMState:
    """The state that `state_arrays` was given, if it is of a model of this shape."""
    rows = {array.shape[1] for array in arrays.values() if array.ndim == 3}
    if len(rows) != 1:
        raise InputError("the state to restore is not one that carried_state gave")
    expected = parts_by_name(bilm.state_of_rows(None, rows.pop(), torch.empty(0)))
    for name, part in expected.items():
        found = tuple(arrays[name].shape) if name in arrays else None
        if found != tuple(part.shape):
            raise InputError(
                f"{name} of the state to restore has shape {found}, this model's has "
                f"{tuple(part.shape)}; restore it into the model that it came from"
            )
    cells, outputs, *backward = (torch.tensor(arrays[name]) for name in expected)
    return BiLMState(LSTMState(cells, outputs), LSTMState(*backward))


def parts_by_name(state: BiLMState) -> dict[str, Tensor]:
    """Cells and outputs of both directions."""
    return {
        f"{direction}_{name}": part
        for direction, half in state._asdict().items()
        for name, part in half._asdict().items()
    }


def as_array(part: Tensor) -> NDArray[Any]:
    """A copy in NumPy, which has no bfloat16: widening it loses nothing."""
    return (part.float() if part.dtype == torch.bfloat16 else part).cpu().numpy().copy()


Result = TypeVar("Result")

# MPS and older versions of CUDA raise a plain RuntimeError, the CPU's allocator too.
SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, rather than that something is wrong.

    >>> is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB)"))
    True
    """
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def give_back_memory(device: torch.device) -> None:
    """Give back to the device what torch keeps of it for later use; the CPU keeps nothing."""
    backend = getattr(torch, device.type, None)
    if backend is not None and hasattr(backend, "empty_cache"):
        backend.empty_cache()


def unless_out_of_memory(run: Callable[[], Result], device: torch.device) -> Result | None:
    """What `run` gives; None where the device has no memory for it."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Only here: as long as the error is handled, it keeps the tensors of `run` in memory.
    give_back_memory(device)
    return None


# Enough rows for the recurrent product to run near its peak, few enough to stay in cache.
SENTENCES_PER_BATCH = 256
TOKENS_PER_BATCH = 8192
TOKENS_PER_WINDOW = 32768
"""How much of a stream is sorted by length at once: bounds its memory."""
SENTENCES_PER_CARRIED_BATCH = 64
"""Rows of a stream in state `carry`: AllenNLP's batch."""
LONGEST_WHOLE = 4096
"""Words of the longest sentence read in one piece: a longer one would have a batch to itself, while
many can share one that is read in pieces."""


class Embedder:
    """Contextual word vectors from a biLM. Calls from several threads are safe.

    Args:
        bilm: The language model. It is put into evaluation mode, and on `device` if one is given.
        tokenizer: What `tokenize` and `encode` split raw text with; a name or a tokenizer.
        vocabulary: The words of a word-input model, or of the softmax.
        state: `"zero"`: a sentence's vectors depend on the sentence alone. `"carry"`: each call
            continues the one before, row by row, as the old programs do. `"warm"`: each sentence
            is read `warm_runs` times and the last reading kept.
        precision: `"exact"` float32, or `"fast"`: products with large weights in 8-bit integers
            on a CPU, in bfloat16 on CUDA.
        warm_runs: Readings in state `"warm"`.
        cache_words: The most words whose token vectors are remembered.
        device: Where to compute; the model's own device if None.

    Attributes:
        memory_retries: How often a batch was halved because there was no memory for it.
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
        track_writes(bilm)
        self.tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.vocabulary = vocabulary
        self.state: State = state
        self.precision: Precision = precision
        self.warm_runs = warm_runs
        self.memory_retries = 0
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
        """Load the bundled English model, a model folder, or an AllenNLP pair.

        `load()`, `load("my-model")`, `load("options.json", "weights.hdf5")`.
        `vocabulary`, `embedding` and `progress` are those of `formats.models.read_model`, the rest
        those of the constructor. The tokenizer is the one the model was trained with unless given.
        """
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
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.bilm.parameters()).device

    def fingerprint(self) -> str:
        """SHA-256 of everything in the model that its vectors depend on."""
        return fingerprint(self.bilm, self.vocabulary)

    @property
    def cache_hit_rate(self) -> float:
        """The share of words whose token vectors were remembered."""
        return self._cache.hit_rate

    def words_known(self) -> Mark:
        """How far the memory of token vectors is, for `words_learnt`."""
        self._forget_changed_encoder()
        return self._cache.mark()

    def words_learnt(self, since: Mark) -> KnownWords:
        """The words whose token vectors were computed after a mark, with these vectors."""
        return self._cache.learnt_since(since)

    def learn_words(self, known: KnownWords) -> None:
        """Remember token vectors that were computed before.

        Computed again beside other words, they could differ in their last bit.
        """
        self._forget_changed_encoder()
        self._cache.learn(known, self.device)

    @property
    def unusual_words(self) -> dict[str, int]:
        """How many words of each unusual kind were read."""
        return dict(self._unusual.counts)

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
        return self._embed_all(sentences, self.choose(layers, pool))

    def embed_layers(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """The same as `embed(sentences, layers="all")`: arrays (layers, words, size)."""
        return self.embed(sentences, "all")

    def embed_stream(
        self, sentences: Iterable[Sentence], layers: str | int | Mix = "average", pool: Pool = None
    ) -> Iterator[Vectors]:
        """Embed any number of sentences in constant memory: the arrays of `embed`, in order.

        In state `carry` they are read in batches of 64, as AllenNLP does.
        """
        return self._stream(sentences, self.choose(layers, pool))

    def encode(self, texts: Sequence[str], layers: str | int | Mix = "average") -> Vectors:
        """Embed raw texts as sentence vectors (texts, size): the mean over their words.

        A text without words is zeros.
        """
        if isinstance(texts, str):
            raise InputError(f"expected a list of texts, got one; write [{texts[:40]!r}]")
        if not isinstance(texts, Iterable):
            raise InputError(f"expected a list of texts, got {short(texts)}")
        split = [self.split(text) for text in texts]
        choice = self.choose(layers)
        if choice.name == "all":
            raise InputError("a text has one vector: layers is 'all'; use 'average', or embed")
        vectors = self._stream((sentence for text in split for sentence in text), choice)
        means = np.zeros((len(split), choice.size(self.config)), dtype=np.float32)
        for mean, text in zip(means, split, strict=True):
            words = [next(vectors) for _ in text]
            if any(len(sentence) for sentence in words):
                mean[:] = np.concatenate(words).mean(0)
        return means

    def choose(self, layers: str | int | Mix, pool: Pool = None) -> LayerChoice:
        """A choice among the layers of this model."""
        return LayerChoice(layers, self.config.layer_count, pool)

    def tokenize(self, text: str) -> list[str]:
        """Split raw text into words, with the tokenizer the model was trained with."""
        return [word for sentence in self.split(text) for word in sentence]

    def split(self, text: str) -> list[list[str]]:
        """Split raw text into sentences of words, with the same tokenizer."""
        if not isinstance(text, str):
            raise InputError(f"expected a text, got {short(text)}")
        return [[token.text for token in sentence] for sentence in self.tokenizer.sentences(text)]

    def note_words(self, sentences: Sequence[Sentence]) -> None:
        """Count the unusual words of some sentences, with one warning for each kind."""
        self._unusual.note_all(sentences)

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
        mix that needs all of a sentence at once, layer norm for one, has it read whole.

        A batch for which there is no memory is halved, down to one sentence, and so are those after
        it that are larger than its half. In state `carry` sentence i continues row `first_row + i`;
        after an error every row is as it was.

        `progress` is told how many sentences and words each batch has that is done.
        """
        check_size("longest", longest)
        longest = longest if choice.by_halves else sys.maxsize
        if self.state != "carry" or not sentences:
            return self._embed_rows(sentences, choice, longest, None, progress)[0]
        with self._carry_lock:
            rows = range(first_row, first_row + len(sentences))
            before = self.bilm.state_of_rows(self._carried, rows.stop, next(self.bilm.parameters()))
            results, after = self._embed_rows(
                sentences, choice, longest, before.of_rows(rows), progress
            )
            assert after is not None  # rows that continue have a state in the end
            self._carried = keep_other_rows(before.with_rows(rows, after), self._carried)
        return results

    def reset_state(self) -> None:
        """Forget what state `carry` has read so far."""
        self._carried = None

    def carried_state(self) -> StateArrays | None:
        """What state `carry` has read so far, for `restore_state`; None before the first sentence.

        Arrays (layers, rows, cells or outputs), by name.
        """
        return None if self._carried is None else state_arrays(self._carried)

    def restore_state(self, arrays: Mapping[str, NDArray[Any]] | None) -> None:
        """Continue in state `carry` from what `carried_state` gave, here or in another process."""
        self._carried = None if arrays is None else state_from_arrays(arrays, self.bilm)

    def _embed_all(self, sentences: Sequence[Sentence], choice: LayerChoice) -> list[Vectors]:
        check_sentences(sentences)
        self.note_words(sentences)
        return self.embed_as(sentences, choice)

    def _stream(self, sentences: Iterable[Sentence], choice: LayerChoice) -> Iterator[Vectors]:
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            check_sentences(sentences)
        if self.state == "carry":
            # Rows may not depend on how long the sentences are.
            batches = windows(sentences, sys.maxsize, SENTENCES_PER_CARRIED_BATCH)
        else:
            batches = windows(sentences, TOKENS_PER_WINDOW, TOKENS_PER_WINDOW)
        for batch in batches:
            yield from self._embed_all(batch, choice)

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
        tokens = [tokens_at_once(len(sentence), longest) for sentence in sentences]
        waiting = batches_of([len(sentence) for sentence in sentences], longest)
        while waiting:
            batch = waiting.pop(0)
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
                waiting = halve_large(batch, waiting, tokens)
                continue
            vectors, after = done
            for number, result in zip(batch, vectors, strict=True):
                results[number] = result
            state = None if state is None else state.with_rows(batch, after)
            if progress is not None:
                progress(len(batch), sum(len(sentences[number]) for number in batch))
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
        marked = [[BEGIN, *sentence, END] for sentence in sentences]
        pieces = many_pieces if max(lengths) > longest else one_piece
        collection = choice.collection(lengths)
        readings = self.warm_runs if self.state == "warm" else 1
        for reading in range(readings):
            for piece in pieces([length + 2 for length in lengths]):
                token_vectors = self._token_vectors(piece.of(marked))
                layers, state = self.bilm.contextualize(
                    *token_vectors, state, self.precision, piece.directions
                )
                if reading == readings - 1:
                    collection.add(piece, choice.reduce(layers))
        assert state is not None  # every batch has a piece
        return collection.arrays(), state

    def _token_vectors(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words, token_size) of sentences with markers, and their lengths."""
        self._forget_changed_encoder()
        lengths = [len(words) for words in sentences]
        vectors = self._cache.vectors([word for words in sentences for word in words])
        padded = vectors.new_zeros(len(sentences), max(lengths), self.config.token_size)
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
        encode = partial(encode_words, self.bilm, self.vocabulary)
        middle = len(words) // 2
        if middle < FEWEST_ROWS or not can_share_cores(self.device):
            return encode(words)
        halves = [partial(encode, words[:middle]), partial(encode, words[middle:])]
        return torch.cat(run_each(halves, middle, self.device, self.config.recurrent_numbers))

    def _forget_changed_encoder(self) -> None:
        """Empty the word cache when somebody has trained or moved the encoder since."""
        version = version_of(self.bilm.encoder.parameters())
        if version != self._encoder_version:
            self._cache.clear()
            self._encoder_version = version


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


def halve_large(
    failed: list[int], waiting: Iterable[list[int]], tokens: Sequence[int]
) -> list[list[int]]:
    """A batch in two, the first half the larger, then those that wait, in two if larger than that.

    `tokens` are those of every sentence; a batch has as many in each row as in its longest.

    >>> halve_large([0, 1, 2], [[3, 4], [5, 6]], tokens=[9, 9, 9, 9, 9, 1, 1])
    [[0, 1], [2], [3, 4], [5, 6]]
    >>> halve_large([0, 1], [[2, 3], [4, 5]], tokens=[9, 9, 9, 9, 1, 1])
    [[0], [1], [2], [3], [4, 5]]
    """

    def size(batch: list[int]) -> int:
        return len(batch) * max(tokens[number] for number in batch)

    first, second = halves(failed)
    batches = [first, second]
    for batch in waiting:
        large = len(batch) > 1 and size(batch) > size(first)
        batches += halves(batch) if large else [batch]
    return batches


def halves(batch: list[int]) -> tuple[list[int], list[int]]:
    """A batch of two or more in two, the first half the larger."""
    middle = (len(batch) + 1) // 2
    return batch[:middle], batch[middle:]
