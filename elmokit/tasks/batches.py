"""Which examples are trained on together, and in which order: by seed and epoch alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmokit.config import check_size
from elmokit.errors import InputError
from elmokit.tasks.examples import AnyExample
from elmokit.text.batching import batch_by_length

LENGTH_NOISE = 0.1
"""How much an example's length may seem to differ, so that it meets others in every epoch."""
CHOICE_SEED = 20180215
"""What chooses a part of the data: always the same, so that runs of different seeds compare."""
HELD_OUT_SHARE = 10
"""Where there is no dev file, one example in so many is held out of the training data."""


def size_of(example: AnyExample) -> int:
    """Words of an example, those of all its sentences."""
    return sum(map(len, example.sentences))


def epoch_batches(
    sizes: Sequence[int], *, tokens: int, most: int, seed: int, epoch: int
) -> list[list[int]]:
    """The batches of one epoch: example numbers, similar sizes together, in random order.

    A batch has at most `most` examples and `tokens` words, padding counted; an example above that
    stands alone.

    >>> batches = epoch_batches([3, 9, 4, 1], tokens=9, most=10, seed=1, epoch=1)
    >>> sorted(map(sorted, batches))
    [[0, 2], [1], [3]]
    """
    check_size("tokens", tokens)
    check_size("most", most)
    random = np.random.default_rng([seed, epoch])
    lengths = np.asarray(sizes, dtype=np.float64)
    noisy = lengths * (1 + LENGTH_NOISE * random.random(len(lengths)))
    batches = _cut(np.argsort(-noisy, kind="stable"), sizes, tokens, most)
    return [batches[number] for number in random.permutation(len(batches))]


def ordered_batches(sizes: Sequence[int], *, tokens: int, most: int) -> list[list[int]]:
    """Batches of examples that are only looked at: similar sizes together, the largest first."""
    return batch_by_length(sizes, tokens, most)


def _cut(order: NDArray[np.int64], sizes: Sequence[int], tokens: int, most: int) -> list[list[int]]:
    """Cut an order of examples into batches within the budget."""
    batches: list[list[int]] = []
    longest = 0
    for number in order.tolist():
        longest = max(longest, sizes[number])
        full = batches and (len(batches[-1]) == most or (len(batches[-1]) + 1) * longest > tokens)
        if not batches or full:
            batches.append([])
            longest = sizes[number]
        batches[-1].append(number)
    return batches


def fixed_part(count: int, fraction: float) -> list[int]:
    """A part of `count` examples, in their order; a smaller fraction is a part of a larger one.

    >>> set(fixed_part(100, 0.1)) < set(fixed_part(100, 0.2)), len(fixed_part(100, 0.1))
    (True, 10)
    """
    most = max(1, round(count * fraction))
    return sorted(_fixed_order(count)[:most].tolist())


def hold_out(groups: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Numbers of examples to train on and to hold out, each in their order: the same every time.

    Examples of one group stay together, so what is held out may be a little less than a tenth; it
    is more where the smallest group is.

    >>> hold_out(["a", "a", "b", "a"])
    ([0, 1, 3], [2])
    """
    members: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    if len(members) < 2:
        raise InputError(
            "the examples are too much alike (equal ones, pairs that share their first sentence, "
            "and parts of one document stay together), or there is only one, so none can be held "
            "out; give a dev file (--dev)"
        )
    most = max(1, len(groups) // HELD_OUT_SHARE)
    each = list(members.values())
    held: list[int] = []
    for place in reversed(_fixed_order(len(each)).tolist()):
        if len(held) + len(each[place]) <= most:
            held += each[place]
    held = held or min(each, key=len)
    return sorted(set(range(len(groups))).difference(held)), sorted(held)


def _fixed_order(count: int) -> NDArray[np.int64]:
    return np.random.default_rng(CHOICE_SEED).permutation(count)
