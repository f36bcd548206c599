"""Text files of any size, plain or compressed, to chunks of whole lines, to sentences."""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

from elmokit.config import check_choice
from elmokit.errors import FormatError, InputError
from elmokit.text.tokenizer import load_tokenizer

Errors = Literal["strict", "replace"]

SUFFIXES = (".txt", ".gz", ".xz", ".zst")
"""The files that are taken from a folder."""
UNFINISHED = ".parts"
"""Ends the names of folders inside it that are passed over."""
CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20
ZSTD_BLOCK_BYTES = 1 << 14  # a block of little more than nothing can grow a thousandfold


@dataclass(frozen=True)
class CorpusSettings:
    """How the lines of a corpus become sentences.

    Attributes:
        tokenizer: "whitespace" for text that is tokenized already, a sentence per line; "default"
            for raw text, whose lines are paragraphs or sentences.
        one_sentence_per_line: With "default": a line is never split into sentences.
        errors: What to do about bytes that are not UTF-8: "strict" refuses the file, "replace"
            reads them as U+FFFD.
    """

    tokenizer: str = "default"
    one_sentence_per_line: bool = False
    errors: Errors = "strict"

    def __post_init__(self) -> None:
        load_tokenizer(self.tokenizer)
        check_choice("errors", self.errors, get_args(Errors))

    def to_dict(self) -> dict[str, Any]:
        """As plain values; settings that read alike are alike."""
        by_line = self.one_sentence_per_line or self.tokenizer == "whitespace"
        return asdict(self) | {"one_sentence_per_line": by_line}


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


def read_sentences(
    files: Iterable[Path], settings: CorpusSettings | None = None
) -> Iterator[list[str]]:
    """The sentences of some files, one after another, in little memory."""
    settings = settings or CorpusSettings()
    for path in files:
        for chunk in read_chunks(path):
            yield from sentences_of(chunk, settings)


def sentences_of(chunk: Chunk, settings: CorpusSettings) -> Iterator[list[str]]:
    """The words of each sentence of a chunk; no sentence is empty."""
    for line in text_of(chunk, settings.errors).split("\n"):
        yield from sentences_of_line(line, settings)


def sentences_of_line(line: str, settings: CorpusSettings) -> Iterable[list[str]]:
    """The words of each sentence of a line.

    >>> list(sentences_of_line("One. Two!", CorpusSettings()))
    [['One', '.'], ['Two', '!']]
    """
    if settings.tokenizer == "whitespace":
        words = line.split()  # what that tokenizer gives, without its places in the text
        return [words] if words else []
    tokenizer = load_tokenizer(settings.tokenizer)
    if settings.one_sentence_per_line:
        words = [token.text for token in tokenizer.words(line)]
        return [words] if words else []
    return [[token.text for token in tokens] for tokens in tokenizer.sentences(line)]


def text_of(chunk: Chunk, errors: Errors = "strict") -> str:
    """Decode a chunk, naming the line that is not UTF-8."""
    try:
        return chunk.contents.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = chunk.first_line + chunk.contents.count(b"\n", 0, error.start)
        raise FormatError(
            f"{chunk.path}, line {line}: is not UTF-8 ({error.reason}); convert the file, or read "
            "such bytes as U+FFFD (--errors replace; in a run --set corpus.errors=replace)"
        ) from None


def read_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Cut a file at line borders into chunks of about `chunk_bytes` bytes of text.

    The cuts depend on the text alone, not on how it is compressed.
    """
    with _opened(path) as (raw, file):
        yield from chunks_of(path, file, raw.tell, chunk_bytes)


def chunks_of(
    path: Path, file: BinaryIO, position: Callable[[], int], chunk_bytes: int
) -> Iterator[Chunk]:
    """Cut an open file as `read_chunks` does; `position` tells how much of it is read."""
    pending = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
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
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
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
        self._decoded = b""

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
            self._decoded = self._decode(block)
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
