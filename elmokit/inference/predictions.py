"""Results of a language model: scores, perplexity, words in order of fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer, check_text
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

LogProbabilities = NDArray[np.float64]

GAP = "___"  # where a word is missing from a raw sentence
STAND_IN = "word"  # what a tokenizer is shown for a gap: letters, so that it stays one word
NOT_OFFERED = (BEGIN, END, UNKNOWN)  # entries of a vocabulary that are not words
LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)


class SentenceScore(NamedTuple):
    """Natural log probabilities of a sentence, word by word, in the sentence's order."""

    words: tuple[str, ...]
    forward: NDArray[np.float32]  # (words,) of each word, given the words before it
    forward_end: float  # of the end marker, given the complete sentence
    backward: NDArray[np.float32]  # (words,) of each word, given the words after it
    backward_end: float  # of the begin marker, given the complete sentence
    unknown: NDArray[np.bool_]  # (words,) True where the value is that of <UNK>

    @property
    def total_forward(self) -> float:
        """Log probability of the sentence read forward, its end marker included."""
        return float(self.forward.sum(dtype=np.float64)) + self.forward_end

    @property
    def total_backward(self) -> float:
        """Log probability of the sentence read backward, its begin marker included."""
        return float(self.backward.sum(dtype=np.float64)) + self.backward_end

    @property
    def total(self) -> float:
        """Both directions together."""
        return self.total_forward + self.total_backward

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        totals = {
            "total": self.total,
            "total_forward": self.total_forward,
            "total_backward": self.total_backward,
        }
        return {name: plain(value) for name, value in (totals | self._asdict()).items()}


