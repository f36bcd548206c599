"""Sentences of words: checked, spelled as the character ids of every ELMo, and put into batches."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.config import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD, WORD_PADDING
from elmokit.errors import ElmoWarning, InputError

if TYPE_CHECKING:
    from torch import Tensor

Sentence = Sequence[str]

MAX_CHARACTERS = 50
SENTENCE_MARKERS = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}

UNUSUAL = {
    "cut": "longer than the model reads, and cut",
    "empty": "without characters",
    "nul": "it has a NUL character",
    "surrogate": "it has lone surrogates, which UTF-8 cannot encode and which are dropped",
    "marker": "read as a sentence marker",
}
"""What a word can have about it that its owner should know."""


def word_bytes(word: str) -> bytes:
    """A word as the models read it: UTF-8, without what UTF-8 cannot encode."""
    return word.encode("utf-8", "ignore")


def character_ids(words: Sequence[str], max_characters: int = MAX_CHARACTERS) -> NDArray[np.int16]:
    """Spell words as ids (words, max_characters): begin mark, bytes, end mark, padding.

    >>> character_ids(["hi"])[0, :6]
    array([259, 105, 106, 260, 261, 261], dtype=int16)
    """
    ids = np.full((len(words), max_characters), WORD_PADDING, dtype=np.int16)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        mark = SENTENCE_MARKERS.get(word)
        if mark is not None:
            row[1:3] = mark, END_WORD
            continue
        spelling = word_bytes(word)[: max_characters - 2]
        end = len(spelling) + 1
        row[1:end] = np.frombuffer(spelling, dtype=np.uint8)
        row[1:end] += 1
        row[end] = END_WORD
    return ids


def listed(values: Any) -> Any:
    """A list of what an array, a column of a table or a generator holds; others as they are."""
    if hasattr(values, "tolist"):
        return values.tolist()
    return list(values) if isinstance(values, Iterator) else values


def check_sentences(sentences: Iterable[Sentence]) -> Sequence[Sentence]:
    """The same as lists; raise unless it holds lists of words, showing the right call."""
    sentences = listed(sentences)
    if isinstance(sentences, str | bytes):
        raise InputError(
            f"expected a list of sentences, got the text {sentences[:40]!r}; "
            'split it into words first: [["The", "river", "bank"]]'
        )
    if not isinstance(sentences, Sequence):
        raise InputError(f"expected a list of sentences, got {short(sentences)}; make a list of it")
    return [check_sentence(sentence, number) for number, sentence in enumerate(sentences)]


def check_sentence(sentence: Iterable[str], number: int) -> Sentence:
    """The same as a list; raise unless it holds words, naming the sentence by its number."""
    sentence = listed(sentence)
    if isinstance(sentence, str | bytes) or not isinstance(sentence, Sequence):
        raise InputError(
            f"sentence {number} is {short(sentence)}, not a list of words; "
            'write it as ["The", "river", "bank"]'
        )
    for position, word in enumerate(sentence):
        if not isinstance(word, str):
            raise InputError(
                f"word {position} of sentence {number} is {short(word)}, not a string; "
                "turn every word into a str first"
            )
    return sentence


def short(value: object, limit: int = 40) -> str:
    """A value for an error message, and its type, in few characters."""
    text = repr(value)
    return f"{text if len(text) <= limit else text[:limit] + '…'} ({type(value).__name__})"


def without_markers(words: Iterable[str]) -> list[str]:
    """The words of a vocabulary: there, sentence markers are nothing unusual."""
    return [word for word in words if word not in SENTENCE_MARKERS]


class UnusualWords:
    """Counts words that need a warning, and warns once of each kind.

    Counting is safe from several threads. A copy starts counting again. A position of a word is a
    byte, or with `code_points` one of these, of any kind.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS, code_points: bool = False) -> None:
        self._code_points = code_points
        self.counts: Counter[str] = Counter()
        self._longest = max_characters - 2
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[UnusualWords], tuple[int, bool]]:
        return UnusualWords, (self._longest + 2, self._code_points)

    def kinds(self, word: str) -> tuple[str, ...]:
        """What is unusual about a word; nothing, as a rule."""
        if self._code_points:
            return ("cut",) * (len(word) > self._longest) or ("empty",) * (not word)
        if word in SENTENCE_MARKERS:
            return ("marker",)
        found = []
        if not word:
            found.append("empty")
        if "\0" in word:
            found.append("nul")
        # A character is four bytes at most: short ASCII words need no look at their bytes.
        if 4 * len(word) > self._longest or not word.isascii():
            spelling = word_bytes(word)
            if len(spelling) > self._longest:
                found.append("cut")
            if spelling.decode("utf-8") != word:
                found.append("surrogate")
        return tuple(found)

    def note_all(self, sentences: Iterable[Sentence]) -> None:
        """Count every word of some sentences; warn of the first word of each kind."""
        for word, occurrences in Counter(chain.from_iterable(sentences)).items():
            for kind in self.kinds(word):
                with self._lock:
                    first = kind not in self.counts
                    self.counts[kind] += occurrences
                if first:
                    warnings.warn(
                        f"unusual word {word[:40]!r}: {UNUSUAL[kind]}; "
                        "further ones are only counted",
                        ElmoWarning,
                        stacklevel=2,
                    )


