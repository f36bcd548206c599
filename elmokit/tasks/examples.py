"""What a task is learnt from: texts, tagged sentences and pairs, each knowing where it was read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

Item = TypeVar("Item")
Words = tuple[str, ...]
WHITESPACE = " \t\n\r\v\f"  # what separates words. A no-break space and the like may be one.


class AnyExample(Protocol):
    """All that the training loop asks of an example, whatever its task."""

    @property
    def place(self) -> str:
        """Where it was read, such as "train.csv, line 3": what an error about it begins with."""

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The sentences that need word vectors."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text and its class."""

    words: Words
    label: str | None  # None where it is to be predicted
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The one text."""
        return (self.words,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its label; none if it has none."""
        return () if self.label is None else (self.label,)


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """A sentence and a tag for each of its words."""

    words: Words
    tags: tuple[str, ...] | None  # None where they are to be predicted
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """The one sentence."""
        return (self.words,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its tags, word by word; none if it has none."""
        return self.tags or ()


@dataclass(frozen=True, slots=True)
class PairExample:
    """Two sentences and how the second stands to the first."""

    first: Words
    second: Words
    label: str | None  # None where it is to be predicted
    place: str

    @property
    def sentences(self) -> tuple[Words, ...]:
        """Both, in their order."""
        return (self.first, self.second)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its label; none if it has none."""
        return () if self.label is None else (self.label,)


Example = TextExample | TaggedSentence | PairExample
"""Those with labels by name; `AnyExample` is what code for every task works on."""


def is_word(value: object) -> bool:
    """Whether a value is a word: a text that is more than whitespace."""
    return isinstance(value, str) and bool(value.strip(WHITESPACE))


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
    random = np.random.default_rng([seed, epoch])
    lengths = np.asarray(sizes, dtype=np.float64)
    noisy = lengths * (1 + LENGTH_NOISE * random.random(len(lengths)))
    longest_first = np.argsort(-noisy, kind="stable").tolist()

    def padded(batch: Sequence[int]) -> float:
        return len(batch) * max(sizes[n] for n in batch) if len(batch) <= most else np.inf

    batches = list(groups_within(tokens, longest_first, padded))
    return [batches[number] for number in random.permutation(len(batches))]


def groups_within(
    most: int, items: Iterable[Item], cost: Callable[[Sequence[Item]], float]
) -> Iterator[list[Item]]:
    """Items in their order, in groups that cost at most so much; one that costs more is alone.

    >>> list(groups_within(5, [1, 3, 2, 9, 1], sum))
    [[1, 3], [2], [9], [1]]
    """
    group: list[Item] = []
    for item in items:
        if group and cost([*group, item]) > most:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


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


NAMES_SHOWN = 8
LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Labels:
    """Names of classes or tags, in the order of the network's outputs; none of a task without.

    >>> labels = Labels(("ham", "spam"))
    >>> labels.number("spam", "test.csv, line 2"), len(labels)
    (1, 2)
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) == 1:
            only = f"only the label {shown(self.names[0])}"
            raise InputError(f"there is {only}; a task needs at least two to tell apart")

    @classmethod
    def from_examples(cls, examples: Sequence[Example]) -> Labels:
        """Those that occur in examples, which are labelled, sorted."""
        names = {label for example in examples for label in example.labels}
        try:
            return cls(tuple(sorted(names)))
        except InputError as error:
            raise InputError(f"{examples[0].place} and after: {error}") from None

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str, place: str | None = None) -> int:
        """The number of a label that was read at `place`."""
        try:
            return self._numbers[name]
        except KeyError:
            where = "" if place is None else f"{place}: "
            raise InputError(
                f"{where}label {shown(name)} is unknown; the training data have {self._listed()}: "
                f"{self._advice(name)}"
            ) from None

    def numbers(self, names: Iterable[str], place: str | None = None) -> list[int]:
        """The number of each of some labels that were read at `place`."""
        return [self.number(name, place) for name in names]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _advice(self, name: str) -> str:
        if len(name) > LONGEST_SHOWN:
            return "is it the text? --label-column names the label's column"
        near = next((each for each in self.names if each.casefold() == name.casefold()), None)
        if near is not None:
            return f"write it {shown(near)}"
        return "give a file of the same task, or train on examples of this label too"

    def _listed(self) -> str:
        more = len(self.names) - NAMES_SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return ", ".join(map(shown, self.names[:NAMES_SHOWN])) + rest


def shown(name: str) -> str:
    """A label for people, who may have named the column of the texts.

    >>> shown("ham"), len(shown("a text " * 100))
    ("'ham'", 43)
    """
    return repr(name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…")


Offsets = tuple[int, int]


def words_between(offsets: Sequence[Offsets], start: int, end: int) -> tuple[int, int]:
    """The first and the end of the words that text[start:end] touches; the same where none is.

    >>> words_between([(0, 3), (4, 9), (9, 10)], 5, 10)
    (1, 3)
    """
    first = bisect_right(offsets, start, key=lambda each: each[1])
    return first, max(first, bisect_left(offsets, end, key=lambda each: each[0]))
