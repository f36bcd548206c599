"""The counts of the CoNLL-2005 evaluation, on cases made by hand and by a second computation."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elmokit.tasks.scores import Counts
from elmokit.tasks.srl.task import counted_arguments, score_roles
from elmokit.tasks.tags import LabelledSpan, spans

NO_PREDICATES = Counts(0, 0, 0)


def phrases(tags: str) -> list[LabelledSpan]:
    return spans(tags.split())


def counts(right: str, guess: str) -> tuple[int, int, int]:
    """How many arguments are right, predicted and there."""
    total = score_roles([phrases(right)], [phrases(guess)], NO_PREDICATES).total
    return total.correct, total.predicted, total.expected


@pytest.mark.parametrize(
    ("right", "guess", "expected"),
    [
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 I-A1", (2, 2, 2)),
        # Another end, another role, and something that is not there.
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 O", (1, 2, 2)),
        ("B-A0 B-V B-A1 I-A1", "B-A1 B-V B-A1 I-A1", (1, 2, 2)),
        ("B-A0 B-V O O", "B-A0 B-V B-A1 I-A1", (1, 2, 1)),
        # The predicate does not count, right or wrong.
        ("B-A0 B-V O O", "B-A0 O O B-V", (1, 1, 1)),
        ("O B-V I-V O", "O B-V O B-C-V", (0, 0, 0)),
        ("O B-V O B-C-V", "O B-V O O", (0, 0, 0)),
        # Parts of an argument are one, and right together alone.
        ("B-A1 B-V B-C-A1 I-C-A1", "B-A1 B-V B-C-A1 I-C-A1", (1, 1, 1)),
        ("B-A1 B-V B-C-A1 I-C-A1", "B-A1 B-V B-C-A1 O", (0, 1, 1)),
        ("B-A1 B-V B-C-A1 I-C-A1", "B-A1 B-V O O", (0, 1, 1)),
        ("B-A1 B-V B-C-A1 I-C-A1", "B-A1 B-V B-A1 I-A1", (0, 2, 1)),
        ("B-A1 O B-C-A1 O B-C-A1", "B-A1 O B-C-A1 O B-C-A1", (1, 1, 1)),
        ("B-A1 O B-C-A1 O B-C-A1", "B-A1 O O O B-C-A1", (0, 1, 1)),
        # The same words in one phrase and in two are not the same.
        ("B-A1 B-C-A1 B-V", "B-A1 I-A1 B-V", (0, 1, 1)),
        # A part without a beginning is an argument of its own, on both sides.
        ("B-V B-A1 I-A1", "B-V B-C-A1 I-C-A1", (1, 1, 1)),
        ("B-C-A1 B-V B-A1", "B-A1 B-V B-A1", (2, 2, 2)),
        # It continues with the last argument of its role, whatever stands between.
        ("B-A1 B-A1 B-V B-C-A1", "B-A1 B-A1 B-V B-C-A1", (2, 2, 2)),
        ("B-A1 B-A1 B-V B-C-A1", "B-A1 O B-V B-C-A1", (0, 1, 2)),
        ("B-A1 B-A2 B-C-A1 O", "B-A1 B-A2 B-C-A1 O", (2, 2, 2)),
        # References to arguments are roles of their own.
        ("B-A0 B-R-A0 B-V", "B-A0 B-A0 B-V", (1, 2, 2)),
    ],
)
def test_arguments_are_counted_as_the_shared_task_does(
    right: str, guess: str, expected: tuple[int, int, int]
) -> None:
    assert counts(right, guess) == expected


def test_parts_count_under_the_role_that_they_go_on_with() -> None:
    found = score_roles([phrases("B-A1 B-V B-C-A1")], [phrases("B-A1 B-V O")], NO_PREDICATES)
    assert found.by_type == {"A1": Counts(0, 1, 1)}


def test_a_predicate_is_perfect_with_all_of_its_arguments_and_none_besides() -> None:
    right = [phrases("B-A0 B-V B-A1")] * 4 + [phrases("O B-V O")]
    guesses = ["B-A0 B-V B-A1", "B-A0 B-V O", "B-A0 B-V B-A1 B-A2", "B-A0 O B-A1", "O B-V O"]
    found = score_roles(right, [phrases(guess) for guess in guesses], NO_PREDICATES)
    assert (found.perfect, found.propositions) == (3, 5)


def test_a_score_says_all_its_parts() -> None:
    found = score_roles(
        [phrases("B-A0 B-V B-A1"), phrases("B-V O O")],
        [phrases("B-A0 B-V O"), phrases("B-V O O")],
        Counts(1, 1, 2),
    )
    assert found.main == pytest.approx(2 / 3)
    assert found.describe() == (
        "F1 66.67% (precision 100.00%, recall 50.00%); 1 right of 1 predicted and 2 there; "
        "50.00% of 2 predicates without a mistake; predicates found with F1 66.67%"
    )
    assert found.table().splitlines()[-1].startswith("all")
    plain = found.to_dict()
    assert (plain["f1"], plain["perfect"], plain["propositions"]) == (found.main, 1, 2)
    assert plain["predicates"]["recall"] == 0.5
    assert plain["by_type"]["A1"]["expected"] == 1


# A second computation, along the lines of the shared task's own program: arguments are kept by
# their first and last words, and those of several parts are compared part by part.


def loaded(tags: list[str]) -> list[dict[str, Any]]:
    """The arguments of a column, with their parts if there are several."""
    columns: list[tuple[str, int, int]] = []
    for word, tag in enumerate(tags):
        if tag.startswith("B-"):
            columns.append((tag[2:], word, word))
        elif tag.startswith("I-"):
            role, start, _ = columns.pop()
            columns.append((role, start, word))
    arguments: list[dict[str, Any]] = []
    by_role: dict[str, dict[str, Any]] = {}
    for role, start, end in columns:
        if role.startswith("C-") and role[2:] in by_role:
            head = by_role[role[2:]]
            if not head["parts"]:
                head["parts"].append((head["start"], head["end"]))
            head["parts"].append((start, end))
            head["end"] = end
            continue
        role = role.removeprefix("C-")
        argument = {"role": role, "start": start, "end": end, "parts": []}
        arguments.append(argument)
        by_role[role] = argument
    return arguments


def discriminated(right: list[str], guess: list[str]) -> tuple[int, int, int]:
    """How many are right, how many are too many, and how many are missed."""
    left = {(each["start"], each["end"]): each for each in loaded(right)}
    correct = excess = 0
    for each in loaded(guess):
        gold = left.get((each["start"], each["end"]))
        same = gold is not None and gold["role"] == each["role"]
        if same and gold is not None and sorted(gold["parts"]) == sorted(each["parts"]):
            correct += each["role"] != "V"
            del left[each["start"], each["end"]]
        else:
            excess += each["role"] != "V"
    return correct, excess, sum(each["role"] != "V" for each in left.values())


def random_tags(numbers: random.Random) -> list[str]:
    tags: list[str] = []
    while len(tags) < 8:
        role = numbers.choice(["O", "V", "A0", "A1", "C-A1", "C-A0", "R-A0", "C-V"])
        length = numbers.randint(1, 3)
        tags += ["O"] * length if role == "O" else [f"B-{role}", *[f"I-{role}"] * (length - 1)]
    return tags[:8]


def spliced(right: list[str], guess: list[str], cut: int) -> list[str]:
    """The beginning of one and the end of the other; an inside cut off from its role begins it."""
    joined = right[:cut] + guess[cut:]
    return [
        f"B-{tag[2:]}" if tag[0] == "I" and before[2:] != tag[2:] else tag
        for tag, before in zip(joined, ["O", *joined], strict=False)
    ]


def test_equals_a_second_computation_on_random_columns() -> None:
    numbers = random.Random(1)
    partly = 0
    for _ in range(300):
        right = random_tags(numbers)
        guess = spliced(right, random_tags(numbers), numbers.randint(0, 8))
        correct, excess, missed = discriminated(right, guess)
        found = score_roles([spans(right)], [spans(guess)], NO_PREDICATES).total
        expected = (correct, correct + excess, correct + missed)
        assert (found.correct, found.predicted, found.expected) == expected
        partly += bool(correct and excess and missed)
    assert partly > 20  # or nothing was compared


def test_arguments_do_not_depend_on_the_order_of_phrases() -> None:
    some = phrases("B-A1 B-A0 B-V B-C-A1")
    assert counted_arguments(some[::-1]) == counted_arguments(some)
