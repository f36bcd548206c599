"""fastText's own file, `.bin`: words and the subwords that other words are made of, by gensim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import disk_errors, write_atomically
from elmokit.formats.word_vector_items import Array, PathLike
from elmokit.text.corpus import compression, read_chunks

MAGIC = (793712314).to_bytes(4, "little")
"""The first bytes of the file."""

Subwords = Callable[[str], Array | None]
"""Gives the vector (size,) of a word out of its subwords; None where it has none."""


class FastTextVectors(NamedTuple):
    """What a fastText file holds."""

    words: list[str]
    vectors: Array  # (words, size)
    subwords: Subwords


def import_gensim() -> Any:
    """Gensim's module of fastText and word2vec; the library is an extra."""
    try:
        return import_module("gensim.models.fasttext")
    except ImportError as error:
        raise InputError(
            'gensim is not installed; run: pip install "elmokit[static]" (.txt, .vec, .safetensors '
            "and word2vec's .bin files are read without it)"
        ) from error


def read_fasttext(path: PathLike) -> FastTextVectors:
    """Read fastText's `.bin` file, plain or compressed."""
    fasttext = import_gensim()
    with _decompressed(Path(path)) as plain:
        try:
            keyed = fasttext.load_facebook_vectors(str(plain))
        except Exception as error:  # it checks by assertions, struct, UTF-8 and what else may be
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise FormatError(
                f"{path}: is not a whole fastText file ({why}); get it anew"
            ) from error
    return fasttext_vectors(keyed)


def fasttext_vectors(keyed: Any) -> FastTextVectors:
    """The vectors of gensim's FastTextKeyedVectors, and a way to those of other words."""

    def subwords(word: str) -> Array | None:
        # A word too short for a subword has none; without buckets no word has.
        vector = keyed.get_vector(word) if word and keyed.bucket else np.zeros(0, np.float32)
        return vector if vector.any() else None

    return FastTextVectors(list(keyed.index_to_key), np.asarray(keyed.vectors), subwords)


def write_fasttext(path: PathLike, model: Any) -> None:
    """Write gensim's FastText model as fastText's `.bin` file, whole or not at all."""
    fasttext = import_gensim()
    with write_atomically(path) as temporary:
        fasttext.save_facebook_model(model, str(temporary))


@contextmanager
def _decompressed(path: Path) -> Iterator[Path]:
    """The file itself, or a plain copy of it: gensim misreads compressed ones."""
    if not compression(path):
        yield path
        return
    with TemporaryDirectory(prefix="elmokit-") as folder:
        plain = Path(folder) / "vectors.bin"
        with disk_errors(plain, "written"), open(plain, "wb") as file:
            for chunk in read_chunks(path):
                file.write(chunk.contents)
        yield plain
