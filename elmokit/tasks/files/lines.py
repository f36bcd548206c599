r"""The lines of a text file in any encoding, plain or compressed.

Only `\n` ends a line, and one `\r` before it belongs to the end.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.text.corpus import compression, read_chunks

ENCODING = "utf-8"


class Line(NamedTuple):
    """One line, without its end."""

    place: str  # "file, line 3"
    text: str


def read_lines(path: str | Path, encoding: str = ENCODING) -> list[Line]:
    """All lines of a file, which must hold more than blanks."""
    lines = read_text(path, encoding).removesuffix("\n").split("\n")
    return numbered(path, (line.removesuffix("\r") for line in lines))


def read_text(path: str | Path, encoding: str = ENCODING) -> str:
    """A whole file, which must hold more than blanks."""
    contents = b"".join(chunk.contents for chunk in read_chunks(Path(path)))
    text = _decoded(contents, encoding, path)
    if not text.strip():
        raise InputError(f"{path}: holds no text; name a file that has examples")
    return text


def numbered(path: str | Path, lines: Iterable[str]) -> list[Line]:
    """Lines, each with its place in a file."""
    return [Line(place(path, number), line) for number, line in enumerate(lines, start=1)]


def paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Runs of lines between blank ones; none of them is empty."""
    for blank, run in groupby(lines, key=lambda line: not line.text.strip()):
        if not blank:
            yield list(run)


def columns_of(line: Line) -> list[str]:
    """The columns of a line: separated by tabs, or by blanks where there is no tab."""
    if "\t" in line.text:
        return [column.strip() for column in line.text.split("\t")]
    # At plain blanks alone: a word may have others in it, as in "10 000" with one that holds.
    return [stripped for column in line.text.split(" ") if (stripped := column.strip())]


def suffix(path: str | Path) -> str:
    """What the name of a file ends in, its compression apart, in lower case.

    >>> suffix("dev.TSV.gz"), suffix("eng.train"), suffix("README")
    ('.tsv', '.train', '')
    """
    path = Path(path)
    return (path.with_suffix("") if compression(path) else path).suffix.lower()


def place(path: str | Path, line: int) -> str:
    """How errors name a line of a file."""
    return f"{path}, line {line}"


def _decoded(contents: bytes, encoding: str, path: str | Path) -> str:
    try:
        return contents.decode(encoding)
    except LookupError:
        raise InputError(
            f"{path}: encoding {encoding!r} is unknown; name one such as 'utf-8' or 'latin-1'"
        ) from None
    except UnicodeDecodeError as error:
        line = contents.count(b"\n", 0, error.start) + 1
        likely = "utf-16" if contents.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin-1"
        raise FormatError(
            f"{place(path, line)}: is not {encoding} ({error.reason}); name the encoding that the "
            f"file has, as in --encoding {likely}"
        ) from None
