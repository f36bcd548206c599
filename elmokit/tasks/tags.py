"""Entities as tags of words: three ways to write them, and which tag may follow which.

| scheme | an entity is | "Jim Lee in Oslo" |
|---|---|---|
| IOB1 | I-, and B- for its first word only where it touches one of its type | I-PER I-PER O I-LOC |
| BIO (IOB2) | B- for its first word, then I- | B-PER I-PER O B-LOC |
| IOBES (BIOES) | B-, I-, E- for its last word; S- for its only word | B-PER E-PER O S-LOC |

BILOU is IOBES with other letters, L- for E- and U- for S-. One rule reads all of them, and
sequences that no scheme allows: that of conlleval, the script which scored the CoNLL shared tasks.
So converting tags is reading their entities and writing them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_choice
from elmokit.errors import InputError
from elmokit.tasks.examples import TaggedSentence

Scheme = Literal["IOB1", "BIO", "IOBES"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
OUTSIDE = "O"
MARKS: dict[Scheme, str] = {"IOB1": "BI", "BIO": "BI", "IOBES": "BIES"}
"""What the tags of entities begin with."""
BILOU = {"L": "E", "U": "S"}
"""The marks of BILOU that IOBES has other letters for."""
UNTYPED = "entity"
"""What people are shown as the type of entities whose tags name none: B, I and O."""


class LabelledSpan(NamedTuple):
    """An entity: its type, and its words `words[start:end]`."""

    type: str
    start: int
    end: int


def shown_type(entity_type: str) -> str:
    """The type of an entity for people.

    >>> shown_type("PER"), shown_type("")
    ('PER', 'entity')
    """
    return entity_type or UNTYPED


class Tag(NamedTuple):
    """A tag in its two parts: B, I, E, S or O, and the type of the entity."""

    mark: str
    type: str = ""

    def __str__(self) -> str:
        return f"{self.mark}-{self.type}" if self.type else self.mark


def entity_tag(name: str) -> Tag | None:
    """The two parts of a tag, or None if it is not one of an entity, as parts of speech are not.

    >>> entity_tag("B-PER"), entity_tag("O"), entity_tag("NOUN")
    (Tag(mark='B', type='PER'), Tag(mark='O', type=''), None)
    """
    if name == OUTSIDE:
        return Tag(OUTSIDE)
    mark, _, entity_type = name.partition("-")
    well_formed = str(Tag(mark, entity_type)) == name
    if entity_type:  # a bare L or U is no mark: parts of speech are called so
        mark = BILOU.get(mark, mark)
    return Tag(mark, entity_type) if well_formed and mark in tuple("BIES") else None


def spans(tags: Sequence[str]) -> list[LabelledSpan]:
    """The entities of a sentence, in their order, as conlleval reads them.

    >>> spans(["I-PER", "I-PER", "O", "I-LOC"])
    [LabelledSpan(type='PER', start=0, end=2), LabelledSpan(type='LOC', start=3, end=4)]
    """
    found: list[LabelledSpan] = []
    before = Tag(OUTSIDE)
    for position, name in enumerate(tags):
        tag = _known_entity_tag(name)
        if tag.mark != OUTSIDE:
            start = position if _begins(tag, before) else found.pop().start
            found.append(LabelledSpan(tag.type, start, position + 1))
        before = tag
    return found


def convert(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """The same entities, written in another scheme; the result is always a legal one.

    >>> convert(["I-PER", "I-PER", "O", "I-LOC"], "IOBES")
    ('B-PER', 'E-PER', 'O', 'S-LOC')
    """
    check_choice("scheme", scheme, SCHEMES)
    written = [Tag(OUTSIDE)] * len(tags)
    before = LabelledSpan("", -1, -1)
    for span in spans(tags):
        touches = before.type == span.type and before.end == span.start
        marks = _marks(span.end - span.start, scheme, touches)
        written[span.start : span.end] = [Tag(mark, span.type) for mark in marks]
        before = span
    return tuple(map(str, written))


def convert_sentences(sentences: Iterable[TaggedSentence], scheme: Scheme) -> list[TaggedSentence]:
    """Sentences whose tags are written in another scheme; tags that are no entities are refused."""
    return [_converted(sentence, scheme) for sentence in sentences]


def entity_types(names: Iterable[str]) -> tuple[str, ...]:
    """The types of entities that tags name, sorted.

    >>> entity_types(["O", "I-PER", "B-LOC", "I-LOC"])
    ('LOC', 'PER')
    """
    tags = (_known_entity_tag(name) for name in names)
    return tuple(sorted({tag.type for tag in tags if tag.mark != OUTSIDE}))


def scheme_tags(types: Iterable[str], scheme: Scheme) -> tuple[str, ...]:
    """Every tag that a scheme has for some types: also those that a training file happens to lack.

    >>> scheme_tags(["LOC", "PER"], "BIO")
    ('O', 'B-LOC', 'I-LOC', 'B-PER', 'I-PER')
    """
    check_choice("scheme", scheme, SCHEMES)
    tags = [str(Tag(mark, entity_type)) for entity_type in types for mark in MARKS[scheme]]
    return (OUTSIDE, *tags)


def allowed_transitions(names: Sequence[str], scheme: Scheme | None = None) -> NDArray[np.bool_]:
    """Which tag (row) another (column) may follow: (tags + 2, tags + 2), start and end the last.

    `[before, after]` is True where `after` may stand right behind `before`. Nothing comes before
    the start or behind the end, and a sentence has at least one word.

    Args:
        names: The tags in their order. If one of them is not an entity's, all may follow all.
        scheme: None for IOBES if there is an E or S among the names, else BIO.
    """
    if scheme is not None:
        check_choice("scheme", scheme, SCHEMES)
    count = len(names)
    scheme = scheme or _scheme_of_names(names)
    allowed = np.zeros((count + 2, count + 2), dtype=np.bool_)
    if scheme is None:
        allowed[: count + 1, :count] = True
        allowed[:count, count + 1] = True
        return allowed
    tags = [_known_entity_tag(name) for name in names]
    border = Tag(OUTSIDE)  # a sentence may begin and end as if nothing but O were around it
    for row, before in enumerate([*tags, border]):
        allowed[row, :count] = [_may_follow(before, after, scheme) for after in tags]
    allowed[:count, count + 1] = [_may_follow(before, border, scheme) for before in tags]
    return allowed


def _known_entity_tag(name: str) -> Tag:
    """The two parts of a tag, which must be an entity's."""
    tag = entity_tag(name)
    if tag is None:
        raise InputError(
            f"tag {name!r} is not an entity's; use O, or B-, I-, E- or S- and a type, as in B-PER"
        )
    return tag


