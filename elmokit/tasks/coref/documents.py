"""Documents of coreference: spans, clusters of mentions, segments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from elmokit.tasks.examples import Words

PART = "; part "  # between the name of a document and the number of a part of it
LONGEST_SENTENCE = 1000
"""Words; what is longer is read in pieces, so that any length fits into memory."""


class Span(NamedTuple):
    """Words of a document, `words[start:end]`, counted through all its sentences."""

    start: int
    end: int

    def moved(self, by: int) -> Span:
        """The same words where the document begins elsewhere."""
        return Span(self.start + by, self.end + by)


Cluster = tuple[Span, ...]  # mentions of one and the same, in the order of the document


class PronounQuestion(NamedTuple):
    """Whom a pronoun stands for: a row of GAP."""

    pronoun: Span
    first: Span  # A
    second: Span  # B
    is_first: bool
    is_second: bool
    feminine: bool

    @property
    def names(self) -> set[Span]:
        """The names that the pronoun stands for."""
        names = (self.first, self.is_first), (self.second, self.is_second)
        return {name for name, is_right in names if is_right}


@dataclass(frozen=True, slots=True)
class Document:
    """The sentences of a document, and its clusters."""

    sentences: tuple[Words, ...]
    clusters: tuple[Cluster, ...] | None
    """None where they are to be predicted."""
    place: str
    name: str = ""
    question: PronounQuestion | None = None
    """Where only this is known of the document, and the clusters are its answer."""

    @property
    def words(self) -> Words:
        """Those of all sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)

    @property
    def identity(self) -> str | tuple[Words, ...]:
        """What is the same for all parts of one document: its name; without one, its words."""
        return self.name.partition(PART)[0] or self.sentences

    @property
    def given_spans(self) -> tuple[Span, ...]:
        """Spans that are known to be mentions: those of a question."""
        return () if self.question is None else self.question[:3]


def make_clusters(mentions: Iterable[Iterable[Span]]) -> tuple[Cluster, ...]:
    """Clusters in the order of their first mentions.

    A span can be a mention once only: where it is one of several clusters, the first has it.

    >>> make_clusters([[Span(3, 4)], [Span(5, 6), Span(0, 2), Span(3, 4)]])
    ((Span(start=0, end=2), Span(start=5, end=6)), (Span(start=3, end=4),))
    """
    taken: set[Span] = set()
    found = []
    for spans in mentions:
        own = sorted(set(spans) - taken)
        taken.update(own)
        if own:
            found.append(tuple(own))
    return tuple(sorted(found))


def segments(document: Document, most: int) -> list[Document]:
    """A document in parts of about equal size, each of at most `most` words.

    It is cut between sentences, of which none is longer than that: one that is becomes several. A
    mention that reaches over a cut is lost, and clusters end at it. What a question is about is not
    cut.
    """
    if document.question is not None:
        return [document]
    longest = min(most, LONGEST_SENTENCE)
    document = replace(document, sentences=tuple(pieces_of(document.sentences, longest)))
    cuts = list(cut_places([len(sentence) for sentence in document.sentences], most))
    return [part_of(document, first, end) for first, end in cuts]


def pieces_of(sentences: Iterable[Words], longest: int) -> Iterator[Words]:
    """The same words in sentences of at most `longest`.

    >>> list(pieces_of([("a", "b", "c"), ("d",)], 2))
    [('a', 'b'), ('c',), ('d',)]
    """
    for sentence in sentences:
        for start in range(0, len(sentence), longest):
            yield sentence[start : start + longest]


def cut_places(lengths: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Which sentences are together: pairs of the first and of the one after the last.

    >>> list(cut_places([3, 3, 3, 3], most=10)), list(cut_places([10, 1, 1], most=10))
    ([(0, 2), (2, 4)], [(0, 1), (1, 3)])
    """
    wanted = math.ceil(sum(lengths) / math.ceil(sum(lengths) / most))
    first = words = 0
    for number, length in enumerate(lengths):
        if number > first and (words >= wanted or words + length > most):
            yield first, number
            first, words = number, 0
        words += length
    yield first, len(lengths)


def part_of(document: Document, first: int, end: int) -> Document:
    """The sentences from `first` to before `end`, with the clusters that are in them."""
    starts = [0, *accumulate(map(len, document.sentences))]
    begin, stop = starts[first], starts[end]
    inside = (
        [span.moved(-begin) for span in cluster if begin <= span.start and span.end <= stop]
        for cluster in document.clusters or ()
    )
    return replace(
        document,
        sentences=document.sentences[first:end],
        clusters=None if document.clusters is None else make_clusters(inside),
    )
