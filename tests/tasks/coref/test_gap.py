from __future__ import annotations

import pytest

from elmokit.tasks.coref.documents import Cluster, PronounQuestion, Span
from elmokit.tasks.coref.scores import FEMININE, MASCULINE, named_by, score_pronouns

PRONOUN, FIRST, SECOND, OTHER = Span(9, 10), Span(0, 2), Span(4, 5), Span(7, 8)
A, B = (FIRST, PRONOUN), (SECOND, PRONOUN)


def asked(right: str, feminine: bool = True) -> PronounQuestion:
    return PronounQuestion(PRONOUN, FIRST, SECOND, right == "A", right == "B", feminine)


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ([A], {FIRST}),
        ([(FIRST, OTHER), (SECOND, OTHER, PRONOUN)], {SECOND}),
        ([(FIRST, SECOND, PRONOUN)], {FIRST, SECOND}),
        ([(FIRST, SECOND)], set()),
        ([], set()),
    ],
)
def test_a_pronoun_refers_to_the_names_of_its_cluster(
    clusters: list[Cluster], expected: set[Span]
) -> None:
    assert named_by(asked("A"), clusters) == expected


def test_names_are_counted_by_gender_and_rows_are_right_as_a_whole() -> None:
    """Two feminine rows, one right; three masculine ones: right, both names, right not to say."""
    questions = [asked("A"), asked("B"), *(asked(right, False) for right in ("A", "A", "neither"))]
    both = (FIRST, SECOND, PRONOUN)
    found = score_pronouns(questions, [[A], [A], [A], [both], []])
    counts = found.by_gender
    assert (counts[FEMININE].correct, counts[FEMININE].predicted) == (1, 2)
    assert counts[FEMININE].f1 == pytest.approx(1 / 2)
    assert (counts[MASCULINE].correct, counts[MASCULINE].predicted) == (2, 3)
    assert counts[MASCULINE].f1 == pytest.approx(4 / 5)
    assert found.bias == pytest.approx(5 / 8)
    assert found.main == pytest.approx(2 * 3 / (5 + 4))
    assert (found.right, found.accuracy) == (3, 3 / 5)


def test_a_score_says_all_its_parts() -> None:
    found = score_pronouns([asked("A"), asked("A", False)], [[A], []])
    assert found.describe() == (
        "F1 66.67% (masculine 0.00%, feminine 100.00%, bias unknown), accuracy 50.00% "
        "(1 of 2 pronouns)"
    )
    assert found.table().splitlines()[2].split() == ["feminine", "100.00%", "100.00%", "100.00%"]
    assert found.to_dict()["f1"] == found.main
    assert found.to_dict()["bias"] is None
