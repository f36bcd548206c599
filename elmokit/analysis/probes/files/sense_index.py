"""WordNet's `index.sense`: every sense of every lemma, numbered by how frequent it is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from elmokit.analysis.probes.files.lines import Line, read_lines
from elmokit.analysis.probes.files.senses import lemma_of
from elmokit.errors import FormatError, InputError

VALUES = 4


class SenseIndex(NamedTuple):
    """WordNet's senses."""

    numbers: dict[str, int]  # sense key → its number among those of its lemma, from 1
    first: dict[str, str]  # lemma → its sense number 1, the most frequent


def read_sense_index(path: str | Path) -> SenseIndex:
    """Read `index.sense`: on each line a sense key, an offset, the sense's number and a count."""
    numbers: dict[str, int] = {}
    first: dict[str, str] = {}
    for line in read_lines(path):
        if line.text.strip():
            sense, number = _sense(line)
            numbers[sense] = number
            if number == 1:
                first[lemma_of(sense, line.place)] = sense
    if not numbers:
        raise InputError(f"{path}: holds no sense; name WordNet's index.sense")
    return SenseIndex(numbers, first)


def _sense(line: Line) -> tuple[str, int]:
    """The sense key of a line, and its number."""
    values = line.text.split()
    if len(values) != VALUES or not values[2].isdecimal():
        raise FormatError(
            f"{line.place}: {line.text[:60]!r} is not a sense key, an offset, a number and a "
            "count; name WordNet's index.sense"
        )
    lemma_of(values[0], line.place)
    return values[0], int(values[2])
