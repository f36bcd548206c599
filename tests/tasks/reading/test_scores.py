from __future__ import annotations

import re
import string
from collections import Counter

import pytest

from elmokit.tasks.reading.questions import (
    Answer,
    Question,
    best_match,
    normalised,
    question_word,
    score_answers,
)


def asked(words: str, *answers: str) -> Question:
    return Question("q", tuple(words.split()), tuple(Answer(text, 0, 1) for text in answers))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Eiffel Tower.", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),  # no article
        ("U.S.A.", "usa"),
        ("a-b", "ab"),  # punctuation goes first: there is no article any more
        ("the-end", "theend"),
        ("  two\tblanks \n", "two blanks"),
        ("$5,000", "5000"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation counts as such
        ("The", ""),
        ("İ", "i̇"),
    ],
)
def test_normalisation_is_the_official_one(answer: str, expected: str) -> None:
    assert normalised(answer) == expected


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("the tower", ["Tower!"], 1, 1.0),
        ("Eiffel Tower", ["tower"], 0, 2 / 3),
        ("tower tower", ["tower"], 0, 2 / 3),  # a word counts as often as in both
        ("tower tower", ["tower of tower"], 0, 4 / 5),
        ("Paris", ["Rome"], 0, 0.0),
        ("in Paris", ["Rome", "Paris", "in the Paris"], 1, 1.0),
        ("old town hall", ["old town", "hall"], 0, 4 / 5),
        ("the", ["a"], 1, 0.0),  # nothing is left of both
    ],
)
def test_exact_match_and_f1_of_hand_made_cases(
    answer: str, right: list[str], exact: float, f1: float
) -> None:
    assert best_match(answer, right) == pytest.approx((1, exact, f1))


def test_scores_are_means_over_questions_of_the_best_answer() -> None:
    questions = [
        asked("Who was it ?", "Ada", "Ada Lovelace"),
        asked("In which year ?", "1843"),
        asked("Name him .", "Babbage"),
        asked("who else ?", "Mary Somerville"),
    ]

    score = score_answers(questions, ["ada lovelace", "in 1843", "nobody", "Mary"])

    assert score.main == pytest.approx((1 + 2 / 3 + 0 + 2 / 3) / 4)
    assert score.total.exact_match == 1 / 4
    assert {name: each.questions for name, each in score.by_question_word.items()} == {
        "who": 2, "which": 1, "other": 1,
    }  # fmt: skip
    assert score.by_question_word["who"].mean_f1 == pytest.approx(5 / 6)
    assert score.describe() == "F1 58.33%, exact match 25.00% (4 questions)"
    assert score.table().splitlines()[-1].split() == ["all", "58.33%", "25.00%", "4"]
    assert score.to_dict()["f1"] == score.main
    assert score.to_dict()["by_question_word"]["which"]["exact_match"] == 0.0


def test_scores_equal_an_independent_computation() -> None:
    """Precision and recall spelt out, in place of the shortened formula."""

    def plain(text: str) -> list[str]:
        letters = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", letters).split()

    def f1(answer: str, right: str) -> float:
        one, other = plain(answer), plain(right)
        same = sum((Counter(one) & Counter(other)).values())
        if not same:
            return 0.0
        precision, recall = same / len(one), same / len(other)
        return 2 * precision * recall / (precision + recall)

    texts = ["the old, old man", "an old man", "man", "The Sea.", "old sea of man", "a man a plan"]
    questions = [asked("what", first, second) for first in texts for second in texts]
    for answer in texts:
        score = score_answers(questions, [answer] * len(questions))
        wanted = [max(f1(answer, each.text) for each in q.answers) for q in questions]
        exact = [any(plain(answer) == plain(each.text) for each in q.answers) for q in questions]
        assert score.main == pytest.approx(sum(wanted) / len(wanted))
        assert score.total.exact_match == sum(exact) / len(exact)


def test_the_first_question_word_counts() -> None:
    assert question_word(asked("To WHOM or to who ?")) == "who"
    assert question_word(asked("Give its name")) == "other"
