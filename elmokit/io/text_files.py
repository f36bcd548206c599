"""Text files: find them, decompress, decode, number their lines."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

from elmokit.config import check_choice, check_flag
from elmokit.errors import ConfigError, FormatError, InputError

Errors = Literal["strict", "replace"]
TextFormat = Literal["text", "jsonl", "csv", "tsv", "parquet"]

SUFFIXES = (".txt", ".gz", ".xz", ".zst")
"""The files that are taken from a folder."""
UNFINISHED = ".parts"
"""Ends the names of folders inside it that are passed over."""
CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20
ZSTD_BLOCK_BYTES = 1 << 10  # each four of them can stand for 128 kB: 32 MB at the most
BLOCK_BYTES = 1 << 19
STANDARD_INPUT = "-"
TOKENIZERS = ("default", "whitespace")
ENCODING = "utf-8"
SHOWN = {"utf-8": "UTF-8"}
PROBE = "a\nb"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class TextSettings:
    """How text is read: what its files are, which of it, and how it becomes sentences of words.

    A line of a file, or a cell of a table, is a text. As it is, it is one sentence whose words are
    separated by whitespace; a blank one is a sentence without words.

    Attributes:
        split: Texts are raw: each is split into sentences and words. A blank one has none.
        tokenize: Texts are raw, and each is one sentence, which is split into words.
        tokenizer: What splits them: the name that a model records.
        text_column: The column of a table that has the text, or the words; None for the one with a
            usual name.
        keep: Another column, a text or a whole number, that becomes the `id` of its sentences.
        skip_bad_rows: Leave out rows of CSV and TSV with more or fewer fields than columns; a
            warning counts them.
        format: What the files are; None for what their names say.
        encoding: How texts are written as bytes; Parquet has its own, and UTF-16 is known by its
            mark.
        errors: What to do about bytes that are not of the encoding: "strict" raises, "replace"
            reads them as U+FFFD.
    """

    split: bool = False
    tokenize: bool = False
    tokenizer: str = "default"
    text_column: str | None = None
    keep: str | None = None
    skip_bad_rows: bool = False
    format: TextFormat | None = None
    encoding: str = "utf-8"
    errors: Errors = "strict"

    def __post_init__(self) -> None:
        for name in ("split", "tokenize", "skip_bad_rows"):
            check_flag(name, getattr(self, name))
        check_choice("tokenizer", self.tokenizer, TOKENIZERS)
        check_choice("format", self.format, (None, *get_args(TextFormat)))
        check_choice("errors", self.errors, get_args(Errors))
        object.__setattr__(self, "encoding", known_encoding(self.encoding))
        if self.split and self.tokenize:
            raise ConfigError(
                "split makes sentences of a text, tokenize takes it for one; choose one of them"
            )

    @classmethod
    def of_corpus(
        cls,
        tokenizer: str = "default",
        one_sentence_per_line: bool = False,
        errors: Errors = "strict",
        encoding: str = "utf-8",
    ) -> TextSettings:
        """Of text to train on: raw, unless "whitespace" says that it is tokenized already."""
        raw = tokenizer != "whitespace"
        return cls(
            split=raw and not one_sentence_per_line,
            tokenize=raw and one_sentence_per_line,
            tokenizer=tokenizer,
            errors=errors,
            encoding=encoding,
        )

    @property
    def raw(self) -> bool:
        """Whether a tokenizer finds the words."""
        return self.split or self.tokenize

    @property
    def has_columns(self) -> bool:
        """Whether a column of a table is asked for."""
        return (self.text_column, self.keep) != (None, None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; settings that read alike are alike."""
        return asdict(self) | {"tokenizer": self.tokenizer if self.raw else None}


class Line(NamedTuple):
    """One line, without its end."""

    place: str  # "file, line 3"
    text: str
    number: int = 0  # from 1


class Chunk(NamedTuple):
    """Some whole lines of a file."""

    path: Path
    first_line: int
    contents: bytes
    position: int  # bytes of the file that are read so far: tells how far a compressed file is