_REPORTED: dict[int, UnusualWords] = {}
"""Who counts for `batch_to_ids`, by the length of words: it has no object to keep counts on."""


def batch_to_ids(
    batch: Iterable[Sentence],
    max_characters: int = MAX_CHARACTERS,
    unusual: UnusualWords | None = None,
) -> Tensor:
    """Spell sentences as (batch, words, max_characters) int64, zero where a sentence has ended.

    Words that are cut or otherwise unusual are counted by `unusual`; without it, the first of each
    kind in this process is reported.

    >>> batch_to_ids([["A", "river", "bank"], ["Money"]]).shape
    torch.Size([2, 3, 50])
    """
    import torch

    batch = check_sentences(batch)
    if unusual is None:
        unusual = _REPORTED.setdefault(max_characters, UnusualWords(max_characters))
    unusual.note_all(batch)
    return torch.from_numpy(padded_ids(batch, max_characters))


def padded_ids(batch: Sequence[Sentence], max_characters: int, least: int = 0) -> NDArray[np.int64]:
    """Spell sentences as (batch, words, max_characters), zeros where one has ended."""
    longest = max((len(sentence) for sentence in batch), default=0)
    ids = np.zeros((len(batch), max(longest, least), max_characters), dtype=np.int64)
    for row, sentence in zip(ids, batch, strict=True):
        row[: len(sentence)] = character_ids(sentence, max_characters)
    return ids


def batch_by_length(
    lengths: Sequence[int], token_budget: int, max_sentences: int
) -> list[list[int]]:
    """Group sentence numbers into batches, longest first.

    A batch holds at most `max_sentences` sentences and `token_budget` tokens, padding counted; a
    sentence above the budget stands alone.

    >>> batch_by_length([3, 9, 4, 1], token_budget=9, max_sentences=10)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        if room == 0:
            batches.append([])
            room = min(max_sentences, token_budget // max(lengths[number], 1)) or 1
        batches[-1].append(number)
        room -= 1
    return batches


def windows(
    sentences: Iterable[Sentence], tokens: int, most: int, first: int | None = None
) -> Iterator[list[Sentence]]:
    """Cut any number of sentences into lists of about `tokens` tokens and `most` sentences.

    The first has about `first` tokens, and each after it twice as many as the one before, so that
    what comes of a stream comes soon.

    >>> list(windows([["a"], ["b", "c"], ["d"]], tokens=3, most=10))
    [[['a'], ['b', 'c']], [['d']]]
    """
    window: list[Sentence] = []
    size = tokens if first is None else min(first, tokens)
    room = size
    for number, sentence in enumerate(sentences):
        sentence = check_sentence(sentence, number)
        window.append(sentence)
        room -= len(sentence)
        if room <= 0 or len(window) == most:
            yield window
            size = min(2 * size, tokens)
            window, room = [], size
    if window:
        yield window
