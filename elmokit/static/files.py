"""Files of static word vectors: text, word2vec's and fastText's binary files, and our own.

What a file is, its first bytes tell; what it becomes, its name.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from itertools import chain, takewhile
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elmokit.errors import ElmoError, FormatError, InputError, unreadable
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, write_atomically
from elmokit.io.text_files import compression, opened, read_chunks
from elmokit.system import import_extra

PathLike = str | Path
Array = NDArray[np.float32]
Subwords = Callable[[str], Array | None]
"""Gives the vector (size,) of a word out of its subwords; None where it has none."""
Kind = Literal["text", "binary", "fasttext", "native"]

FORMAT, VERSION = "elmokit word vectors", "1"
SUFFIX = ".safetensors"
VECTORS_FILE = f"vectors{SUFFIX}"  # the file inside a folder of vectors
STORED = ("float16", "float32")
GLOVE = ".glove"
WRITTEN: dict[str, Kind] = {
    SUFFIX: "native", ".txt": "text", ".vec": "text", GLOVE: "text", ".bin": "binary",
}  # fmt: skip
"""What the end of a file's name makes of it."""

FASTTEXT = (793712314).to_bytes(4, "little")  # the first bytes of fastText's file
FASTTEXT_WORDS, FASTTEXT_COUNT = 92, 10
"""Where its words begin, and the bytes from the end of one to the next."""
PICKLE = re.compile(rb"\x80[\x02-\x05]")
NUMBER = re.compile(rb"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)", re.IGNORECASE)
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
NUMBER_TYPE = np.dtype("<f4")
HEAD_BYTES = 1 << 16
LONGEST_WORD = 1 << 16
LARGEST_SIZE = 1 << 20
WORDS_PER_REPORT = 1 << 13


class WordVectors(NamedTuple):
    """All that a file holds: different words, in its order, and a vector for each."""

    words: list[str]
    vectors: NDArray[Any]  # (words, size); float16 in our own files, as a rule
    description: Mapping[str, str] = {}  # what they are: `method` and `tokenizer`, where known
    subwords: Subwords | None = None


def read_word_vectors(
    path: PathLike, wanted: Collection[str] | None = None, progress: Progress | None = None
) -> WordVectors:
    """Read words and their (words, size) vectors; a word that comes twice has its first vector.

    The file is text with or without word2vec's first line, word2vec's or fastText's binary file,
    each plain or compressed, or our own. Words that are `wanted` are all that is stored, in single
    precision; of text and word2vec's binary file, others take no memory.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind in ("text", "binary"):
        read = _read_text if kind == "text" else _read_binary
        return WordVectors(*read(path, wanted, progress))
    found = _read_native(path) if kind == "native" else _read_fasttext(path)
    if wanted is None:
        return found
    rows = [row for row, word in enumerate(found.words) if word in wanted]
    vectors = found.vectors[rows].astype(np.float32, copy=False)
    return found._replace(words=[found.words[row] for row in rows], vectors=vectors)


def save_word_vectors(
    path: PathLike,
    words: Sequence[str],
    vectors: ArrayLike,
    description: Mapping[str, str] | None = None,
) -> None:
    """Write different words and their finite (words, size) vectors, complete or not at all.

    .txt or .vec is word2vec's text, .glove the same without its first line, .bin word2vec's binary
    file, all exact to the bit; .safetensors is ours, in half precision, which stores the
    `description` too.
    """
    kind = format_of(path)
    array = np.asarray(vectors, dtype=np.float32)
    _check_writable(path, words, array, kind)
    if kind == "native":
        _write_native(path, words, array, description or {})
    else:
        _write_word2vec(path, words, array, binary=kind == "binary")


def format_of(path: PathLike) -> Kind:
    """The format that a file's name asks for."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITTEN:
        raise InputError(f"{path}: give a name that ends in one of {', '.join(WRITTEN)}")
    return WRITTEN[suffix]


