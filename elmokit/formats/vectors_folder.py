"""Vectors as a folder of Parquet files, which many machines can write.

`_elmokit.json`, which other readers of such folders pass over, names the files in the order of
their lines and says how many each has. It is written last: where it is, the folder is whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.json_files import read_object, write_object
from elmokit.formats.vector_file import VectorFile
from elmokit.formats.vector_items import PathLike, SentenceVectors
from elmokit.formats.vectors_parquet import ParquetVectors

CONTENTS = "_elmokit.json"
PARTS = ".parts"
"""Ends the name of the folder beside an output that holds what is done of it."""
FORMAT, VERSION = "elmokit-vectors", 1
OPEN_FILES = 4
"""Each keeps some groups of its rows in memory."""


def write_contents(folder: Path, lines: Mapping[str, int], *, numbered: bool) -> None:
    """Say that a folder is whole.

    Args:
        folder: It has all its files.
        lines: How many lines each has, by its name, in the order of the input.
        numbered: Whether ids are but the numbers of the lines.
    """
    contents = {"format": FORMAT, "version": VERSION, "numbered": numbered, "lines": dict(lines)}
    with write_atomically(folder / CONTENTS) as temporary:
        write_object(contents, temporary)


def check_finished(path: PathLike) -> None:
    """Refuse a name whose output is still being made."""
    parts = Path(f"{path}{PARTS}")
    if parts.is_dir() and not Path(path).exists():
        raise InputError(
            f"{path}: is not finished; what is done is in {parts}; to go on, run the same command "
            "with --resume"
        )


class FolderVectors(VectorFile):
    """Reads the files of a folder as one sequence; opens them when they are asked for."""

    def __init__(self, path: PathLike) -> None:
        _check_whole(Path(path))
        super().__init__(Path(path) / CONTENTS)
        contents = _contents_of(self.path)
        self.path = Path(path)
        self._names = list(contents.lines)
        self._ends = np.cumsum(list(contents.lines.values()), dtype=np.int64)
        self._numbered = contents.numbered
        self._files: OrderedDict[int, ParquetVectors] = OrderedDict()
        self._lock = Lock()
        self.description = self._file(0).description if self._names else {}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _known_sentences(self) -> Iterator[tuple[int, str]]:
        for number in range(len(self._names)):
            first = self._first(number)
            for line, sentence in self._file(number).sentences():
                yield first + line, sentence

    def _read(self, number: int) -> SentenceVectors:
        file = int(np.searchsorted(self._ends, number, side="right"))
        item = self._file(file)[number - self._first(file)]
        # As in a single file, which numbers its lines by itself.
        return item._replace(id=None) if self._numbered else item

    def _close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _first(self, file: int) -> int:
        """The number of a file's first line."""
        return int(self._ends[file - 1]) if file else 0

    def _file(self, number: int) -> ParquetVectors:
        with self._lock:
            if number not in self._files:
                self._files[number] = self._open(number)
                if len(self._files) > OPEN_FILES:
                    # Not closed: another thread may be reading it. It closes when nobody does.
                    self._files.popitem(last=False)
            self._files.move_to_end(number)
            return self._files[number]

    def _open(self, number: int) -> ParquetVectors:
        path = self.path / self._names[number]
        if not path.exists():
            raise FormatError(f"{path}: is missing; copy the folder again, with all its files")
        file = ParquetVectors(path)
        expected = int(self._ends[number]) - self._first(number)
        if len(file) != expected:
            raise FormatError(
                f"{path}: has {len(file)} lines, but {expected} by {CONTENTS}; copy the folder "
                "again, with all its files"
            )
        return file


def _check_whole(folder: Path) -> None:
    """Refuse a folder that is no output, or not yet one."""
    if (folder / CONTENTS).exists():
        return
    if PARTS in (folder.suffix, folder.parent.suffix):
        raise InputError(
            f"{folder}: is of an output that is not finished; to go on, run the same command with "
            "--resume, then open the output"
        )
    raise FormatError(
        f"{folder}: is a folder without {CONTENTS}, so not one that the engine ray has finished; "
        "name a file of vectors, or copy the folder again, with all its files"
    )


class _Contents(NamedTuple):
    lines: dict[str, int]
    numbered: bool


def _contents_of(path: Path) -> _Contents:
    contents = read_object(path)
    if contents.get("format") != FORMAT or contents.get("version") != VERSION:
        raise FormatError(f"{path}: is of another version; write the vectors again")
    lines = contents.get("lines")
    if not isinstance(lines, dict) or not all(
        Path(name).name == name and isinstance(count, int) and count >= 0
        for name, count in lines.items()
    ):
        raise FormatError(f"{path}: does not name the files of its folder; copy it again")
    return _Contents(lines, bool(contents.get("numbered")))
