"""The lines of a file with their places, for errors that name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from elmokit.text.corpus import read_chunks, text_of


class Line(NamedTuple):
    """One line, without its end."""

    place: str  # "file, line 3"
    text: str


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of a file, plain or compressed, in little memory."""
    for chunk in read_chunks(Path(path)):
        lines = text_of(chunk).removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=chunk.first_line):
            yield Line(f"{path}, line {number}", line.removesuffix("\r"))


def paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Runs of lines between blank ones; none of them is empty."""
    for blank, run in groupby(lines, key=lambda line: not line.text.strip()):
        if not blank:
            yield list(run)