class Perplexity(NamedTuple):
    """How well a model predicts a text: the lower the better."""

    forward: float
    backward: float
    mean: float  # geometric: exp of half the sum of both cross entropies
    targets: int  # per direction: every word, and a marker for every sentence
    words: int
    unknown: int  # words that the model could only predict as <UNK>
    state: str  # what each sentence started from

    def describe(self) -> str:
        """One line."""
        share = self.unknown / self.words if self.words else 0.0
        return (
            f"perplexity {self.mean:,.2f} (forward {self.forward:,.2f}, backward "
            f"{self.backward:,.2f}), state {self.state}; sentences: {self.targets - self.words:,}, "
            f"words: {self.words:,} ({share:.1%} unknown), targets per direction: {self.targets:,}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {name: plain(value) for name, value in self._asdict().items()}


@dataclass
class PerplexitySums:
    """What perplexity is made of, sentence after sentence."""

    forward: float = 0.0
    backward: float = 0.0
    sentences: int = 0
    words: int = 0
    unknown: int = 0

    def add(self, score: SentenceScore) -> None:
        """Take in one more sentence."""
        self.forward += score.total_forward
        self.backward += score.total_backward
        self.sentences += 1
        self.words += len(score.words)
        self.unknown += int(score.unknown.sum())

    def perplexity(self, state: str) -> Perplexity:
        """Of everything taken in."""
        if not self.sentences:
            raise InputError("there are no sentences to take the perplexity of; give at least one")
        targets = self.words + self.sentences
        forward, backward = -self.forward / targets, -self.backward / targets
        return Perplexity(
            forward=exponential(forward),
            backward=exponential(backward),
            mean=exponential((forward + backward) / 2),
            targets=targets,
            words=self.words,
            unknown=self.unknown,
            state=state,
        )


class WordProbability(NamedTuple):
    """A word, and how probable it is at one place."""

    word: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict()


class RankedWord(NamedTuple):
    """How well a word fits a place, and the parts that its score is made of."""

    word: str
    score: float  # forward + backward - log_prior, of those that are known; the higher the better
    probability: float
    forward: float | None  # log probability given the words before; None if they were not given
    backward: float | None  # log probability given the words after; None if they were not given
    log_prior: float | None  # log of the word's share of all words; None if not subtracted
    known: bool = True  # False for a word outside the vocabulary, which has no score

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return self._asdict() | {"score": plain(self.score)}


class Gap(NamedTuple):
    """Where a word is wanted; None for a side that nothing is known of."""

    before: list[str] | None
    after: list[str] | None

    def __str__(self) -> str:
        return " ".join([*(self.before or ()), GAP, *(self.after or ())])


class Fit:
    """How well every word of a vocabulary fits one place; arrays are (words,)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        forward: LogProbabilities | None,
        backward: LogProbabilities | None,
    ) -> None:
        self.vocabulary = vocabulary
        directions = [part for part in (forward, backward) if part is not None]
        prior = log_prior(vocabulary) if len(directions) == 2 else None
        scores = np.sum(directions, axis=0) - (0.0 if prior is None else prior)
        self.scores = without(scores, vocabulary, NOT_OFFERED)  # -inf for what is not a word
        # One direction's are log probabilities already.
        self._log_sum = float(np.logaddexp.reduce(self.scores)) if len(directions) == 2 else 0.0
        self._parts = (forward, backward, prior)

    def row(self, number: int) -> RankedWord:
        """The word of that id, with all its parts."""
        word, score = self.vocabulary.word_of(number), float(self.scores[number])
        parts = (None if part is None else float(part[number]) for part in self._parts)
        forward, backward, prior = parts
        return RankedWord(word, score, math.exp(score - self._log_sum), forward, backward, prior)


def best(log_probabilities: LogProbabilities, top: int) -> list[int]:
    """The ids of the `top` highest, highest first, leaving out what cannot be.

    >>> best(np.log([0.5, 0.25, 0.25]), top=2)
    [0, 1]
    """
    order = np.argsort(-log_probabilities, kind="stable")[:top]
    return order[log_probabilities[order] > -np.inf].tolist()


def without(
    log_probabilities: LogProbabilities, vocabulary: Vocabulary, words: Iterable[str]
) -> LogProbabilities:
    """The same log probabilities with minus infinity for some words."""
    allowed = log_probabilities.copy()
    allowed[[vocabulary.id_of(word) for word in words if word in vocabulary]] = -np.inf
    return allowed


def log_prior(vocabulary: Vocabulary) -> LogProbabilities | None:
    """Log of each word's share of all words (words,); None where they were not counted."""
    if vocabulary.counts is None:
        return None
    # A word that was never seen would fit anywhere.
    counts = np.maximum(np.array(vocabulary.counts, dtype=np.float64), 1.0)
    markers = [vocabulary.id_of(marker) for marker in (BEGIN, END)]
    return np.log(counts) - math.log(counts.sum() - counts[markers].sum())


def draw(
    log_probabilities: LogProbabilities,
    temperature: float,
    top: int | None,
    random: np.random.Generator,
) -> int:
    """One id at random; temperature 0 takes the highest, `top` chooses among the highest only."""
    if temperature == 0:
        return best(log_probabilities, 1)[0]
    ids = np.array(best(log_probabilities, top or len(log_probabilities)))
    weights = log_probabilities[ids] / temperature
    shares = np.exp(weights - weights.max())
    return int(random.choice(ids, p=shares / shares.sum()))


def find_place(
    text: str, tokenizer: Tokenizer, *, previous: bool = False, missing: bool = False
) -> Gap:
    """Where a raw sentence lacks a word: at its gap, or else after it; before it if `previous`.

    A gap that begins or ends it is a word of a sentence whose rest is not known: only the words on
    its other side are. Unless it is `missing`: then the sentence is complete but for its gap.
    """
    check_text(text)
    if missing or GAP in text:
        if previous:
            raise InputError(f"{text!r}: is read backward from its end, so it can have no {GAP}")
        before, after = split_at_gap(text, tokenizer)
        if missing or (before and after):
            return Gap(before, after)
        return Gap(None, after) if after else Gap(before, None)
    words = [token.text for token in tokenizer.words(text)]
    return Gap(None, words) if previous else Gap(words, None)


def split_at_gap(text: str, tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """The words before and after the gap of a raw sentence."""
    if text.count(GAP) != 1:
        count = text.count(GAP)
        raise InputError(f"{text!r}: has {count} gaps; write {GAP} once", "gap_count", count=count)
    place = text.index(GAP)
    tokens = tokenizer.words(text.replace(GAP, STAND_IN))
    for number, token in enumerate(tokens):
        if (token.text, token.start) == (STAND_IN, place):
            words = [token.text for token in tokens]
            return words[:number], words[number + 1 :]
    raise InputError(f"{text!r}: {GAP} is part of a word; put spaces around it", "gap_in_word")


def check_candidates(candidates: Sequence[str]) -> None:
    """Raise unless it is a list of different words."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InputError(f'candidates is {short(candidates)}; give a list: ["window", "pool"]')
    if not candidates:
        raise InputError("there are no candidates; give at least one word")
    for number, word in enumerate(candidates):
        if not isinstance(word, str) or not word:
            raise InputError(f"candidate {number} is {short(word)}; give a word")
        if word in candidates[:number]:
            raise InputError(f"candidate {number} is {word!r} again; give each word once")


def exponential(value: float) -> float:
    """exp, infinite where it is too large for a float."""
    return math.inf if value > LARGEST_EXPONENT else math.exp(value)


def plain(value: Any) -> Any:
    """A value for JSON, which has no arrays and no infinite numbers."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
