"""Text files: find them, decompress, decode, number their lines."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, cast

from elmokit.config import Count, Settings
from elmokit.errors import (
    ConfigError,
    ElmoError,
    FormatError,
    InputError,
    MissingFileError,
    unreadable,
)
from elmokit.io.files import PARTS
from elmokit.system import import_extra

Errors = Literal["strict", "replace"]
TextFormat = Literal["text", "jsonl", "csv", "tsv", "parquet", "fasta"]
ExampleFormat = Literal[
    "csv", "tsv", "jsonl", "trees", "columns", "conllu", "squad", "coref", "gap", "propbank",
    "conll2012",
]  # fmt: skip
"""What files of labelled examples may be."""
Column = str | int  # the name of a column or its number: from 1, or from -1 for the last
COLUMN = "give the name of a column, or its number from 1"

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
DECOMPRESSORS: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
TEXT_SUFFIXES = (".txt", *COMPRESSIONS)  # the files that are taken from a folder
CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20
ZSTD_BLOCK_BYTES = 1 << 10  # each four of them can stand for 128 kB: 32 MB at the most
BLOCK_BYTES = 1 << 19
STANDARD_INPUT = "-"
TOKENIZERS = ("default", "whitespace", "kiwi")
TokenizerName = Annotated[str, TOKENIZERS, "use one of 'default', 'whitespace', 'kiwi'"]
ENCODING = "utf-8"
KOREAN = "CP949"
FREQUENT_SYLLABLES = "이다는에을의하고가한은도지를로기사어서나해리자그있라시대인아정일게부수전"
PROBE = "a\nb"
OF_EXAMPLES = ("label_column", "phrases", "shortest_phrase")
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class TextSettings(Settings):
    """How text is read: what its files are, which of it, and how it becomes sentences of words.

    A line of a file, or a cell of a table, is a text. As it is, it is one sentence whose words are
    separated by whitespace; a blank one is a sentence without words.
    """

    split: bool = False
    """Texts are raw: each is split into sentences and words. A blank one has none."""
    tokenize: bool = False
    """Texts are raw, and each is one sentence, which is split into words."""
    tokenizer: TokenizerName | None = "default"
    """What splits them: the name that a model records; of a task's files, None for that of its
    model."""
    text_column: Annotated[tuple[Column, ...] | Column | None, COLUMN] = None
    """The column of a table that has the text, or the words, or both columns of a pair of texts;
    None for those with usual names."""
    label_column: Annotated[Column | None, COLUMN] = None
    """Of labelled examples: the column of the label; None for the usual one."""
    header: bool = True
    """Of CSV and TSV: whether the first line names the columns."""
    keep: Annotated[tuple[str, ...] | str | None, COLUMN] = None
    """Another column, a text or a whole number, that becomes the `id` of its sentences; of several
    columns the id is a JSON object, as a text."""
    skip_bad_rows: bool = False
    """Leave out rows of CSV and TSV with more or fewer fields than columns, and questions of SQuAD
    whose answer is not where the file says; a warning counts them."""
    format: TextFormat | ExampleFormat | None = None
    """What the files are; None for what their names say."""
    encoding: Annotated[str, "give its name, such as utf-8"] = "utf-8"
    """How texts are written as bytes; Parquet has its own, and UTF-16 is known by its mark."""
    errors: Errors = "strict"
    """What to do about bytes that are not of the encoding: "strict" raises, "replace" reads them as
    U+FFFD."""
    phrases: bool = False
    """Of sentiment trees: every labelled phrase is an example, not sentences alone."""
    shortest_phrase: Count = 1
    """The fewest words of such a phrase."""

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = self.text_columns
        one = columns[0] if columns else None
        object.__setattr__(self, "text_column", columns if len(columns) > 1 else one)
        if isinstance(self.keep, tuple) and len(self.keep) < 2:
            object.__setattr__(self, "keep", self.keep[0] if self.keep else None)
        object.__setattr__(self, "encoding", known_encoding(self.encoding))
        if self.split and self.tokenize:
            raise ConfigError(
                "split makes sentences of a text, tokenize takes it for one; choose one of them"
            )

    @classmethod
    def of_corpus(
        cls,
        tokenizer: TokenizerName = "default",
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

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The columns that become the `id`."""
        return (self.keep,) if isinstance(self.keep, str) else self.keep or ()

    @property
    def text_columns(self) -> tuple[Column, ...]:
        """The columns that are named for texts; none for those with usual names."""
        if self.text_column is None:
            return ()
        return self.text_column if isinstance(self.text_column, tuple) else (self.text_column,)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, those of unlabelled text; settings that read alike are alike."""
        values = asdict(self) | {"tokenizer": self.tokenizer if self.raw else None}
        # Runs that were begun before there was a choice have no header in their identity.
        left_out = (*OF_EXAMPLES, "header") if self.header else OF_EXAMPLES
        return {name: value for name, value in values.items() if name not in left_out}


class Line(NamedTuple):
    """One line, without its end."""

    place: str  # "file, line 3"
    text: str
    number: int = 0  # from 1
    position: int = 0  # bytes of the file that are read so far, as far as this line tells


class Chunk(NamedTuple):
    """Some whole lines of a file."""

    path: Path
    first_line: int
    contents: bytes
    position: int  # bytes of the file that are read so far: tells how far a compressed file is


def find_files(
    patterns: Sequence[str | Path], suffixes: tuple[str, ...] = TEXT_SUFFIXES
) -> list[Path]:
    """The files that names, globs (`**` too) and folders stand for, none of them twice.

    The patterns keep their order; the files of each are sorted. A folder stands for every file
    inside it, at any depth, whose name ends in one of the `suffixes`, but not for the parts of
    outputs that are not finished.
    """
    if isinstance(patterns, str | Path):
        raise InputError(f"expected a list of files, got {str(patterns)!r}; put it into a list")
    found: dict[str, Path] = {}
    for pattern in patterns:
        try:
            files = _files_of(pattern, suffixes)
        except ElmoError:
            raise
        except OSError as error:
            advice = "; check the name, and that you have access to it"
            raise unreadable(InputError, pattern, error, advice) from error
        for path in files:
            found.setdefault(os.path.normcase(os.path.realpath(path)), path)
    if not found:
        raise InputError("no text file is given; name at least one")
    return list(found.values())


def _files_of(pattern: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files that one pattern stands for, sorted."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    if path.is_dir():
        wanted = f"holds no {', '.join(suffixes)} file"
        found = (file for file in path.rglob("*") if file.suffix.lower() in suffixes)
        files = [
            file
            for file in found
            if file.is_file()
            and not file.name.startswith(".")
            and all(folder.suffix != PARTS for folder in file.relative_to(path).parents)
        ]
    else:
        wanted = "is not a file or folder, and no file matches it as a pattern"
        matches = map(Path, glob.iglob(str(pattern), recursive=True))
        files = [file for file in matches if file.is_file()]
    if not files:
        kind = InputError if path.is_dir() else MissingFileError
        raise kind(f"{pattern}: {wanted}; check the name")
    return sorted(files, key=lambda file: file.as_posix())


def text_of(chunk: Chunk, errors: Errors = "strict", encoding: str = ENCODING) -> str:
    """Decode a chunk; an error names the line, and the flags that help."""
    try:
        return chunk.contents.decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = chunk.first_line + chunk.contents.count(b"\n", 0, error.start)
        what = f"{chunk.path}, line {line}: is not {encoding.upper()} ({error.reason})"
        start = chunk.contents.rfind(b"\n", 0, error.start) + 1
        if _is_korean(chunk.contents[start:].partition(b"\n")[0]):
            raise FormatError(
                f"{what}; it looks like {KOREAN} (Korean): give --encoding {KOREAN.lower()} (in a "
                f"run --set corpus.encoding={KOREAN.lower()})"
            ) from None
        raise FormatError(
            f"{what}; "
            "name the encoding that it has (--encoding latin-1, for one), or read such bytes as "
            "U+FFFD (--errors replace; in a run --set corpus.errors=replace)"
        ) from None


def _is_korean(line: bytes) -> bool:
    """Whether a line with a byte that is not UTF-8's is Korean as Windows writes it, or EUC-KR.

    >>> _is_korean("나는 학교에 갔다".encode("cp949")), _is_korean("Übermut".encode("cp1252"))
    (True, False)
    """
    try:
        text = line.decode(KOREAN)
    except UnicodeDecodeError:
        return False
    # Bytes of Chinese give syllables too, but seldom those that every Korean sentence has.
    others = [letter for letter in text if not letter.isascii()]
    return 6 * sum(letter in FREQUENT_SYLLABLES for letter in others) > len(others)


def read_chunks(name: str | Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Cut a file, or standard input (-), at line borders into chunks of about so many bytes.

    The cuts depend on the text alone, not on how it is compressed. Of a pipe, which may be slow,
    what is there is given at once.
    """
    path = shown(name)
    with opened(name) as (raw, file):
        start = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        if start.startswith(UTF_16_MARKS):
            file, start = _file_of(_utf_16_blocks(start, file, path)), b""
        piped = not raw.seekable()
        read = cast(io.BufferedReader, file).read1 if piped else file.read
        # Blocks without a line end are joined only once.
        line, done, pending, size = 1, 0, [start], len(start)
        while block := read(chunk_bytes):
            end = block.rfind(b"\n") + 1
            if end:
                contents = b"".join((*pending, block[:end]))
                done += len(contents)
                yield Chunk(path, line, contents, done if piped else raw.tell())
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
            yield Chunk(path, line, b"".join(pending), done + size if piped else raw.tell())


