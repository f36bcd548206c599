"""The classes of a task: their names, and the numbers that a network has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from elmokit.errors import InputError
from elmokit.tasks.examples import Example

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
        object.__setattr__(self, "names", tuple(self.names))
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"label {shown(twice)} is there twice; give each class another name")
        if len(self.names) == 1:
            only = f"only the label {shown(self.names[0])}"
            raise InputError(f"there is {only}; a task needs at least two to tell apart")

    @classmethod
    def from_examples(cls, examples: Sequence[Example]) -> Labels:
        """Those that occur in examples, sorted; every example must be labelled."""
        if not examples:
            raise InputError("there is no label; a task needs at least two to tell apart")
        names: set[str] = set()
        for example in examples:
            if not example.labels:
                raise InputError(f"{example.place}: has no label; only labelled examples can teach")
            names.update(example.labels)
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
        """What to do about a label that is unknown."""
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
