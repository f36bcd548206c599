"""A file of lines, read whole: for commands that take few of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from elmokit.bulk.lines import STANDARD_INPUT, TextFile, TextStream, known_encoding


def read_lines(
    name: str, encoding: str = "utf-8", errors: Literal["strict", "replace"] = "strict"
) -> list[str]:
    """The lines of a file, plain or compressed, or of standard input (-), without their ends."""
    encoding = known_encoding(encoding)
    if name == STANDARD_INPUT:
        text: TextFile = TextStream(name, errors, encoding)
    else:
        text = TextFile(Path(name), errors, encoding)
    return [line for _, line in text.lines()]
