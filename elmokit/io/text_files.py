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
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

from elmokit.errors import FormatError, InputError

Errors = Literal["strict", "replace"]

SUFFIXES = (".txt", ".gz", ".xz", ".zst")
"""The files that are taken from a folder."""
UNFINISHED = ".parts"
"""Ends the names of folders inside it that are passed over."""
CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20
ZSTD_BLOCK_BYTES = 1 << 10  # each four of them can stand for 128 kB: 32 MB at the most
BLOCK_BYTES = 1 << 19
STANDARD_INPUT = "-"
ENCODING = "utf-8"
SHOWN = {"utf-8": "UTF-8"}
PROBE = "a\nb"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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
    path: Path, file: BinaryIO, position: Callable[[], int], chunk_bytes: int
) -> Iterator[Chunk]:
    """Cut an open file as `read_chunks` does; `position` tells how much of it is read."""
    pending = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
    if pending.startswith(UTF_16_MARKS):
        file, pending = cast(BinaryIO, io.BufferedReader(_Utf16File(pending, file, path))), b""
    line = 1
    while block := file.read(chunk_bytes):
        pending += block
        end = pending.rfind(b"\n") + 1
        if end:
            yield Chunk(path, line, pending[:end], position())
            line += pending.count(b"\n", 0, end)
            pending = pending[end:]
        if len(pending) > LONGEST_LINE_BYTES:
            raise InputError(
                f"{path}, line {line}: is longer than {LONGEST_LINE_BYTES >> 20} MB; put a "
                "paragraph or a sentence on each line"
            )
    if pending:
        yield Chunk(path, line, pending, position())


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
        raise FormatError(f"{path}: is not a whole .{kind} file ({error}); get it anew") from error
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
                for chunk in chunks_of(self.path, file, lambda: 0, BLOCK_BYTES):
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
