"""Text of any size, from files of many kinds or a stream, to the words of its sentences.

| file | a record is |
|---|---|
| `.jsonl`, `.ndjson` | an object on a line; its column is a text or a list of words |
| `.csv`, `.tsv` | a row under a line that names the columns; its column is a text |
| `.parquet` | a row; its column is a text or a list of words |
| any other | a line, which is a text |

All but Parquet may be compressed (`.csv.gz`, `.jsonl.zst`, `.xz`). `format` says what a stream is,
or a file whose name does not tell. A text is a sentence, its words separated by whitespace, and
gives one record, though it be blank. With `tokenize` it is raw text whose words the tokenizer
finds, and still one record. With `split` it gives a record for each sentence that the tokenizer
finds, so none if it is blank. A list of words is a sentence as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from elmokit.errors import ElmoWarning, InputError
from elmokit.io import text_files as corpus
from elmokit.io.tables import TABLE_SUFFIXES, ParquetFile, Row, TableFormat, text_rows
from elmokit.io.text_files import (
    STANDARD_INPUT,
    TextFile,
    TextSettings,
    TextStream,
    compression,
    find_files,
    suffix,
)
from elmokit.text.tokenizer import sentences_of_text

ROWS_LOOKED_AT = 20
RAW_SHARE = 0.25
# A tokenized text may have Yahoo! or U.S. here and there, but no sentence that ends in one.
# Anchored where a word begins: tried from each of its letters, a long one would take for ever.
GLUED = re.compile(r"(?<!\S)(?:\S*[^\W\d_][,!?](?=\s|$)|\S*[^\W\d_]{2}\.(?=\s*$))")


class RawTextHint:
    """Looks at the first texts of an input, and warns once if many of them look raw.

    Args:
        name: What the warning calls the input.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._looked_at = 0
        self._glued: list[str] = []
        self._decided = False

    def look_at(self, value: str | list[str]) -> None:
        """Look at one of the first texts; words in a list, and blank texts, tell nothing."""
        if self._decided or isinstance(value, list) or not value.strip():
            return
        self._looked_at += 1
        found = GLUED.search(value)
        if found:
            self._glued.append(found[0])
        if self._looked_at == ROWS_LOOKED_AT:
            self.decide()

    def decide(self) -> None:
        """Warn, unless that was decided before."""
        if not self._decided and self._glued and len(self._glued) >= self._looked_at * RAW_SHARE:
            warnings.warn(
                f"{self._name}: looks like raw text, and {self._glued[0][-40:]!r} is read as one "
                "word; split it into words with --tokenize, or into sentences too with --split",
                ElmoWarning,
                stacklevel=2,
            )
        self._decided = True


PARQUET = ".parquet"
TABLES = (*TABLE_SUFFIXES, PARQUET)
SUFFIXES = (*corpus.SUFFIXES, *TABLES)
"""The files that are taken from a folder."""
END_BYTES = 1 << 16


class RecordPlace(NamedTuple):
    """Where a record comes from; places are in the order of the records."""

    file: int  # number of the file, from 0
    line: int  # number of its line, or of its row in a Parquet file, from 1


class Record(NamedTuple):
    """One sentence."""

    words: list[str]
    place: RecordPlace  # the same for all sentences of a line
    id: str | int | None = None  # kept from another column


class InputSource(Protocol):
    """One file or stream."""

    path: Path

    @property
    def position(self) -> int:
        """Bytes on disk that are read so far."""

    def rows(self, start: int = 1) -> Iterator[Row]:
        """Its rows from line or row `start` on."""


class TextSource:
    """The rows of a text: its lines, or what a table in it has on them."""

    def __init__(self, text: TextFile, settings: TextSettings, format: TableFormat | None) -> None:
        self.path = text.path
        self._text = text
        self._settings = settings
        self._format = format

    @property
    def position(self) -> int:
        """Bytes on disk that are read so far."""
        return self._text.position

    def rows(self, start: int = 1) -> Iterator[Row]:
        """Its rows from line `start` on."""
        return text_rows(self._text, self._format, self._settings, start)


