from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.tasks.tags import (
    LabelledSpan,
    Scheme,
    allowed_transitions,
    convert,
    entity_tag,
    entity_types,
    scheme_tags,
    spans,
    types_of,
    write_tags,
)

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)

SCHEMES: tuple[Scheme, ...] = ("BIO", "IOBES")
WRITTEN = {
    "IOB1": ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "B-LOC", "I-ORG", "O"],
    "BIO": ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "B-LOC", "B-ORG", "O"],
    "IOBES": ["B-PER", "E-PER", "O", "S-LOC", "B-LOC", "E-LOC", "S-LOC", "S-ORG", "O"],
}
ENTITIES = [
    LabelledSpan("PER", 0, 2),
    LabelledSpan("LOC", 3, 4),
    LabelledSpan("LOC", 4, 6),
    LabelledSpan("LOC", 6, 7),
    LabelledSpan("ORG", 7, 8),
]
TYPES = ("X", "Y-Z")
MARKED = ["O", *(f"{mark}-{name}" for mark in "BIES" for name in TYPES)]
ANY_TAGS = st.lists(st.sampled_from(MARKED), max_size=8)
SCHEME = st.sampled_from(SCHEMES)


def conlleval_spans(tags: Sequence[str]) -> list[LabelledSpan]:
    """What conlleval counts, by its two tables of when a chunk ends and when one starts."""
    ends = {"BB", "BS", "BO", "IB", "IS", "IO", *(f"{one}{two}" for one in "ES" for two in "BIESO")}
    starts = {f"{one}{two}" for one in "BIESO" for two in "BS"} | {"EE", "EI", "SE", "SI"}
    starts |= {"OE", "OI"}
    found, start = [], 0
    bordered = ["O", *tags, "O"]
    for position, (before, tag) in enumerate(pairwise(bordered)):
        marks = before[0] + tag[0]
        differ = before[2:] != tag[2:]
        if before != "O" and (marks in ends or differ):
            found.append(LabelledSpan(before[2:], start, position))
        if tag != "O" and (marks in starts or differ):
            start = position
    return found


@pytest.mark.parametrize("source", WRITTEN)
def test_entities_are_read_from_every_scheme_and_written_in_two(source: str):
    assert spans(WRITTEN[source]) == ENTITIES
    for target in SCHEMES:
        assert list(convert(WRITTEN[source], target)) == WRITTEN[target]
        assert list(write_tags(ENTITIES, 9, target)) == WRITTEN[target]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O I-PER I-PER O", [("PER", 1, 3)]),  # a strict reader of BIO sees nothing here
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),
        ("I-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("B-PER E-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("B-PER I-PER O", [("PER", 0, 2)]),  # of IOBES the end is missing
        ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("S-PER I-PER E-PER", [("PER", 0, 1), ("PER", 1, 3)]),
        ("B-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("O O", []),
        ("", []),
    ],
)
def test_illegal_sequences_are_read_as_conlleval_reads_them(tags: str, expected: list[tuple]):
    assert spans(tags.split()) == expected


def test_all_short_sequences_are_read_as_conlleval_reads_them():
    for length in range(5):
        for tags in product(MARKED, repeat=length):
            assert spans(tags) == conlleval_spans(tags), tags


@pytest.mark.filterwarnings("ignore")
def test_any_tags_are_read_as_seqeval_reads_them():
    sequence_labeling = pytest.importorskip(
        "seqeval.metrics.sequence_labeling", reason="seqeval is not installed"
    )

    @given(tags=ANY_TAGS)
    @quick
    def check(tags: list[str]) -> None:
        theirs = sequence_labeling.get_entities(list(tags))
        assert spans(tags) == [(name, first, last + 1) for name, first, last in theirs]

    check()


@given(tags=ANY_TAGS, first=SCHEME, second=SCHEME)
@quick
def test_conversion_keeps_the_entities_and_the_way_back_is_exact(tags, first, second):
    written = convert(tags, first)
    assert spans(written) == spans(tags)
    assert convert(written, first) == written
    assert convert(convert(written, second), first) == written


def test_entities_may_be_without_a_type_and_types_may_hold_hyphens():
    assert entity_tag("B") == ("B", "")
    assert convert(["I", "I", "O", "I"], "IOBES") == ("B", "E", "O", "S")
    assert entity_tag("S-geo-pol") == ("S", "geo-pol")


def test_bilou_is_read_as_iobes():
    bilou = ["B-PER", "I-PER", "L-PER", "O", "U-LOC"]
    assert convert(bilou, "IOBES") == ("B-PER", "I-PER", "E-PER", "O", "S-LOC")
    assert spans(bilou) == [("PER", 0, 3), ("LOC", 4, 5)]


@pytest.mark.parametrize("name", ["", "B-", "b-PER", "BPER", "L", "U-", "O-PER", "NOUN", "-PER"])
def test_other_tags_are_no_entities(name: str):
    assert entity_tag(name) is None
    with pytest.raises(InputError, match=r"is not an entity's; use O, or B-, I-, E- or S-"):
        spans([name])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_a_scheme_are_all_that_conversion_can_write(scheme: Scheme):
    written = {name for tags in product(MARKED, repeat=3) for name in convert(tags, scheme)}
    assert sorted(scheme_tags(TYPES, scheme)) == sorted(written)
    assert entity_types(written) == TYPES


def test_types_of_tags():
    assert types_of(["B-PER", "O", "S-LOC", "I", "L-geo-pol"]) == (
        "PER", "O", "LOC", "entity", "geo-pol",
    )  # fmt: skip


def test_exactly_the_legal_sequences_are_allowed():
    names = scheme_tags(("X", "Y"), "IOBES")
    allowed = allowed_transitions(names)
    start, end = len(names), len(names) + 1
    for length in (1, 2, 3):
        for numbers in product(range(len(names)), repeat=length):
            tags = tuple(names[number] for number in numbers)
            path = pairwise([start, *numbers, end])
            assert all(allowed[step] for step in path) == (convert(tags, "IOBES") == tags), tags
    assert not allowed[:, start].any()
    assert not allowed[end].any()
    assert not allowed[start, end]
