from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.examples import TaggedSentence
from elmokit.tasks.tags import (
    SCHEMES,
    LabelledSpan,
    Scheme,
    allowed_transitions,
    convert,
    convert_sentences,
    entity_tag,
    entity_types,
    scheme_tags,
    spans,
)

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)

WRITTEN: dict[Scheme, list[str]] = {
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


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_are_read_from_every_scheme(scheme: Scheme):
    assert spans(WRITTEN[scheme]) == ENTITIES


@pytest.mark.parametrize("source", SCHEMES)
@pytest.mark.parametrize("target", SCHEMES)
def test_every_scheme_is_converted_to_every_other(source: Scheme, target: Scheme):
    assert list(convert(WRITTEN[source], target)) == WRITTEN[target]


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


def test_sentences_are_converted_and_those_without_tags_kept():
    tagged = TaggedSentence(("Jim", "Lee"), ("I-PER", "I-PER"), "here")
    untagged = TaggedSentence(("Jim",), None, "there")
    assert convert_sentences([tagged, untagged], "BIO") == [
        TaggedSentence(("Jim", "Lee"), ("B-PER", "I-PER"), "here"),
        untagged,
    ]


def test_tag_that_is_no_entity_is_refused_at_its_place():
    sentence = TaggedSentence(("Dogs", "run"), ("NOUN", "VERB"), "dev.conllu, line 3")
    with pytest.raises(InputError, match=r"^dev\.conllu, line 3: tag 'NOUN' is not an entity's"):
        convert_sentences([sentence], "BIO")


def test_unknown_scheme_is_refused():
    for call in (lambda: convert(["O"], "BILOU"), lambda: scheme_tags(["X"], "BILOU")):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="scheme is 'BILOU'; use one of 'IOB1', 'BIO'"):
            call()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_a_scheme_are_all_that_conversion_can_write(scheme: Scheme):
    written = {name for tags in product(MARKED, repeat=3) for name in convert(tags, scheme)}
    assert sorted(scheme_tags(TYPES, scheme)) == sorted(written)
    assert entity_types(written) == TYPES


@pytest.mark.parametrize("scheme", SCHEMES)
def test_exactly_the_legal_sequences_are_allowed(scheme: Scheme):
    names = scheme_tags(("X", "Y"), scheme)
    allowed = allowed_transitions(names, scheme)
    start, end = len(names), len(names) + 1
    for length in (1, 2, 3):
        for numbers in product(range(len(names)), repeat=length):
            tags = tuple(names[number] for number in numbers)
            path = pairwise([start, *numbers, end])
            assert all(allowed[step] for step in path) == (convert(tags, scheme) == tags), tags


@pytest.mark.parametrize("scheme", ["BIO", "IOBES"])
def test_names_alone_tell_which_of_bio_and_iobes_is_meant(scheme: Scheme):
    names = scheme_tags(("X", "Y"), scheme)
    np.testing.assert_array_equal(allowed_transitions(names), allowed_transitions(names, scheme))


@pytest.mark.parametrize("names", [("NOUN", "VERB", "X"), ("O", "B-PER", "NOUN")])
def test_tags_that_are_no_entities_may_follow_each_other_at_will(names: tuple[str, ...]):
    allowed = allowed_transitions(names)
    assert allowed.shape == (5, 5)
    assert allowed.dtype == np.bool_
    assert allowed[:4, :3].all()  # from tags and from the start to every tag
    assert allowed[:3, 4].all()  # from every tag to the end


@pytest.mark.parametrize("names", [("NOUN", "VERB"), ("O", "B-X", "I-X"), ("O", "S-X")])
def test_nothing_comes_before_the_start_or_behind_the_end(names: tuple[str, ...]):
    allowed = allowed_transitions(names)
    start, end = len(names), len(names) + 1
    assert not allowed[:, start].any()
    assert not allowed[end].any()
    assert not allowed[start, end]
