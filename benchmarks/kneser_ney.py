"""Modified Kneser-Ney with interpolation, exactly: what counting alone predicts.

Chen and Goodman, An Empirical Study of Smoothing Techniques for Language Modeling (1999). Of order
n, with h the n - 1 words before w and h' all of h but its first word:

    p(w | h) = (c(h w) - D(c(h w))) / c(h) + (D_1 N_1(h) + D_2 N_2(h) + D_3 N_3(h)) / c(h) p(w | h')

where c(h) is the sum of c(h w) over all w, and N_k(h) how many w have c(h w) = k (k or more for
3). c counts occurrences in the highest order, and in the lower ones the different words before
h w. Before an h w that begins with the sentence there is no word: it counts its occurrences
in every order. Below the first order all words are alike.

A text is a row of ids `0 w w w 0 w w 0`. The border 0 is the begin of a sentence where it is
context and its end where it is predicted, and no n-gram goes across it. The model of the reversed
row is the backward one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.config import Count, checked
from elmokit.errors import InputError
from elmokit.pretraining.prepared import BORDER

Row = NDArray[np.int32]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Where the counts of counts give none."""
LARGEST_KEY = np.iinfo(np.int64).max
UNSEEN = -1
"""The id of an n-gram that is not in the text."""


class Grams(NamedTuple):
    """The different n-grams of one order; the id of one is its place."""

    keys: NDArray[np.int64]  # (grams,) rising: the id of all words but the last * outcomes + it
    counts: NDArray[np.int32]  # (grams,) as the order counts


class Order(NamedTuple):
    """What one order adds to the next lower one. The last entry of each is that of `UNSEEN`."""

    keys: NDArray[np.int64]  # (grams + 1,) as in Grams
    shares: NDArray[np.float64]  # (grams + 1,) the probability that each has after its discount
    weights: NDArray[np.float64]  # (contexts + 1,) of the next lower order

    def find(self, contexts: Row, words: Row, outcomes: int) -> Row:
        """The ids of the n-grams that these words make after contexts (grams,) of these ids."""
        keys = _keys(contexts, words, outcomes)
        places = np.searchsorted(self.keys, keys)
        return np.where(self.keys[places] == keys, places, UNSEEN).astype(np.int32)


@dataclass(frozen=True)
class KneserNey:
    """An n-gram model of one direction."""

    unigrams: NDArray[np.float64]  # (outcomes,) the probabilities without any context
    higher: tuple[Order, ...]  # of orders 2, 3, …

    @staticmethod
    def train(row: Row, outcomes: int, order: int = 5) -> KneserNey:
        """Count a text (tokens,) of ids below `outcomes`, all of which it can predict."""
        checked("order", order, Count)
        check_row(row, outcomes)
        grams = count_grams(row, outcomes, order)
        contexts = [1, *(len(lower.keys) for lower in grams[:-1])]
        first, *higher = map(make_order, grams, contexts, [outcomes] * order)
        unigrams = first.shares[:-1] + first.weights[0] / outcomes
        return KneserNey(unigrams, tuple(higher))

    def log_probabilities(self, row: Row) -> NDArray[np.float64]:
        """Natural log probability of every token of a text (tokens,) but its first: (tokens - 1,).

        Of a token the words before it in its own sentence are known, and nothing else.
        """
        outcomes = len(self.unigrams)
        check_row(row, outcomes)
        lengths = context_lengths(row)
        probabilities = self.unigrams[row]
        ids = row.copy()
        for length, order in enumerate(self.higher, start=1):
            ends = np.flatnonzero(lengths >= length)
            contexts = ids[ends - 1]
            found = order.find(contexts, row[ends], outcomes)
            lower = order.weights[contexts] * probabilities[ends]
            probabilities[ends] = order.shares[found] + lower
            ids[ends] = found  # the other places are too near to their border to be read again
        return np.log(probabilities[1:])