def kind_of(path: PathLike) -> Kind:
    """How a file is to be read, by its first bytes."""
    path = Path(path)
    if path.suffix.lower() == SUFFIX or path.is_dir():
        return "native"
    with opened(path) as (_, file):
        head = file.read(HEAD_BYTES).removeprefix(BOM_UTF8)
    if head.startswith(FASTTEXT):
        return "fasttext"
    if PICKLE.match(head):
        raise FormatError(
            f"{path}: is a pickle, which could run a program when it is read; have gensim write "
            "it as word2vec's text or binary file (save_word2vec_format)"
        )
    first, _, contents = head.partition(b"\n")
    shape = header_of(first)
    if shape is None or 0 in shape or not contents:
        return "text"
    if _numbers_at_the_end(contents.partition(b"\n")[0].rstrip(b" \r")) >= shape[1]:
        return "text"
    # Damaged text is still text, so that its reader can name the line.
    named_binary = ".bin" in [suffix.lower() for suffix in path.suffixes[-2:]]
    return "binary" if named_binary or CONTROL.search(contents) else "text"


def header_of(line: bytes) -> tuple[int, int] | None:
    """Word2vec's first line, (words, size); None where the line is something else.

    >>> header_of(b"3000000 300")
    (3000000, 300)
    """
    found = re.fullmatch(rb"(\d{1,18}) (\d{1,18})[ \r\n]*", line)
    return None if found is None else (int(found[1]), int(found[2]))


def is_utf8(word: str) -> bool:
    """Whether UTF-8 can encode a word: it has no bytes for a lone surrogate."""
    return word.encode("utf-8", "ignore").decode("utf-8") == word


def _read_text(
    path: Path, keep: Collection[str] | None, progress: Progress | None
) -> tuple[list[str], Array]:
    lines = _lines(path, progress)
    number, line = next(lines, (1, b""))
    shape = header_of(line)
    size = _numbers_at_the_end(line) if shape is None else shape[1]
    if 0 in (shape or [size]):
        expected = "expected a word and its numbers, or word2vec's count and size"
        raise FormatError(f"{path}, line 1: {expected}; get the file again")
    if shape is None:
        lines = chain([(number, line)], lines)
    found: dict[str, None] = {}
    vectors = bytearray()  # it grows in place: joining arrays at the end needs the memory twice
    try:
        for number, line in lines:  # noqa: B007 (an error names it)
            word, numbers = _split(line, size)
            if word not in found and (keep is None or word in keep):
                found[word] = None
                vectors += _parsed(numbers).tobytes()
        if shape is not None and shape[0] != number - 1:
            raise ValueError(f"is the last of {number - 1} words, where line 1 says {shape[0]}")
    except ElmoError:
        raise
    except ValueError as error:
        problem = f"{path}, line {number}: {error}; fix it or get the file again"
        raise FormatError(problem) from None
    return list(found), np.ndarray((len(found), size), np.float32, buffer=vectors)


def _lines(path: Path, progress: Progress | None) -> Iterator[tuple[int, bytes]]:
    for chunk in read_chunks(path):
        texts = chunk.contents.removesuffix(b"\n").split(b"\n")
        for number, text in enumerate(texts, start=chunk.first_line):
            # word2vec itself ends its lines with a space, Windows with a carriage return.
            yield number, text.rstrip(b" \r")
        if progress is not None:
            progress(chunk.position, path.stat().st_size)


def _split(line: bytes, size: int) -> tuple[str, bytes]:
    """A line's word, and its numbers as they are written."""
    spaces = line.count(b" ")
    word = line.rsplit(b" ", size)[0] if spaces > size else line.partition(b" ")[0]
    if spaces < size or not _is_word(word):
        raise ValueError(
            f"has {_numbers_at_the_end(line)} numbers at its end, where a word and {size} numbers "
            "are expected, separated by single spaces"
        )
    return word.decode("utf-8"), line[len(word) + 1 :]


def _is_word(word: bytes) -> bool:
    """Whether the reader can tell a word from what is around it."""
    first, *others = word.split(b" ")
    return bool(first) and all(other and not NUMBER.fullmatch(other) for other in others)


def _numbers_at_the_end(line: bytes) -> int:
    _, *pieces = line.split(b" ")
    return len(list(takewhile(NUMBER.fullmatch, reversed(pieces))))


