"""What a task is learnt from: texts, tagged sentences and pairs, each knowing where it was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elmokit.errors import InputError

Words = tuple[str, ...]
BLANKS = " \t\n\r\v\f"
"""What separates words. A no-break space and the like may be one."""


class AnyExample(Protocol):
    """All that the training loop asks of an example, whatever its task."""

    @property
    def place(self) -> str:
        """Where it was read, such as "train.csv, line 3": what an error about it begins with."""

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The sentences that need word vectors."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text and its class."""

    words: Words
    label: str | None
    """None where it is to be predicted."""
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The one text."""
        return (self.words,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its label; none if it has none."""
        return _one_or_none(self.label)


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence and a tag for each of its words."""

    words: Words
    tags: tuple[str, ...] | None
    """None where they are to be predicted."""
    place: str

    def __post_init__(self) -> None:
        if self.tags is not None and len(self.tags) != len(self.words):
            raise InputError(
                f"{self.place}: has {len(self.words)} words but {len(self.tags)} tags; give each "
                "word one tag"
            )

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The one sentence."""
        return (self.words,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its tags, word by word; none if it has none."""
        return self.tags or ()


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two sentences and how the second stands to the first."""

    first: Words
    second: Words
    label: str | None
    """None where it is to be predicted."""
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """Both, in their order."""
        return (self.first, self.second)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its label; none if it has none."""
        return _one_or_none(self.label)


Example = TextExample | TaggedSentence | PairExample
"""Those with labels by name; `AnyExample` is what code for every task works on."""


def is_word(value: object) -> bool:
    """Whether a value is a word: a text that is more than blanks."""
    return isinstance(value, str) and bool(value.strip(BLANKS))


def _one_or_none(label: str | None) -> tuple[str, ...]:
    return () if label is None else (label,)
