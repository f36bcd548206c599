"""Tags of entities, in the schemes IOB1, BIO and IOBES: read, write, convert, what may follow what.

| scheme | an entity is | "Jim Lee in Oslo" |
|---|---|---|
| IOB1 | I-, and B- for its first word only where it touches one of its type | I-PER I-PER O I-LOC |
| BIO (IOB2) | B- for its first word, then I- | B-PER I-PER O B-LOC |
| IOBES (BIOES) | B-, I-, E- for its last word; S- for its only word | B-PER E-PER O S-LOC |

BILOU is IOBES with other letters, L- for E- and U- for S-. One rule reads all of them, and
sequences that no scheme allows: that of conlleval, the script which scored the CoNLL shared tasks.
So converting tags is reading their entities and writing them again, as BIO or IOBES.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

Scheme = Literal["BIO", "IOBES"]  # how tags are written; all of the schemes above are read
OUTSIDE = "O"
BILOU = {"L": "E", "U": "S"}  # the marks of BILOU that IOBES has other letters for
UNTYPED = "entity"  # what people are shown as the type of entities whose tags name none: B, I and O


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
    if entity_type:  # a bare L or U is not a mark: parts of speech are called so
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
            begins = tag.mark in "BS" or before.mark in "OES" or tag.type != before.type
            start = position if begins else found.pop().start
            found.append(LabelledSpan(tag.type, start, position + 1))
        before = tag
    return found


def write_tags(entities: Iterable[LabelledSpan], words: int, scheme: Scheme) -> tuple[str, ...]:
    """The tags of so many words, in which some are entities that do not overlap.

    >>> write_tags([LabelledSpan("PER", 0, 2), LabelledSpan("LOC", 3, 4)], 4, "BIO")
    ('B-PER', 'I-PER', 'O', 'B-LOC')
    """
    tags = [OUTSIDE] * words
    for entity_type, start, end in entities:
        length = end - start
        marks = "B" + "I" * (length - 1)
        if scheme == "IOBES":
            marks = "S" if length == 1 else "B" + "I" * (length - 2) + "E"
        tags[start:end] = [str(Tag(mark, entity_type)) for mark in marks]
    return tuple(tags)


def convert(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """The same entities, written in another scheme; the result is always a legal one.

    >>> convert(["I-PER", "I-PER", "O", "I-LOC"], "IOBES")
    ('B-PER', 'E-PER', 'O', 'S-LOC')
    """
    return write_tags(spans(tags), len(tags), scheme)


def types_of(tags: Iterable[str]) -> tuple[str, ...]:
    """The type of entity that each word belongs to, for people, or O.

    >>> types_of(["B-PER", "O", "S"])
    ('PER', 'O', 'entity')
    """
    parts = map(_known_entity_tag, tags)
    return tuple(OUTSIDE if part.mark == OUTSIDE else shown_type(part.type) for part in parts)


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
    marks = "BI" if scheme == "BIO" else "BIES"
    return (OUTSIDE, *(str(Tag(mark, each)) for each in types for mark in marks))


def allowed_transitions(names: Sequence[str]) -> NDArray[np.bool_]:
    """Which tag of IOBES (row) another (column) may follow: (tags + 2, tags + 2).

    `[before, after]` is True where `after` may stand right behind `before`; start and end are the
    last two. Nothing comes before the start or behind the end, and a sentence has at least a word.
    """
    count = len(names)
    allowed = np.zeros((count + 2, count + 2), dtype=np.bool_)
    tags = [_known_entity_tag(name) for name in names]
    border = Tag(OUTSIDE)  # a sentence may begin and end as if nothing but O were around it
    for row, before in enumerate([*tags, border]):
        allowed[row, :count] = [_may_follow(before, after) for after in tags]
    allowed[:count, count + 1] = [_may_follow(before, border) for before in tags]
    return allowed


def _known_entity_tag(name: str) -> Tag:
    """The two parts of a tag, which must be an entity's."""
    tag = entity_tag(name)
    if tag is None:
        raise InputError(
            f"tag {name!r} is not an entity's; use O, or B-, I-, E- or S- and a type, as in B-PER"
        )
    return tag


def _may_follow(before: Tag, after: Tag) -> bool:
    """Whether `after` may stand right behind `before` in IOBES."""
    if after.mark in "IE":
        return before.mark in "BI" and before.type == after.type
    return before.mark not in "BI"
