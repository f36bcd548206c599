"""Relatives such as *dog* and *doggy*: are they near by letters, by word2vec, by fastText?

A relative is right where its word is nearer than random words of about the same length are. The
pairs are those of runs/data/context_pairs.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from elmokit.analysis.probes.report import ProbeReport, Scores
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.static.vectors import StaticVectors
from runs.context_measures import (
    Pair,
    draw_words,
    frequent_words,
    read_questions,
    share_farther,
    token_vectors,
)

CHARACTERS = "layer 0 (characters)"
COLUMNS = ("known relatives", "unknown relatives")

Find = Callable[[str], Vectors | None]
"""The vector (size,) of a word; None where it has none."""


def probe_relatives(
    embedder: Embedder, static: Sequence[StaticVectors], pairs: Sequence[Pair] | None = None
) -> ProbeReport:
    """The share of random words that are farther from a relative than its word is.

    A relative is known if the first of the static vectors have it in their table, without them if
    the model's vocabulary has it. Known ones are those that all have a vector for.
    """
    pairs = all_pairs() if pairs is None else pairs
    frequent = frequent_words(embedder.vocabulary)
    drawn = {pair: draw_words(frequent, pair) for pair in pairs}
    finders = {CHARACTERS: character_finder(embedder, drawn)}
    finders |= {f"{one.name} (static)": one.find for one in static}
    known_words = {*(static[0].words if static else vocabulary_words(embedder))}
    known = [pair for pair in pairs if pair.written in known_words]
    known = [pair for pair in known if all(has_both(find, pair) for find in finders.values())]
    unknown = [pair for pair in pairs if pair.written not in known_words]
    shares = {
        name: {
            pair: share for pair in pairs if (share := farther(find, pair, drawn[pair])) is not None
        }
        for name, find in finders.items()
    }
    scores: dict[str, Scores] = {
        name: (mean_of(of_pair, known), mean_of(of_pair, unknown))
        for name, of_pair in shares.items()
    }
    return ProbeReport(
        probe="relatives",
        measure="random words farther",
        columns=COLUMNS,
        scores=scores,
        counts={"pairs": (len(known), len(unknown))},
        details={
            "pairs": {
                name: {f"{pair.word} {pair.written}": share for pair, share in of_pair.items()}
                for name, of_pair in shares.items()
            }
        },
    )


def vocabulary_words(embedder: Embedder) -> list[str]:
    """The words of a model's vocabulary."""
    return [] if embedder.vocabulary is None else list(embedder.vocabulary.words)


def all_pairs() -> list[Pair]:
    """The pairs of all kinds."""
    return [pair for pairs in read_questions().relatives.values() for pair in pairs]


def character_finder(embedder: Embedder, drawn: dict[Pair, list[str]]) -> Find:
    """The token vectors of all words that are compared."""
    words = {word for pair, others in drawn.items() for word in (*pair, *others)}
    return token_vectors(embedder, sorted(words)).get


def has_both(find: Find, pair: Pair) -> bool:
    """Whether both words of a pair have a vector."""
    return all(find(word) is not None for word in pair)


def farther(find: Find, pair: Pair, drawn: Sequence[str]) -> float | None:
    """The share of drawn words farther from the relative than its word; None where unknown."""
    word, written = (find(one) for one in pair)
    others = [vector for one in drawn if (vector := find(one)) is not None]
    if word is None or written is None or not others:
        return None
    return share_farther(written, word, np.stack(others))


def mean_of(shares: dict[Pair, float], pairs: Sequence[Pair]) -> float | None:
    """The mean share of some pairs; None unless all of them have one."""
    if not pairs or not all(pair in shares for pair in pairs):
        return None
    return float(np.mean([shares[pair] for pair in pairs]))
