from __future__ import annotations

import random
from itertools import chain

import pytest
from helpers import error_of

from elmokit.errors import InputError
from elmokit.tasks.examples import PairExample, epoch_batches, fixed_part, hold_out, size_of

SIZES = [random.Random(n).randint(1, 40) for n in range(300)]


def batches(seed: int = 1, epoch: int = 0, tokens: int = 100, most: int = 16) -> list[list[int]]:
    return epoch_batches(SIZES, tokens=tokens, most=most, seed=seed, epoch=epoch)


def padded(batch: list[int]) -> int:
    return len(batch) * max(SIZES[number] for number in batch)


def test_every_example_is_in_one_batch() -> None:
    assert sorted(chain.from_iterable(batches())) == list(range(len(SIZES)))


def test_batches_keep_to_the_budget_padding_counted() -> None:
    assert max(map(padded, batches())) <= 100
    assert max(map(len, batches(tokens=10**6))) == 16


def test_example_above_the_budget_stands_alone() -> None:
    assert all(len(batch) == 1 for batch in batches(tokens=1) if SIZES[batch[0]] > 1)


def test_order_depends_on_seed_and_epoch_alone() -> None:
    assert batches() == batches()
    assert batches(epoch=1) != batches()
    assert batches(seed=2) != batches()


def test_examples_meet_others_in_another_epoch() -> None:
    mates = [{frozenset(batch) for batch in batches(epoch=epoch)} for epoch in (0, 1)]
    assert len(mates[0] & mates[1]) < len(mates[0]) / 2


def test_similar_sizes_are_together() -> None:
    wasted = 1 - sum(SIZES) / sum(map(padded, batches()))
    assert wasted < 0.15


def test_a_pair_is_as_large_as_both_its_sentences() -> None:
    assert size_of(PairExample(("a", "b"), ("c",), None, "here")) == 3


@pytest.mark.parametrize(("fraction", "count"), [(0.01, 10), (0.1, 100), (1.0, 1000), (1e-9, 1)])
def test_a_fraction_is_as_large_as_it_says_and_at_least_one(fraction: float, count: int) -> None:
    part = fixed_part(1000, fraction)
    assert len(part) == len(set(part)) == count
    assert part == sorted(part)


def test_a_tenth_is_held_out_and_the_rest_is_left() -> None:
    kept, held = hold_out(range(105))
    assert (len(kept), len(held)) == (95, 10)
    assert sorted(kept + held) == list(range(105))
    assert hold_out(range(105)) == (kept, held)


def test_examples_of_one_group_are_held_out_together() -> None:
    groups = [number % 40 for number in range(120)]
    kept, held = hold_out(groups)
    assert len(held) == 12
    assert not {groups[n] for n in kept} & {groups[n] for n in held}


def test_where_groups_are_large_the_smallest_is_held_out() -> None:
    assert hold_out(["a"] * 5 + ["b"] * 3 + ["c"] * 4)[1] == [5, 6, 7]


def test_nothing_can_be_held_out_of_one_example() -> None:
    assert "give a dev file" in error_of(hold_out, ["only"], kind=InputError)
    assert "share their first sentence" in error_of(hold_out, ["one", "one"], kind=InputError)