class Input:
    """Records of some files or of a stream; `open_input` makes it."""

    def __init__(
        self, sources: Sequence[InputSource], settings: TextSettings, *, streamed: bool = False
    ) -> None:
        self.settings = settings
        self.streamed = streamed
        self._sources = sources
        sizes = (0 if streamed else _size(source.path) for source in sources)
        self._bytes_before = list(accumulate(sizes, initial=0))  # each source, and the end
        self._reading: int | None = None

    @property
    def files(self) -> list[Path]:
        """The files in their order; none for a stream."""
        return [] if self.streamed else [source.path for source in self._sources]

    def split_by(self, tokenizer: str) -> Input:
        """The same input, its raw text split by another tokenizer; not to be read by both."""
        settings = replace(self.settings, tokenizer=tokenizer)
        return Input(self._sources, settings, streamed=self.streamed)

    def records(
        self, start: RecordPlace | None = None, *, hint_at_raw: bool = True
    ) -> Iterator[Record]:
        """The records in order, from the first one at `start` or after it.

        What is before is not split into words. A stream can be read only once: to start later in
        it, give it again from its beginning. If text that is read as tokenized looks raw, a warning
        says so, unless it is not wanted.
        """
        found = start is not None
        hint = RawTextHint(self._name) if hint_at_raw and not (found or self.settings.raw) else None
        for number, row in self._rows(start or RecordPlace(0, 1)):
            if hint is not None:
                hint.look_at(row.value)
            for words in self._sentences(row.value):
                found = True
                yield Record(words, RecordPlace(number, row.line), row.id)
        if not found:
            raise InputError(f"{self._name}: holds no sentence; name a file that has some")
        if hint is not None:
            hint.decide()

    def identity(self) -> dict[str, Any]:
        """What tells these inputs, read in this way, from others; plain values for JSON.

        Of each file its name as given, its size, its date, and the SHA-256 of its first and last
        64 kB: hashing all of a large corpus would take as long as reading it. A change in the
        middle that keeps both size and date is not noticed, nor anything about a stream, which
        has only a name.
        """
        inputs = [{"name": str(path), **fingerprint(path)} for path in self.files]
        if self.streamed:
            inputs = [{"name": str(source.path)} for source in self._sources]
        return {"inputs": inputs, "settings": self.settings.to_dict()}

    @property
    def _name(self) -> str:
        return str(self._sources[0].path) if len(self._sources) == 1 else "the input"

    def name_of(self, place: RecordPlace) -> str:
        """The file, or the stream, that a record comes from."""
        return str(self._sources[place.file].path)

    def position(self) -> tuple[int, int | None]:
        """Bytes read so far, on disk, and bytes in all: None for a stream."""
        total = None if self.streamed else self._bytes_before[-1]
        if self._reading is None:
            return 0, total
        return self._bytes_before[self._reading] + self._sources[self._reading].position, total

    def _rows(self, start: RecordPlace) -> Iterator[tuple[int, Row]]:
        """The rows at `start` and after it, each with the number of its file."""
        for number, source in enumerate(self._sources):
            if number >= start.file:
                self._reading = number
                for row in source.rows(start.line if number == start.file else 1):
                    yield number, row

    def _sentences(self, value: str | list[str]) -> Iterable[list[str]]:
        """The words of each sentence of a row."""
        if isinstance(value, list):
            return [value] if value or not self.settings.split else []
        return sentences_of_text(value, self.settings)


def open_input(names: Sequence[str], settings: TextSettings) -> Input:
    """Find the files and look at the beginning of each; nothing stays open.

    A file that is missing, empty or damaged at its beginning, and a table without the columns that
    are asked for, are noticed here, before the first record of any.

    Args:
        names: Files, globs (`**` too) and folders; or "-" for standard input, or one pipe. A stream
            is of the format that `settings` name; without one it is text, or JSON lines where they
            name a column. No file is read twice.
        settings: How to read them.
    """
    if isinstance(names, str):
        raise InputError(f"expected a list of inputs, got {names!r}; put it into a list")
    streams = [name for name in names if _is_stream(name)]
    if streams:
        if len(names) > 1:
            raise InputError(f"{streams[0]}: is a stream; give it alone, or only files")
        return Input([_stream(streams[0], settings)], settings, streamed=True)
    sources = [_source(path, settings) for path in find_files(names, SUFFIXES)]
    for source in sources:
        next(source.rows(), None)
    return Input(sources, settings)


def fingerprint(path: Path) -> dict[str, Any]:
    """What changes with a file's contents and takes no time to read."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256(file.read(END_BYTES))
            file.seek(max(0, status.st_size - END_BYTES))
            digest.update(file.read(END_BYTES))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return {
        "bytes": status.st_size,
        "modified": status.st_mtime_ns,
        "sha256_of_ends": digest.hexdigest(),
    }


def _source(path: Path, settings: TextSettings) -> InputSource:
    kind = f".{settings.format}" if settings.format else suffix(path)
    if kind == PARQUET:
        if compressed := compression(path):
            raise InputError(f"{path}: a Parquet file inside a .{compressed} file; decompress it")
        return ParquetFile(path, settings)
    text = TextFile(path, settings.errors, settings.encoding)
    return TextSource(text, settings, _table_format(kind, path, settings))


def _stream(name: str, settings: TextSettings) -> InputSource:
    text = TextStream(name, settings.errors, settings.encoding)
    if settings.format == "parquet":
        raise InputError(f"{text.path}: is a stream, which Parquet cannot be; save it in a file")
    kind = settings.format or ("jsonl" if settings.has_columns else "text")
    return TextSource(text, settings, _table_format(f".{kind}", text.path, settings))


def _table_format(kind: str, path: Path, settings: TextSettings) -> TableFormat | None:
    """What a table is; None for plain text, which has no columns to ask for."""
    if kind not in TABLE_SUFFIXES and settings.has_columns:
        raise InputError(
            f"{path}: is plain text, which has no columns; ask for none (--text-column, --keep), "
            f"name a table ({', '.join(TABLES)}), or say what it is (--format)"
        )
    return TABLE_SUFFIXES.get(kind)


def _is_stream(name: str) -> bool:
    """Whether `name` is standard input or a pipe, as a shell has in place of `<(command)`."""
    if name == STANDARD_INPUT:
        return True
    # Unlike those of `Path`, they say no where a name is too long or a folder not to be searched.
    return os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
