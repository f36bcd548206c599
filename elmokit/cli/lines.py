"""A file of lines, read whole: for commands that take few of them."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

from elmokit.errors import FormatError, InputError


def read_lines(input_file: str | Path) -> list[str]:
    """The lines of a UTF-8 file, each without its end."""
    piped = str(input_file) == "-"
    name = "standard input" if piped else str(input_file)
    try:
        contents = sys.stdin.buffer.read() if piped else Path(input_file).read_bytes()
        lines = contents.removeprefix(codecs.BOM_UTF8).splitlines()
        return [decode(line, name, number) for number, line in enumerate(lines, start=1)]
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from error


def decode(line: bytes, name: str, number: int) -> str:
    """One line as text."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{name}, line {number}: is not UTF-8 ({error.reason}); convert the file"
        ) from error