def find_files(patterns: Sequence[str | Path], suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """The files that names, globs (`**` too) and folders stand for, none of them twice.

    The patterns keep their order; the files of each are sorted. A folder stands for every file
    inside it, at any depth, whose name ends in one of the `suffixes`, but not for the parts of
    outputs that are not finished.
    """
    if isinstance(patterns, str | Path):
        raise InputError(f"expected a list of files, got {str(patterns)!r}; put it into a list")
    found: dict[str, Path] = {}
    for pattern in patterns:
        for path in _readable_files_of(pattern, suffixes):
            found.setdefault(os.path.normcase(os.path.realpath(path)), path)
    if not found:
        raise InputError("no text file is given; name at least one")
    return list(found.values())


def _readable_files_of(pattern: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files that one pattern stands for, sorted; one line where the system refuses to look."""
    try:
        return _files_of(pattern, suffixes)
    except OSError as error:
        raise InputError(
            f"{pattern}: cannot be read ({error.strerror or error}); check the name, and that you "
            "have access to it"
        ) from error


def _files_of(pattern: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files that one pattern stands for, sorted."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    if path.is_dir():
        candidates: Iterable[Path] = path.rglob("*")
        wanted = f"holds no {', '.join(suffixes)} file"
        files = [file for file in candidates if file.suffix.lower() in suffixes and file.is_file()]
        files = [file for file in files if not file.name.startswith(".")]
        files = [file for file in files if not _is_of_unfinished(file.relative_to(path))]
    else:
        wanted = "is no file or folder, and no file matches it as a pattern"
        candidates = map(Path, glob.iglob(str(pattern), recursive=True))
        files = [file for file in candidates if file.is_file()]
    if not files:
        raise InputError(f"{pattern}: {wanted}; check the name")
    return sorted(files, key=lambda file: file.as_posix())


def _is_of_unfinished(file: Path) -> bool:
    """Whether a file of a folder is a part of an output that is being written into that folder."""
    return any(folder.suffix == UNFINISHED for folder in file.parents)


def text_of(chunk: Chunk, errors: Errors = "strict", encoding: str = ENCODING) -> str:
    """Decode a chunk; an error names the line, and the flags that help."""
    try:
        return chunk.contents.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = chunk.first_line + chunk.contents.count(b"\n", 0, error.start)
        raise FormatError(
            f"{chunk.path}, line {line}: is not {SHOWN.get(encoding, encoding)} ({error.reason}); "
            "name the encoding that it has (--encoding latin-1, for one), or read such bytes as "
            "U+FFFD (--errors replace; in a run --set corpus.errors=replace)"
        ) from None


def read_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Cut a file at line borders into chunks of about `chunk_bytes` bytes of text.

    The cuts depend on the text alone, not on how it is compressed.
    """
    with opened(path) as (raw, file):
        yield from chunks_of(path, file, raw.tell, chunk_bytes)


def chunks_of(
    path: Path,
    file: BinaryIO,
    position: Callable[[], int],
    chunk_bytes: int,
    *,
    at_once: bool = False,
) -> Iterator[Chunk]:
    """Cut an open file as `read_chunks` does; `position` tells how much of it is read.

    What is there is given `at_once`, though it be less than a chunk: a stream may be slow.
    """
    start = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
    if start.startswith(UTF_16_MARKS):
        file, start = cast(BinaryIO, io.BufferedReader(_Utf16File(start, file, path))), b""
    read = cast(io.BufferedReader, file).read1 if at_once else file.read
    line, pending, size = 1, [start], len(start)  # blocks without a line end: joined only once
    while block := read(chunk_bytes):
        end = block.rfind(b"\n") + 1
        if end:
            contents = b"".join((*pending, block[:end]))
            yield Chunk(path, line, contents, position())
            line += contents.count(b"\n")
            pending, size, block = [], 0, block[end:]
        pending.append(block)
        size += len(block)
        if size > LONGEST_LINE_BYTES:
            raise InputError(
                f"{path}, line {line}: is longer than {LONGEST_LINE_BYTES >> 20} MB; put a "
                "paragraph or a sentence on each line"
            )
    if size:
        yield Chunk(path, line, b"".join(pending), position())


def compression(path: Path) -> str:
    """What a file's name says of its compression: "gz", "xz", "zst" or nothing.

    >>> compression(Path("news.txt.gz")), compression(Path("news.txt"))
    ('gz', '')
    """
    suffix = path.suffix.lower().removeprefix(".")
    return suffix if suffix in ("gz", "xz", "zst") else ""


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file twice: its bytes on disk, and above them its text, decompressed."""
    kind = compression(path)
    damage: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
    if kind == "zst":
        damage = (*damage, _zstandard(path).ZstdError)
    try:
        with open(path, "rb") as raw, _decompressed(raw, kind, path) as file:
            yield raw, file
    except damage as error:
        raise FormatError(f"{path}: is not a whole .{kind} file ({error}); get it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _decompressed(raw: BinaryIO, kind: str, path: Path) -> BinaryIO:
    """The text of an open file; reading n bytes of it gives n, or all that is left."""
    if kind == "gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if kind == "zst":
        return cast(BinaryIO, io.BufferedReader(_ZstandardFile(raw, _zstandard(path))))
    return raw


def _zstandard(path: Path) -> Any:
    """The library for .zst files, which is an extra."""
    try:
        import zstandard  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError(
            f'{path}: reading .zst files needs one more library: pip install "elmokit[zstd]"'
        ) from None
    return zstandard


class _ZstandardFile(io.RawIOBase):
    """Frame after frame of a .zst file; unlike the library's own reader it notices a cut end."""

    def __init__(self, raw: BinaryIO, zstandard: Any) -> None:
        self._raw = raw
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._decoded = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill part of a buffer; 0 at the end."""
        while not self._decoded:
            block = self._raw.read(ZSTD_BLOCK_BYTES)
            if not block:
                if self._frame is not None:
                    raise EOFError("it ends in the middle")
                return 0
            self._decoded = memoryview(self._decode(block))
        size = min(len(buffer), len(self._decoded))
        buffer[:size] = self._decoded[:size]
        self._decoded = self._decoded[size:]
        return size

    def _decode(self, block: bytes) -> bytes:
        decoded = b""
        while block:
            if self._frame is None:
                self._frame = self._decompressor.decompressobj()
            decoded += self._frame.decompress(block)
            block = b""
            if self._frame.eof:
                block, self._frame = self._frame.unused_data, None
        return decoded


class _Utf16File(io.RawIOBase):
    """A text in UTF-16, of which `start` is read already, as UTF-8."""

    def __init__(self, start: bytes, file: BinaryIO, path: Path) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16")()
        self._decoder.decode(start)
        self._file = file
        self._path = path

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill part of a buffer; 0 at the end."""
        text, block = b"", b"more"
        while block and not text:
            block = self._file.read(len(buffer) // 3)  # two bytes become three at the most
            try:
                text = self._decoder.decode(block, final=not block).encode()
            except UnicodeError as error:
                raise FormatError(f"{self._path}: is not UTF-16 ({error}); convert it") from None
        buffer[: len(text)] = text
        return len(text)


class TextFile:
    """The lines of a file, plain or `.gz`, `.xz` or `.zst`.

    Attributes:
        path: The file.
        position: Bytes on disk that are read so far, as far as its last line tells.
    """

    def __init__(
        self, path: str | Path, errors: Errors = "strict", encoding: str = ENCODING
    ) -> None:
        self.path = Path(path)
        self.position = 0
        self._errors = errors
        self._encoding = known_encoding(encoding)

    def lines(self, start: int = 1) -> Iterator[Line]:
        """The lines from number `start` on, counted from 1.

        Line ends are counted in what comes before; it is not decoded.
        """
        chunk, before = None, 0
        for chunk in self._chunks():
            if chunk.first_line + chunk.contents.count(b"\n") >= start:
                yield from self._lines_of(chunk, before, start)
            self.position = before = chunk.position
        if chunk is None:
            raise no_text(self.path)

    def _lines_of(self, chunk: Chunk, before: int, start: int) -> Iterator[Line]:
        """The lines of a chunk that begins at `before`; each moves the position by its share."""
        text = text_of(chunk, self._errors, self._encoding).removesuffix("\n")
        size, done = chunk.position - before, 0
        for number, line in enumerate(text.split("\n"), chunk.first_line):
            done += len(line) + 1
            self.position = before + size * done // (len(text) + 1)
            if number >= start:
                yield Line(f"{self.path}, line {number}", line.removesuffix("\r"), number)

    def _chunks(self) -> Iterator[Chunk]:
        return read_chunks(self.path, BLOCK_BYTES)


class TextStream(TextFile):
    """The lines of standard input or of a pipe, which can be read but once."""

    def __init__(self, name: str, errors: Errors = "strict", encoding: str = ENCODING) -> None:
        piped_in = name == STANDARD_INPUT
        super().__init__(Path("standard input" if piped_in else name), errors, encoding)
        self._name = name
        self._opened = False

    def _chunks(self) -> Iterator[Chunk]:
        if self._opened:
            raise InputError(f"{self.path}: can be read only once; save it in a file first")
        self._opened = True
        size = 0
        try:
            with self._open() as file:
                for chunk in chunks_of(self.path, file, lambda: 0, BLOCK_BYTES, at_once=True):
                    size += len(chunk.contents)
                    yield chunk._replace(position=size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror or error})") from error

    def _open(self) -> BinaryIO | nullcontext[BinaryIO]:
        if self._name != STANDARD_INPUT:
            return open(self._name, "rb")
        if sys.stdin is None:
            raise InputError(f"{self.path}: is closed; name a file")
        return nullcontext(sys.stdin.buffer)  # which is not ours to close


def read_lines(
    name: str | Path, encoding: str = ENCODING, errors: Errors = "strict"
) -> Iterator[Line]:
    """The lines of a file, plain or compressed, or of standard input (-)."""
    text = TextStream if str(name) == STANDARD_INPUT else TextFile
    return text(str(name), errors, encoding).lines()


def read_text(path: str | Path, encoding: str = ENCODING) -> str:
    """A whole file, which must hold more than whitespace."""
    chunks = read_chunks(Path(path))
    text = "".join(text_of(chunk, encoding=known_encoding(encoding)) for chunk in chunks)
    if not text.strip():
        raise no_text(Path(path))
    return text


def paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Runs of lines between blank ones; none of them is empty."""
    for blank, run in groupby(lines, key=lambda line: not line.text.strip()):
        if not blank:
            yield list(run)


def suffix(path: str | Path) -> str:
    """What the name of a file ends in, its compression apart, in lower case.

    >>> suffix("dev.TSV.gz"), suffix("eng.train"), suffix("README")
    ('.tsv', '.train', '')
    """
    path = Path(path)
    return (path.with_suffix("") if compression(path) else path).suffix.lower()


def known_encoding(name: str) -> str:
    """The usual name of an encoding; refuses one whose lines cannot be told without decoding.

    >>> known_encoding("UTF8"), known_encoding("Latin-1")
    ('utf-8', 'iso8859-1')
    """
    try:
        usual = codecs.lookup(name).name
        if usual == "utf-8-sig":
            return ENCODING  # its mark is never taken for text
        if usual == "utf-16":
            return ENCODING  # its mark is noticed
        if PROBE.encode(usual) == PROBE.encode(ENCODING):
            return usual
    except (LookupError, ValueError):
        raise InputError(
            f"encoding {name!r} is unknown; name one such as utf-8, latin-1 or cp1252"
        ) from None
    raise InputError(f"encoding {name!r}: cannot be read line by line; convert the text to UTF-8")


def no_text(path: Path) -> InputError:
    """The error about a file with nothing in it."""
    return InputError(f"{path}: holds no text; leave it out, or name a file that has some")
