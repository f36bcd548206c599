"""Static word vectors in any file: text, word2vec's binary, fastText's, and our own.

What a file is, its first bytes tell; what it becomes, its name, unless a format is given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from elmokit.config import check_choice
from elmokit.errors import FormatError, InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.word_vector_items import PathLike, header_of
from elmokit.formats.word_vector_items import WordVectors as WordVectors
from elmokit.formats.word_vectors_binary import read_binary_vectors, write_binary_vectors
from elmokit.formats.word_vectors_fasttext import MAGIC, read_fasttext
from elmokit.formats.word_vectors_native import (
    SUFFIX,
    read_stored_vectors,
    write_stored_vectors,
)
from elmokit.formats.word_vectors_text import is_text, read_text_vectors
from elmokit.formats.word_vectors_text import write_word_vectors as write_word_vectors
from elmokit.text.corpus import read_chunks

Kind = Literal["text", "binary", "fasttext", "native"]
Format = Literal["glove", "word2vec", "word2vec-binary", "native"]
FORMATS: dict[str, Format] = {
    SUFFIX: "native",
    ".txt": "word2vec",
    ".vec": "word2vec",
    ".bin": "word2vec-binary",
}
"""What the end of a file's name makes of it."""

PICKLE = re.compile(rb"\x80[\x02-\x05]")
HEAD_BYTES = 1 << 16


def read_word_vectors(
    path: PathLike, wanted: Collection[str] | None = None, progress: Progress | None = None
) -> WordVectors:
    """Read words and their (words, size) vectors; a word that comes twice keeps its first vector.

    Args:
        path: A text file with or without word2vec's first line, word2vec's or fastText's binary
            file, each plain or compressed, or our own.
        wanted: Keep these words only, and memory for no others. Letters must match in case. The
            numbers of other words are counted, but not looked at.
        progress: Called with the bytes of the file that are read so far, and with all its bytes.
    """
    if isinstance(wanted, str):
        raise InputError(f"expected a list of words, got {wanted!r}; put it into a list")
    keep = None if wanted is None else frozenset(wanted)
    path = Path(path)
    kind = kind_of(path)
    if kind == "text":
        return read_text_vectors(path, keep, progress)
    if kind == "binary":
        return read_binary_vectors(path, keep, progress)
    if kind == "fasttext":
        words, vectors, _ = read_fasttext(path)
    else:
        words, stored, _ = read_stored_vectors(path)
        vectors = stored.astype(np.float32)
    rows = [row for row, word in enumerate(words) if keep is None or word in keep]
    return WordVectors([words[row] for row in rows], vectors[rows])


def save_word_vectors(
    path: PathLike,
    words: Sequence[str],
    vectors: ArrayLike,
    *,
    to: Format | None = None,
    description: Mapping[str, str] | None = None,
) -> None:
    """Write words and their (words, size) vectors, whole or not at all.

    Args:
        path: A file; without `to` its name says the format: .txt, .vec, .bin or .safetensors.
        words: Different words.
        vectors: A vector for each.
        to: "word2vec" is text with a first line of `count size`, "glove" without it.
        description: What our own format keeps with them.
    """
    chosen = format_of(path) if to is None else to
    check_choice("to", chosen, get_args(Format))
    if chosen == "native":
        write_stored_vectors(path, words, vectors, description or {})
    elif chosen == "word2vec-binary":
        write_binary_vectors(path, words, vectors)
    else:
        write_word_vectors(path, words, vectors, header=chosen == "word2vec")


def format_of(path: PathLike) -> Format:
    """The format that a file's name asks for."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path}: give a name that ends in one of {', '.join(FORMATS)}")
    return FORMATS[suffix]


def kind_of(path: PathLike) -> Kind:
    """How a file is to be read, by its first bytes."""
    path = Path(path)
    if path.suffix.lower() == SUFFIX or path.is_dir():
        return "native"
    head = _head(path)
    if head.startswith(MAGIC):
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
    named_binary = ".bin" in [suffix.lower() for suffix in path.suffixes[-2:]]
    return "text" if is_text(shape, contents, named_binary) else "binary"


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed."""
    head = b""
    for chunk in read_chunks(path, HEAD_BYTES):
        head += chunk.contents
        if len(head) >= HEAD_BYTES:
            break
    return head
