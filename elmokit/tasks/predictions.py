"""What a trained task says of a text, of words, or of a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from elmokit.tasks.examples import Offsets, Words
from elmokit.tasks.tags import entity_tag, shown_type, spans


class Prediction(Protocol):
    """What every prediction can do."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""


@runtime_checkable
class ReadablePrediction(Prediction, Protocol):
    """What a prediction can do that is a text itself."""

    def to_text(self) -> str:
        """For people: what was given, marked with what was found."""


@dataclass(frozen=True, slots=True)
class LabelPrediction:
    """The class of a text or of a pair."""

    label: str
    probabilities: Mapping[str, float]
    """Of every class."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"label": self.label, "probabilities": dict(self.probabilities)}


class Entity(NamedTuple):
    """An entity in a sentence or a text."""

    type: str
    text: str  # as it stands in the raw text; without one, its words with spaces between them
    first_word: int  # its words are words[first_word:end_word]
    end_word: int
    start: int | None  # text[start:end] of the raw text; None where words were given
    end: int | None


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The tags of words, and the entities that they stand for."""

    words: Words
    tags: tuple[str, ...]
    """One for each word; those of entities are written as BIO."""
    probabilities: tuple[Mapping[str, float], ...]
    """Of every tag, for each word."""
    offsets: tuple[Offsets, ...] | None = None
    """Where each word stands in the raw text; None where words were given."""
    entities: tuple[Entity, ...] | None = None
    """None where tags are not those of entities."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        values: dict[str, Any] = {
            "words": list(self.words),
            "tags": list(self.tags),
            "probabilities": [dict(each) for each in self.probabilities],
        }
        if self.offsets is not None:
            values["offsets"] = [list(each) for each in self.offsets]
        if self.entities is not None:
            values["entities"] = [entity._asdict() for entity in self.entities]
        return values


def entities_of(
    words: Words, tags: Sequence[str], offsets: Sequence[Offsets] | None, text: str | None
) -> tuple[Entity, ...]:
    """The entities that tags stand for.

    >>> entities_of(("Jim", "Lee", "sat"), ["B-PER", "I-PER", "O"], None, None)[0].text
    'Jim Lee'
    """
    found = []
    for span in spans(tags):
        start = None if offsets is None else offsets[span.start][0]
        end = None if offsets is None else offsets[span.end - 1][1]
        shown = " ".join(words[span.start : span.end]) if text is None else text[start:end]
        entity_type = shown_type(span.type)
        found.append(Entity(entity_type, shown, span.start, span.end, start, end))
    return tuple(found)


def as_bio(tag: str) -> str:
    """A tag of IOBES as BIO has it.

    >>> as_bio("S-PER"), as_bio("E-PER"), as_bio("NOUN")
    ('B-PER', 'I-PER', 'NOUN')
    """
    parts = entity_tag(tag)
    if parts is None or parts.mark not in "ES":
        return tag
    return str(parts._replace(mark={"E": "I", "S": "B"}[parts.mark]))
