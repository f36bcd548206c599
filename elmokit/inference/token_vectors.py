"""Token vectors of words, and a cache of them: what all that reads words with a biLM shares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmokit.config import (
    CharacterEncoderConfig,
    CountOrZero,
    LexiconEncoderConfig,
    ModelConfig,
    WordEncoderConfig,
    checked,
)
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.model.both_directions import FEWEST_ROWS, can_share_cores, run_each
from elmokit.model.weights import version_of
from elmokit.text.characters import Sentence, UnusualWords, character_ids
from elmokit.text.scripts import SeenScripts
from elmokit.text.vocabulary import BEGIN, END, Lexicon, Vocabulary


def encode_words(bilm: BiLM, vocabulary: Vocabulary | None, words: Sequence[str]) -> Tensor:
    """Token vectors (words, token_size) of distinct words, sentence markers among them."""
    encoder = bilm.config.encoder
    if isinstance(encoder, CharacterEncoderConfig):
        ids = torch.from_numpy(character_ids(words, encoder.max_characters))
    elif isinstance(vocabulary, Lexicon):
        ids = torch.from_numpy(vocabulary.spell(words))
    else:
        assert vocabulary is not None  # see check_word_input
        # Row 0 of the table is padding.
        ids = torch.tensor([vocabulary.id_of(word) + 1 for word in words])
    return bilm.encoder(ids.to(next(bilm.parameters()).device))


def unusual_words(config: ModelConfig) -> UnusualWords:
    """Who counts what a model of this config reads otherwise than it is written."""
    encoder = config.encoder
    if isinstance(encoder, WordEncoderConfig):
        return UnusualWords(sys.maxsize)
    return UnusualWords(encoder.max_characters, isinstance(encoder, LexiconEncoderConfig))


def check_word_input(config: ModelConfig, vocabulary: Vocabulary | None) -> None:
    """Raise for a word-input model without the words its table is of."""
    encoder = config.encoder
    if isinstance(encoder, CharacterEncoderConfig):
        return
    lexicon = isinstance(encoder, LexiconEncoderConfig)
    if lexicon and not isinstance(vocabulary, Lexicon):
        raise InputError("this model has words and characters of its own: load it by its folder")
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
    except (RuntimeError, AssertionError, ImportError, NotImplementedError) as error:
        why = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(f"device {str(device)!r} cannot be used ({why}); use 'cpu'") from None
    if found.type == "meta":
        raise InputError("device 'meta' holds no numbers; use 'cpu'")
    return found


class KnownWords(NamedTuple):
    """Words with their token vectors, in the order in which they were learnt."""

    words: list[str]
    vectors: NDArray[np.float32]  # (words, size)
    afresh: bool = False  # whether everything before them was forgotten


class WordCache:
    """A bounded memory of token vectors. Safe from several threads.

    When it is full it starts again: in running text the frequent words are back at once, and that
    costs less than keeping account of every use.

    `encode` gives token vectors (words, size) of distinct words; `version` changes when those that
    were computed before are not valid any more. `note` is told of words that have to be encoded,
    and of all that are looked up with them. For hits and misses each distinct word of a call counts
    once.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], Tensor],
        capacity: int,
        version: Callable[[], object],
        note: Callable[[Sequence[str], Sequence[str]], None] | None = None,
    ) -> None:
        checked("cache_words", capacity, CountOrZero)
        self.encode = encode
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._rows: dict[str, int] = {}
        self._table: Tensor | None = None
        self._restarts = 0
        self._lock = Lock()
        self._note = note
        self._version = version
        self._version_known = version()

    def vectors(self, words: Sequence[str]) -> Tensor:
        """Token vectors (words, size), computing only those of words not yet known."""
        with self._up_to_date():
            distinct = list(dict.fromkeys(words))
            rows, table = self._known(distinct)
            return table[torch.tensor([rows[word] for word in words], device=table.device)]

    def padded(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Token vectors (batch, words, size) of sentences, and their lengths (batch,)."""
        lengths = [len(words) for words in sentences]
        vectors = self.vectors([word for words in sentences for word in words])
        rows = list(torch.split(vectors, lengths))
        return pad_sequence(rows, batch_first=True), torch.tensor(lengths)

    @property
    def hit_rate(self) -> float:
        """The share of words looked up that were there; 0 before the first."""
        return self.hits / max(self.hits + self.misses, 1)

    def mark(self) -> tuple[int, int]:
        """Now, for `learnt_since`: how often it started again, and its words."""
        with self._up_to_date():
            return self._restarts, len(self._rows)

    def learnt_since(self, mark: tuple[int, int]) -> KnownWords:
        """The words that were learnt after a mark and are still known."""
        with self._lock:
            afresh = self._restarts != mark[0]
            first = 0 if afresh else mark[1]
            words = list(islice(self._rows, first, None))
            table = torch.empty(0, 0) if self._table is None else self._table
            vectors = table[first : first + len(words)].float().cpu().numpy().copy()
            return KnownWords(words, vectors, afresh)

    def learn(self, known: KnownWords, device: torch.device) -> None:
        """Take over words as if they had been encoded here, on a device: equal to the bit."""
        with self._up_to_date():
            if known.afresh:
                self._forget()
            if known.words:
                self._keep(known.words, torch.from_numpy(known.vectors).to(device))

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """Have the cache to oneself, without what a changed encoder has made invalid."""
        with self._lock, torch.inference_mode():
            version = self._version()
            if version != self._version_known:
                self._forget()
                self._table = None
                self._version_known = version
            yield

    def _forget(self) -> None:
        self._rows.clear()
        self._restarts += 1

    def _known(self, distinct: list[str]) -> tuple[dict[str, int], Tensor]:
        """A table that has a row for each of the words, and which row."""
        missing = [word for word in distinct if word not in self._rows]
        if missing and self._note is not None:
            self._note(missing, distinct)
        full = len(self._rows) + len(missing) > self.capacity
        if full:
            missing = distinct
        self.misses += len(missing)
        self.hits += len(distinct) - len(missing)
        if len(distinct) > self.capacity:
            return {word: row for row, word in enumerate(distinct)}, self.encode(distinct)
        if full:
            self._forget()
        if missing:
            self._keep(missing, self.encode(missing))
        assert self._table is not None
        return self._rows, self._table

    def _keep(self, words: list[str], vectors: Tensor) -> None:
        if self._table is None:
            self._table = vectors.new_empty(self.capacity, vectors.shape[1])
        start = len(self._rows)
        self._table[start : start + len(words)] = vectors
        self._rows.update(zip(words, range(start, start + len(words)), strict=True))


def word_cache(
    bilm: BiLM, vocabulary: Vocabulary | None, capacity: int, scripts: SeenScripts | None = None
) -> WordCache:
    """A cache of the token vectors of a model, invalid when its encoder was trained or moved."""

    def encode(words: Sequence[str]) -> Tensor:
        middle = len(words) // 2
        device = next(bilm.parameters()).device
        if middle < FEWEST_ROWS or not can_share_cores(device):
            return encode_words(bilm, vocabulary, words)
        halves = [partial(encode_words, bilm, vocabulary, words[:middle])]
        halves.append(partial(encode_words, bilm, vocabulary, words[middle:]))
        return torch.cat(run_each(halves, middle, device, bilm.config.recurrent_numbers))

    note = None if scripts is None else scripts.note
    return WordCache(encode, capacity, lambda: version_of(bilm.encoder.parameters()), note)
