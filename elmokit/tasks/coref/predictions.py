"""What is found in a document: clusters of mentions, with their places in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from elmokit.tasks.coref.documents import Cluster
from elmokit.tasks.examples import Offsets, Words, place_of_words


class Mention(NamedTuple):
    """A mention in a document."""

    text: str  # as it stands in the raw text; without one, its words with spaces between them
    first_word: int  # its words are words[first_word:end_word]
    end_word: int
    start: int | None = None  # text[start:end] of the raw text; None where words were given
    end: int | None = None


@dataclass(frozen=True, slots=True)
class CorefPrediction:
    """The clusters of a document."""

    words: Words
    clusters: tuple[tuple[Mention, ...], ...]
    text: str | None = None
    """The raw text; None where words were given."""

    def within(self, text: str, offsets: Sequence[Offsets]) -> CorefPrediction:
        """The same with the places of all mentions in the raw text.

        Args:
            text: The raw text.
            offsets: Where each word stands in it.
        """
        clusters = tuple(
            tuple(_within(mention, text, offsets) for mention in cluster)
            for cluster in self.clusters
        )
        return replace(self, clusters=clusters, text=text)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "words": list(self.words),
            "clusters": [[mention._asdict() for mention in cluster] for cluster in self.clusters],
        }

    def to_text(self) -> str:
        """The text with brackets around all mentions, and the number of the cluster in each.

        >>> ann, she = Mention("Ann", 0, 1), Mention("she", 2, 3)
        >>> CorefPrediction(("Ann", "says", "she", "can"), ((ann, she),)).to_text()
        '[1 Ann] says [1 she] can'
        """
        text = " ".join(self.words) if self.text is None else self.text
        offsets = None if self.text is not None else _joined_offsets(self.words)
        places = [
            (*_place(mention, offsets), number)
            for number, cluster in enumerate(self.clusters, start=1)
            for mention in cluster
        ]
        # At one place brackets close before others open; the longest opens first, and closes last.
        opening = [((start, 1, -end), f"[{number} ") for start, end, number in places]
        closing = [((end, 0, -start), "]") for start, end, _ in places]
        parts, done = [], 0
        for (place, _, _), bracket in sorted(opening + closing):
            parts += [text[done:place], bracket]
            done = place
        return "".join([*parts, text[done:]])


def mentions_of(clusters: Sequence[Cluster], words: Words) -> tuple[tuple[Mention, ...], ...]:
    """The mentions of clusters, as words."""
    return tuple(
        tuple(Mention(" ".join(words[start:end]), start, end) for start, end in cluster)
        for cluster in clusters
    )


def _within(mention: Mention, text: str, offsets: Sequence[Offsets]) -> Mention:
    start, end = place_of_words(offsets, mention.first_word, mention.end_word)
    return mention._replace(text=text[start:end], start=start, end=end)


def _place(mention: Mention, offsets: Sequence[Offsets] | None) -> tuple[int, int]:
    if offsets is not None:
        return place_of_words(offsets, mention.first_word, mention.end_word)
    assert mention.start is not None  # `within` has set both
    assert mention.end is not None
    return mention.start, mention.end


def _joined_offsets(words: Words) -> list[Offsets]:
    """Where words are that are joined by whitespace."""
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return offsets