def _parsed(numbers: bytes) -> Array:
    """The numbers of a line, all finite, as (size,)."""
    pieces = numbers.split(b" ")
    with np.errstate(over="ignore"):
        vector = np.array(pieces, dtype=np.float32)
    good = np.isfinite(vector)
    if b"_" in numbers:  # NumPy reads 1_0 as 10
        good &= [b"_" not in piece for piece in pieces]
    if not good.all():
        bad = pieces[int(good.argmin())]
        raise ValueError(f"{bad.decode()!r} is not a finite number")
    return vector


def _read_binary(
    path: Path, keep: Collection[str] | None, progress: Progress | None
) -> tuple[list[str], Array]:
    """Read word2vec's binary file; memory grows with what is read, whatever its first line says."""
    found: dict[str, None] = {}
    vectors = bytearray()
    with opened(path) as (raw, file), BufferedReader(cast(RawIOBase, file)) as contents:
        count, size = header_of(contents.readline()) or (0, 0)
        try:
            for number in range(1, count + 1):
                word, vector = _record(contents, size)
                if word not in found and (keep is None or word in keep):
                    found[word] = None
                    vectors += vector
                if progress is not None and (number % WORDS_PER_REPORT == 0 or number == count):
                    progress(raw.tell(), path.stat().st_size)
            if contents.peek().strip():
                raise ValueError("is not the last, as the first line says")
        except ValueError as error:
            problem = f"{path}, word {number} of {count}: {error}; get the file again"
            raise FormatError(problem) from None
    array = np.ndarray((len(found), size), NUMBER_TYPE, buffer=vectors)
    if (bad := _not_finite(list(found), array)) is not None:
        problem = f"the vector of {bad!r} has NaN or infinite numbers"
        raise FormatError(f"{path}: {problem}; get the file again")
    return list(found), array.astype(np.float32, copy=False)


def _record(contents: BufferedReader[Any], size: int) -> tuple[str, bytes]:
    """The next word, and the bytes of its vector."""
    spelling = b""
    while (
        not spelling.endswith(b" ") and len(spelling) < LONGEST_WORD and (ahead := contents.peek())
    ):
        spelling += contents.read(ahead.find(b" ") + 1 or len(ahead))
    word = spelling.removesuffix(b" ").lstrip(b"\n").decode("utf-8")
    bytes_of_vector = NUMBER_TYPE.itemsize * size
    vector = contents.read(bytes_of_vector) if size <= LARGEST_SIZE else b""
    if len(vector) < bytes_of_vector:
        raise ValueError("the file ends in the middle of it")
    if not word:
        raise ValueError("has no letters")
    return word, vector


def _not_finite(words: Sequence[str], vectors: Array) -> str | None:
    """The first word whose vector has NaN or infinite numbers."""
    finite = np.isfinite(vectors).all(axis=1)
    return None if finite.all() else words[int(finite.argmin())]


def _check_writable(path: PathLike, words: Sequence[str], vectors: Array, kind: Kind) -> None:
    """Raise for what would not be read back as it is."""
    if (bad := _not_finite(words, vectors)) is not None:
        raise InputError(
            f"{path}: not written; the vector of {bad!r} has NaN or infinite numbers; leave it out"
        )
    for word in words:
        good = bool(word) and "\n" not in word and is_utf8(word)
        if good and kind != "native":
            good = _is_word(word.encode("utf-8")) if kind == "text" else " " not in word
        if not good:
            problem = f"{word!r} would be read as something else; leave it out"
            raise InputError(f"{path}: not written; {problem}")


def _write_word2vec(path: PathLike, words: Sequence[str], vectors: Array, binary: bool) -> None:
    """Write word2vec's file; as text each number has the fewest digits that give it again."""
    with write_atomically(path) as temporary, open(temporary, "wb") as file:
        if Path(path).suffix.lower() != GLOVE:
            file.write(b"%d %d\n" % vectors.shape)
        for word, vector in zip(words, vectors.astype(NUMBER_TYPE, copy=False), strict=True):
            numbers = vector.tobytes() if binary else " ".join(map(str, vector)).encode()
            file.write(word.encode("utf-8") + b" " + numbers + b"\n")


