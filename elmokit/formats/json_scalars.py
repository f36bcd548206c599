"""Texts and whole numbers out of a large JSON text, without parsing the rest of it."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator

import numpy as np

from elmokit.errors import FormatError

SCALAR = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d++|null')

Scalar = str | int | None
Text = bytes | mmap.mmap | memoryview


class JsonScalars:
    """The scalars of a flat JSON list or object, in their order: found once, parsed when asked for.

    >>> list(JsonScalars(b'["a b", 7, null]', "[]", "numbers"))
    ['a b', 7, None]

    Args:
        text: UTF-8; may be part of a file that is mapped into memory.
        brackets: What the text must begin and end with.
        name: What it is, for an error message.
    """

    def __init__(self, text: Text, brackets: str, name: str) -> None:
        begin, end = brackets.encode()
        if not len(text) or (text[0], text[-1]) != (begin, end):
            raise FormatError(f"{name} cannot be read (no JSON text in {brackets})")
        self._text = text
        self._name = name
        starts = (match.start() for match in SCALAR.finditer(text))
        self._starts = np.fromiter(starts, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Scalar:
        match = SCALAR.match(self._text, int(self._starts[number]))
        try:
            return json.loads(match.group()) if match else None
        except ValueError as error:
            raise FormatError(f"{self._name} cannot be read ({error})") from error

    def __iter__(self) -> Iterator[Scalar]:
        return (self[number] for number in range(len(self)))