def count_grams(row: Row, outcomes: int, order: int) -> list[Grams]:
    """The n-grams of a text (tokens,), of orders 1 to `order`, counted as Kneser-Ney does."""
    lengths = context_lengths(row)
    # The border that begins the row ends no sentence.
    occurrences = np.bincount(row[1:], minlength=outcomes).astype(np.int32)
    counted = [Grams(np.arange(outcomes), occurrences)]
    ids = row.copy()  # of the n-gram that ends at each token
    for length in range(1, order):
        ends = np.flatnonzero(lengths >= length)
        all_keys = _keys(ids[ends - 1], row[ends], outcomes)
        keys, numbers, counts = np.unique(all_keys, return_inverse=True, return_counts=True)
        del all_keys
        suffixes = np.empty(len(keys), np.int32)
        suffixes[numbers] = ids[ends]  # the same one wherever an n-gram occurs
        counted[-1] = count_words_before(counted[-1], suffixes)
        counted.append(Grams(keys, counts.astype(np.int32)))
        ids[ends] = numbers  # the other places are too near to their border to be read again
    return counted


def count_words_before(grams: Grams, suffixes: Row) -> Grams:
    """Put the number of different words before each n-gram in the place of its occurrences.

    Args:
        grams: The n-grams.
        suffixes: Which of them ends each n-gram of the next higher order.
    """
    before = np.bincount(suffixes, minlength=len(grams.keys)).astype(np.int32)
    # What begins with its sentence is no suffix.
    return Grams(grams.keys, np.where(before > 0, before, grams.counts))


def make_order(grams: Grams, contexts: int, outcomes: int) -> Order:
    """Discount the counts of n-grams that follow so many contexts."""
    taken = estimate_discounts(grams.counts)[np.minimum(grams.counts, 3)]
    prefixes = grams.keys // outcomes
    totals = np.bincount(prefixes, grams.counts, contexts + 1)
    taken_in_all = np.bincount(prefixes, taken, contexts + 1)
    weights = np.ones(contexts + 1)
    np.divide(taken_in_all, totals, out=weights, where=totals > 0)
    shares = (grams.counts - taken) / np.maximum(totals, 1)[prefixes]
    return Order(np.append(grams.keys, LARGEST_KEY), np.append(shares, 0.0), weights)


def estimate_discounts(counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """What to take (4,) from an n-gram that is counted 0, 1, 2, and 3 times or more.

    With n_k the number of n-grams that are counted k times, Y = n_1 / (n_1 + 2 n_2) and
    D_k = k - (k + 1) Y n_(k+1) / n_k. In a text that is small or made by rule one of n_1 to n_4 may
    be 0, or a D_k not above 0. All three are then `FALLBACK_DISCOUNTS`, so that every word always
    has some probability.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=5)[:5].tolist()
    discounts: Sequence[Fraction | float] = FALLBACK_DISCOUNTS
    if all(n[1:]):
        y = Fraction(n[1], n[1] + 2 * n[2])
        estimated = [k - (k + 1) * y * Fraction(n[k + 1], n[k]) for k in (1, 2, 3)]
        discounts = estimated if min(estimated) > 0 else discounts
    return np.array([0.0, *map(float, discounts)])


def context_lengths(row: Row) -> Row:
    """How many tokens (tokens,) stand before each in its sentence, the border included."""
    places = np.arange(len(row), dtype=np.int32)
    borders = np.maximum.accumulate(np.where(row == BORDER, places, 0))
    places[1:] -= borders[:-1]
    return places


def check_row(row: Row, outcomes: int) -> None:
    """Refuse what is not sentences between borders."""
    if not len(row) or row[0] != BORDER or row[-1] != BORDER:
        raise InputError(f"the row of {len(row)} ids must begin and end with the border, {BORDER}")
    if row.min() < 0 or row.max() >= outcomes:
        raise InputError(
            f"the row has ids from {row.min()} to {row.max()}; they must be 0 to {outcomes - 1}"
        )


def _keys(contexts: Row, words: Row, outcomes: int) -> NDArray[np.int64]:
    """The keys of n-grams; that of `UNSEEN` and a word is negative, so that none is found."""
    return contexts.astype(np.int64) * outcomes + words