def import_gensim() -> Any:
    """Gensim's module of fastText and word2vec; the library is an extra."""
    return import_extra("gensim.models.fasttext", "static")


def _read_fasttext(path: Path) -> WordVectors:
    fasttext = import_gensim()
    with _decompressed(path) as plain:
        _check_fasttext(plain, path)
        try:
            keyed = fasttext.load_facebook_vectors(str(plain))
        except Exception as error:  # it checks by assertions, struct, UTF-8 and what else may be
            why = " ".join(str(error).split())[:200] or type(error).__name__
            problem = f"{path}: is not a complete fastText file ({why}); get it again"
            raise FormatError(problem) from error
    description = {"method": "fasttext"}
    return WordVectors(list(keyed.index_to_key), keyed.vectors, description, subwords_of(keyed))


def _check_fasttext(plain: Path, path: Path) -> None:
    """Raise where the vocabulary is not complete, which gensim would read on for ever."""
    with open(plain, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        words, position = int.from_bytes(data[64:68], "little"), FASTTEXT_WORDS
        for _ in range(words):
            position = data.find(b"\0", position) + FASTTEXT_COUNT
            if not FASTTEXT_COUNT <= position <= len(data):
                why = f"it ends within its vocabulary of {words:,} words"
                raise FormatError(f"{path}: is not a complete fastText file ({why}); get it again")


def subwords_of(keyed: Any) -> Subwords:
    """The way to the vectors of other words in gensim's FastTextKeyedVectors."""

    def subwords(word: str) -> Array | None:
        # A word too short for a subword has none; without buckets no word has.
        vector = keyed.get_vector(word) if word and keyed.bucket else np.zeros(0, np.float32)
        return vector if vector.any() else None

    return subwords


@contextmanager
def _decompressed(path: Path) -> Iterator[Path]:
    """The file itself, or a plain copy of it: gensim misreads compressed ones."""
    if not compression(path):
        yield path
        return
    with TemporaryDirectory(prefix="elmokit-") as folder:
        plain = Path(folder) / "vectors.bin"
        with opened(path) as (_, file), disk_errors(plain, "written"), open(plain, "wb") as copy:
            copyfileobj(file, copy)
        yield plain


def _read_native(path: Path) -> WordVectors:
    """Read a file of ours, or the one inside a folder; raise an error where it is not complete."""
    path = path / VECTORS_FILE if path.is_dir() else path
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            vectors, letters = file.get_tensor("vectors"), file.get_tensor("words")
            description = dict(file.metadata() or {})
        words = letters.tobytes().decode("utf-8").split("\n")
    except OSError as error:
        raise unreadable(InputError, path, error) from error
    except (SafetensorError, ValueError) as error:
        why = " ".join(str(error).split())
        problem = f"{path}: is not a complete file of word vectors ({why}); get it again"
        raise FormatError(problem) from error
    found = (description.pop("format", None), description.pop("version", None))
    if found != (FORMAT, VERSION):
        raise FormatError(f"{path}: is of format and version {found}, not {(FORMAT, VERSION)}")
    if vectors.ndim != 2 or len(words) != len(vectors) or vectors.dtype.name not in STORED:
        raise FormatError(
            f"{path}: has {len(words)} words and {vectors.dtype} vectors of shape "
            f"{vectors.shape}; get it again"
        )
    if (bad := _not_finite(words, vectors)) is not None:
        raise FormatError(f"{path}: the vector of {bad!r:.60} has NaN or infinite numbers")
    return WordVectors(words, vectors, description)


def _write_native(
    path: PathLike, words: Sequence[str], vectors: Array, description: Mapping[str, str]
) -> None:
    from safetensors.numpy import save

    with np.errstate(over="ignore"):
        halved = np.ascontiguousarray(vectors, dtype=np.float16)
    if not np.isfinite(halved).all():
        raise InputError(
            f"{path}: not written; it has numbers beyond half precision; choose .txt or .bin"
        )
    letters = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    about = {**description, "format": FORMAT, "version": VERSION}
    with write_atomically(path) as temporary:
        # save_file would let only the owner read the file.
        temporary.write_bytes(save({"vectors": halved, "words": letters}, about))
