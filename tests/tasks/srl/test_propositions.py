from __future__ import annotations

from tasks.small_srl import sentence

from elmokit.tasks.examples import size_of
from elmokit.tasks.srl.propositions import Proposition, RoleSentence, in_parts, with_found

THREE = sentence("a b c d", (0, "B-V O O O"), (1, "O B-V O O"), (3, "B-ARG0 I-ARG0 O B-V"))


def test_a_sentence_costs_as_much_as_it_has_predicates() -> None:
    assert size_of(THREE) == 12
    assert size_of(RoleSentence(("a", "b"), (), "here")) == 2
    assert size_of(RoleSentence(("a", "b"), None, "here")) == 2


def test_a_sentence_in_parts_has_all_propositions_and_knows_all_predicates() -> None:
    parts = in_parts(THREE, most=8)
    assert [len(part.propositions or ()) for part in parts] == [2, 1]
    assert tuple(each for part in parts for each in part.propositions or ()) == THREE.propositions
    assert {frozenset(part.predicates) for part in parts} == {frozenset({0, 1, 3})}


def test_a_part_has_at_least_one_predicate_and_small_sentences_stay_whole() -> None:
    assert [len(part.propositions or ()) for part in in_parts(THREE, most=1)] == [1, 1, 1]
    assert in_parts(THREE, most=12) == [THREE]
    without = RoleSentence(("a",), (), "here")
    assert in_parts(without, most=1) == [without]


def test_words_that_are_more_probably_a_predicate_than_not_are_found() -> None:
    unknown = RoleSentence(("a", "b", "c", "d"), None, "here")
    on_padding = 0.9
    found = with_found(unknown, [0.51, 0.49, 0.5, 1.0, on_padding])
    assert found == RoleSentence(unknown.words, (Proposition(0), Proposition(3)), "here")
    assert with_found(unknown, [0.0] * 4).propositions == ()


def test_predicates_that_are_given_stay_as_they_are() -> None:
    assert with_found(THREE, [0.0, 0.0, 1.0, 0.0]) == THREE
    none = RoleSentence(("a",), (), "here")
    assert with_found(none, [1.0]) == none
