"""Text of any size, from files of many kinds or a stream, to the words of its sentences.

| file | a record is |
|---|---|
| `.jsonl`, `.ndjson` | an object on a line; its column is a text or a list of words |
| `.csv`, `.tsv` | a row under a line that names the columns; its column is a text |
| `.parquet` | a row; its column is a text or a list of words |
| `.fasta`, `.fa`, `.faa` | a protein, its residues the words; its name is the id |
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
from copy import copy
from dataclasses import fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, get_args

from elmokit.errors import ElmoWarning, InputError
from elmokit.io.tables import (
    FASTA_SUFFIXES,
    TABLE_SUFFIXES,
    Row,
    TableFormat,
    fasta_rows,
    parquet_rows,
    text_rows,
)
from elmokit.io.text_files import (
    OF_EXAMPLES,
    STANDARD_INPUT,
    TEXT_SUFFIXES,
    TOKENIZERS,
    TextFormat,
    TextSettings,
    compression,
    find_files,
    read_lines,
    reading_errors,
    shown,
    suffix,
)
from elmokit.text.tokenizer import Tokenizer, sentences_of_text

TEXTS_LOOKED_AT = 20
RAW_SHARE = 0.25
# A tokenized text may have Yahoo! or U.S. here and there, but no sentence that ends in one.
# Anchored where a word begins: tried from each of its letters, a long one would take for ever.
GLUED = re.compile(r"(?<!\S)(?:\S*[^\W\d_][,!?](?=\s|$)|\S*[^\W\d_]{2}\.(?=\s*$))")


def warn_of_raw_text(rows: Iterable[tuple[int, Row]], name: str) -> Iterator[tuple[int, Row]]:
    """The same rows; a warning says so if many of the first texts, blank ones apart, look raw."""
    texts, glued = 0, []
    for number, row in rows:
        if texts < TEXTS_LOOKED_AT and isinstance(row.value, str) and row.value.strip():
            texts += 1
            glued += [found[0] for found in [GLUED.search(row.value)] if found]
            if texts == TEXTS_LOOKED_AT:
                _warn_of_glued(glued, texts, name)
        yield number, row
    if texts < TEXTS_LOOKED_AT:
        _warn_of_glued(glued, texts, name)


def _warn_of_glued(glued: list[str], texts: int, name: str) -> None:
    if glued and len(glued) >= texts * RAW_SHARE:
        warnings.warn(
            f"{name}: looks like raw text, and {glued[0][-40:]!r} is read as one word; split it "
            "into words with --tokenize, or into sentences too with --split",
            ElmoWarning,
            stacklevel=2,
        )


PARQUET = ".parquet"
TABLES = (*TABLE_SUFFIXES, PARQUET)
SUFFIXES = (*TEXT_SUFFIXES, *TABLES, *FASTA_SUFFIXES)  # the files that are taken from a folder
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


class Input:
    """Records of some files or of a stream, which has no `files`; `open_input` makes it.

    `position` is that of the bytes read so far, on disk, of `size` in all: None for a stream.
    """

    def __init__(
        self, paths: Sequence[Path], settings: TextSettings, *, streamed: bool = False
    ) -> None:
        self.settings = settings
        self.tokenizer: Tokenizer | None = None  # the user's own, which the settings cannot name
        self.streamed = streamed
        self.files = [] if streamed else list(paths)
        self.position = 0
        self._paths = paths
        self._name = str(shown(paths[0])) if len(paths) == 1 else "the input"
        sizes = (path.stat().st_size for path in self.files)
        self._bytes_before = list(accumulate(sizes, initial=0))  # each file, and the end
        self.size = None if streamed else self._bytes_before[-1]
        self._is_read = False

    def split_by(self, tokenizer: str) -> Input:
        """The same input, its raw text split by another tokenizer; not to be read by both."""
        other = copy(self)
        other.settings = replace(self.settings, tokenizer=tokenizer)
        return other

    def records(
        self, start: RecordPlace | None = None, *, hint_at_raw: bool = True
    ) -> Iterator[Record]:
        """The records in order, from the first one at `start` or after it.

        What is before is not split into words. A stream can be read only once: to start later in
        it, give it again from its beginning. If text that is read as tokenized looks raw, a warning
        says so, unless it is not wanted.
        """
        if self.streamed and self._is_read:
            raise InputError(f"{self._name}: can be read only once; save it in a file first")
        self._is_read = True
        found = start is not None
        rows = self._rows(start or RecordPlace(0, 1))
        if hint_at_raw and not (found or self.settings.raw):
            rows = warn_of_raw_text(rows, self._name)
        for number, row in rows:
            if not isinstance(row.value, list):
                sentences = sentences_of_text(row.value, self.settings, self.tokenizer)
            else:
                sentences = [row.value] if row.value or not self.settings.split else []
            for words in sentences:
                found = True
                yield Record(words, RecordPlace(number, row.line), row.id)
        if not found:
            raise InputError(f"{self._name}: holds no sentence; name a file that has some")

    def identity(self) -> dict[str, Any]:
        """What tells these inputs, read in this way, from others; plain values for JSON.

        Of each file its name as given, its size, its date, and the SHA-256 of its first and last
        64 kB: hashing all of a large corpus would take as long as reading it. A change in the
        middle that keeps both size and date is not noticed, nor anything about a stream, which
        has only a name.
        """
        inputs = [{"name": str(path), **fingerprint(path)} for path in self.files]
        if self.streamed:
            inputs = [{"name": self._name}]
        own = {} if self.tokenizer is None else {"tokenizer": self.tokenizer.name}
        return {"inputs": inputs, "settings": self.settings.to_dict() | own}

    def name_of(self, place: RecordPlace) -> str:
        """The file, or the stream, that a record comes from."""
        return str(shown(self._paths[place.file]))

    def _rows(self, start: RecordPlace) -> Iterator[tuple[int, Row]]:
        """The rows at `start` and after it, each with the number of its file."""
        for number in range(start.file, len(self._paths)):
            first = start.line if number == start.file else 1
            for row in _rows_of(self._paths[number], self.settings, self.streamed, first):
                self.position = self._bytes_before[number] + row.position
                yield number, row
        if self.size is not None:
            self.position = self.size


def input_of(
    source: Input | str | Path | Sequence[str | Path], tokenizer: Tokenizer, choices: dict[str, Any]
) -> Input:
    """What to read: an input as it is, or files by their names, raw text split by a tokenizer.

    How to read files are fields of `TextSettings` among `choices`; they are taken out of it.
    """
    if isinstance(source, Input):
        return source
    known = {field.name for field in fields(TextSettings)} & choices.keys()
    own = tokenizer.name not in TOKENIZERS and "tokenizer" not in known
    name = {} if own else {"tokenizer": tokenizer.name}
    settings = TextSettings(**(name | {n: choices.pop(n) for n in known}))
    names = [source] if isinstance(source, str | Path) else source
    found = open_input([str(name) for name in names], settings)
    found.tokenizer = tokenizer if own else None
    return found


def open_input(names: Sequence[str], settings: TextSettings) -> Input:
    """Find the files and look at the beginning of each; nothing stays open.

    A file that is missing, empty or damaged at its beginning, and a table without the columns that
    are asked for, are noticed here, before the first record of any.

    Names are files, globs (`**` too) and folders; or "-" for standard input, or one pipe. A stream
    is of the format that `settings` name; without one it is text, or JSON lines where they name a
    column. No file is read twice.
    """
    for name in OF_EXAMPLES:
        if getattr(settings, name) != getattr(TextSettings, name):
            raise InputError(f"{name}: is for labelled examples of tasks alone; leave it out")
    streams = [name for name in names if _is_stream(name)]
    if streams and len(names) > 1:
        raise InputError(f"{streams[0]}: is a stream; give it alone, or only files")
    paths = [Path(name) for name in streams] or find_files(names, SUFFIXES)
    for path in paths:
        rows = _rows_of(path, settings, streamed=bool(streams))
        if not streams:
            next(rows, None)
    return Input(paths, settings, streamed=bool(streams))


def fingerprint(path: Path) -> dict[str, Any]:
    """What changes with a file's contents and takes no time to read."""
    with reading_errors(path, "text"), open(path, "rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(END_BYTES))
        file.seek(max(0, status.st_size - END_BYTES))
        digest.update(file.read(END_BYTES))
    return {
        "bytes": status.st_size,
        "modified": status.st_mtime_ns,
        "sha256_of_ends": digest.hexdigest(),
    }


def _rows_of(path: Path, settings: TextSettings, streamed: bool, start: int = 1) -> Iterator[Row]:
    """The rows of a file or a stream from line `start` on; nothing is opened before the first."""
    kind = f".{settings.format}" if settings.format else suffix(path)
    if streamed and not settings.format:
        kind = ".jsonl" if settings.has_columns else ".txt"
    if kind == PARQUET:
        if streamed:
            raise InputError(
                f"{shown(path)}: is a stream, which Parquet cannot be; save it in a file"
            )
        if compressed := compression(path):
            raise InputError(f"{path}: a Parquet file inside a .{compressed} file; decompress it")
        return parquet_rows(path, settings, start)
    format = _table_format(kind, path, settings)
    if format is not None:
        return text_rows(
            read_lines(path, settings.encoding, settings.errors), format, settings, start
        )
    lines = read_lines(path, settings.encoding, settings.errors, start)
    if kind in FASTA_SUFFIXES:
        return fasta_rows(lines)
    return (Row(line.number, line.text, position=line.position) for line in lines)


def _table_format(kind: str, path: Path, settings: TextSettings) -> TableFormat | None:
    """What a table is; None for plain text, which has no columns to ask for."""
    if settings.format not in (None, *get_args(TextFormat)):
        raise InputError(f"{shown(path)}: is read as {settings.format!r}, which is for tasks alone")
    if kind not in TABLE_SUFFIXES and settings.has_columns:
        raise InputError(
            f"{shown(path)}: is plain text, which has no columns; ask for none (--text-column, "
            f"--keep), name a table ({', '.join(TABLES)}), or say what it is (--format)"
        )
    return TABLE_SUFFIXES.get(kind)


def _is_stream(name: str) -> bool:
    """Whether `name` is standard input or a pipe, as a shell has in place of `<(command)`."""
    if name == STANDARD_INPUT:
        return True
    # Unlike those of `Path`, they say no where a name is too long or a folder not to be searched.
    return os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name)
