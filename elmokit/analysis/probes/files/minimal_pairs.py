"""BLiMP's minimal pairs: JSON lines, all in one file or one file for each paradigm.

Each line has a good sentence and a bad one, as raw text, and says which paradigm (`UID`), which
phenomenon (`linguistics_term`) and which field of linguistics the pair belongs to.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.analysis.probes.files.lines import read_lines
from elmokit.bulk.tables import json_object
from elmokit.errors import ElmoWarning, FormatError, InputError
from elmokit.text.corpus import find_files

SUFFIXES = (".jsonl", ".gz", ".xz", ".zst")
SENTENCES = ("sentence_good", "sentence_bad")
PARADIGM = ("UID", "linguistics_term", "field")
COUNTED_AS = {"s-selection": "argument_structure", "syntax/semantics": "syntax_semantics"}
"""What BLiMP's own summary makes of the names in its files."""


class Paradigm(NamedTuple):
    """Pairs of one make."""

    name: str
    phenomenon: str
    field: str


class MinimalPair(NamedTuple):
    """Two sentences, as raw text, of which the first is right and the second is not."""

    good: str
    bad: str


MinimalPairs = dict[Paradigm, list[MinimalPair]]


class _Row(NamedTuple):
    """A line of a file."""

    place: str
    values: dict[str, object]


def read_minimal_pairs(names: Sequence[str | Path]) -> MinimalPairs:
    """The pairs of each paradigm in some files, or in the files of folders.

    A folder may hold other JSON lines, such as a summary of results: they are left out, with a
    warning. A file that is named itself must hold pairs.
    """
    found: MinimalPairs = {}
    for path in find_files(names, SUFFIXES):
        if path not in map(Path, names) and not _holds_pairs(path):
            warnings.warn(f"{path}: holds no minimal pairs; left out", ElmoWarning, stacklevel=2)
            continue
        for row in _rows(path):
            good, bad, name, *kinds = (_text(row, field) for field in (*SENTENCES, *PARADIGM))
            paradigm = Paradigm(name, *(COUNTED_AS.get(kind, kind) for kind in kinds))
            found.setdefault(paradigm, []).append(MinimalPair(good, bad))
    if not found:
        listed = ", ".join(map(str, names))
        raise InputError(f"{listed}: holds no minimal pair; name BLiMP's files or their folder")
    return found


def _rows(path: Path) -> Iterator[_Row]:
    """The lines of a file that have something on them."""
    for line in read_lines(path):
        if line.text.strip():
            yield _Row(line.place, json_object(line.text, line.place))


def _holds_pairs(path: Path) -> bool:
    """Whether the first line of a file has a sentence of a pair."""
    first = next(_rows(path), None)
    return first is not None and any(field in first.values for field in SENTENCES)


def _text(row: _Row, field: str) -> str:
    """A field of a line, which must be a text."""
    value = row.values.get(field)
    if not isinstance(value, str) or not value.strip():
        wrong = "holds no text in" if field in row.values else "has no"
        raise FormatError(
            f"{row.place}: {wrong} {field!r}; each line of BLiMP has "
            f"{', '.join((*SENTENCES, *PARADIGM))}"
        )
    return value