def shown(name: str | Path) -> Path:
    """What a file is called in errors; `-` is standard input."""
    return Path("standard input" if str(name) == STANDARD_INPUT else name)


def compression(path: Path) -> str:
    """What a file's name says of its compression: "gz", "bz2", "xz", "zst" or nothing.

    >>> compression(Path("news.txt.gz")), compression(Path("news.txt"))
    ('gz', '')
    """
    suffix = path.suffix.lower()
    return suffix.removeprefix(".") if suffix in COMPRESSIONS else ""


@contextmanager
def opened(name: str | Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file twice: its bytes on disk, and above them its text, decompressed."""
    kind = compression(Path(name))
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error, lzma.LZMAError)
    if kind == "zst":
        damage = (*damage, import_extra("zstandard", "zstd").ZstdError)
    with reading_errors(shown(name), f".{kind}", *damage):
        if str(name) == STANDARD_INPUT:
            if sys.stdin is None:
                raise InputError("standard input: is closed; name a file")
            yield sys.stdin.buffer, sys.stdin.buffer  # which is not ours to close
            return
        with open(name, "rb") as raw, _decompressed(raw, kind) as file:
            yield raw, file


@contextmanager
def reading_errors(path: Path, kind: str, *damage: type[Exception]) -> Iterator[None]:
    """Say in one line why a file of a kind cannot be read, which may be what `damage` raises."""
    known: tuple[type[Exception], ...] = (OSError, *damage)
    try:
        yield
    except ElmoError:
        raise
    except known as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(InputError, path, error) from error
        # Without a number it is not the system's error: gzip and bz2 tell of damage so.
        why = " ".join(str(error).split())
        raise FormatError(f"{path}: is not a complete {kind} file ({why}); get it again") from error


def _decompressed(raw: BinaryIO, kind: str) -> BinaryIO:
    """The text of an open file; reading n bytes of it gives n, or all that is left."""
    if kind == "zst":
        return _file_of(_zstandard_blocks(raw))
    return DECOMPRESSORS[kind](raw) if kind else raw


def _zstandard_blocks(raw: BinaryIO) -> Iterator[bytes]:
    """Frame after frame of a .zst file; unlike the library's own reader it notices a cut end."""
    decompressor = import_extra("zstandard", "zstd").ZstdDecompressor()
    frame = None
    while block := raw.read(ZSTD_BLOCK_BYTES):
        while block:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(block)
            block = b""
            if frame.eof:
                block, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError("it ends in the middle")


def _utf_16_blocks(start: bytes, file: BinaryIO, path: Path) -> Iterator[bytes]:
    """A text in UTF-16, of which `start` is read already, as UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-16")()
    block = start
    try:
        while block:
            yield decoder.decode(block).encode()
            block = file.read(BLOCK_BYTES)
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FormatError(f"{path}: is not UTF-16 ({error}); convert it") from None


def _file_of(blocks: Iterator[bytes]) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_BlockFile(blocks)))


class _BlockFile(io.RawIOBase):
    """A file of blocks that are made as they are read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill part of a buffer; 0 at the end."""
        while not self._block:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._block = memoryview(block)
        size = min(len(buffer), len(self._block))
        buffer[:size] = self._block[:size]
        self._block = self._block[size:]
        return size


def read_lines(
    name: str | Path, encoding: str = ENCODING, errors: Errors = "strict", start: int = 1
) -> Iterator[Line]:
    """The lines, from number `start` on, of a file, a pipe, or standard input (-).

    Line ends are counted in what comes before; it is not decoded.
    """
    chunk, before = None, 0
    for chunk in read_chunks(name, BLOCK_BYTES):
        if chunk.first_line + chunk.contents.count(b"\n") >= start:
            lines = _lines_of(chunk, text_of(chunk, errors, encoding), before)
            yield from (line for line in lines if line.number >= start)
        before = chunk.position
    if chunk is None:
        raise no_text(shown(name))


def _lines_of(chunk: Chunk, text: str, before: int) -> Iterator[Line]:
    """The lines of a chunk that begins at `before`; each moves the position by its share."""
    text = text.removesuffix("\n")
    size, done = chunk.position - before, 0
    for number, line in enumerate(text.split("\n"), chunk.first_line):
        done += len(line) + 1
        position = before + size * done // (len(text) + 1)
        yield Line(f"{chunk.path}, line {number}", line.removesuffix("\r"), number, position)


def read_text(path: str | Path, encoding: str = ENCODING) -> str:
    """A whole file, which must hold more than whitespace."""
    text = "".join(text_of(chunk, encoding=encoding) for chunk in read_chunks(path))
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
    """The usual name of an encoding; raises for one whose lines cannot be told without decoding.

    >>> known_encoding("UTF8"), known_encoding("Latin-1")
    ('utf-8', 'iso8859-1')
    """
    try:
        usual = codecs.lookup(name).name
        if usual in ("utf-8-sig", "utf-16"):
            return ENCODING  # their marks are noticed
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