def _begins(tag: Tag, before: Tag) -> bool:
    """Whether a word that is part of an entity begins it, given the tag of the word before."""
    return tag.mark in "BS" or before.mark in "OES" or tag.type != before.type


def _marks(length: int, scheme: Scheme, touches: bool) -> str:
    """The marks of an entity's words; `touches` if one of the same type ends right before it."""
    if scheme == "IOB1":
        return ("B" if touches else "I") + "I" * (length - 1)
    if scheme == "BIO":
        return "B" + "I" * (length - 1)
    return "S" if length == 1 else "B" + "I" * (length - 2) + "E"


def _converted(sentence: TaggedSentence, scheme: Scheme) -> TaggedSentence:
    if sentence.tags is None:
        return sentence
    try:
        return replace(sentence, tags=convert(sentence.tags, scheme))
    except InputError as error:
        raise InputError(f"{sentence.place}: {error}") from None


def _scheme_of_names(names: Iterable[str]) -> Scheme | None:
    """The scheme that tags are taken for without seeing them in sentences."""
    tags = [entity_tag(name) for name in names]
    if None in tags:
        return None
    return "IOBES" if any(tag and tag.mark in "ES" for tag in tags) else "BIO"


def _may_follow(before: Tag, after: Tag, scheme: Scheme) -> bool:
    """Whether `after` may stand right behind `before`."""
    same_entity = before.mark in "BI" and before.type == after.type
    if scheme == "IOB1":
        return after.mark != "B" or same_entity
    if scheme == "BIO":
        return after.mark != "I" or same_entity
    return same_entity if after.mark in "IE" else before.mark not in "BI"
