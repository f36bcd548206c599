"""Static word vectors as our own small file: safetensors, in half precision, with the words inside.

It is read without gensim, and fast: the words are one text, and numbers stay as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.word_vector_items import PathLike, check_vectors, is_utf8

FORMAT, VERSION = "elmokit word vectors", "1"
SUFFIX = ".safetensors"
VECTORS_FILE = f"vectors{SUFFIX}"
"""The file inside a folder of vectors."""
STORED = ("float16", "float32")


class StoredVectors(NamedTuple):
    """What a file holds."""

    words: list[str]
    vectors: NDArray[Any]  # (words, size), float16 as a rule
    description: dict[str, str]  # what the vectors are: `method` and `tokenizer`, where known


def read_stored_vectors(path: PathLike) -> StoredVectors:
    """Read a file, or the one inside a folder, and refuse what is not whole."""
    path = Path(path)
    if path.is_dir():
        if not (path / VECTORS_FILE).exists():
            raise InputError(f"{path}: is a folder without {VECTORS_FILE}; name a file of vectors")
        path /= VECTORS_FILE
    try:
        tensors, description = _tensors(path)
        words = tensors["words"].tobytes().decode("utf-8").split("\n")
        vectors = tensors["vectors"]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (KeyError, ValueError) as error:
        raise FormatError(
            f"{path}: is not a whole file of word vectors ({error}); get it anew"
        ) from error
    found = (description.pop("format", None), description.pop("version", None))
    if found != (FORMAT, VERSION):
        raise FormatError(f"{path}: is of format and version {found}, not {(FORMAT, VERSION)}")
    if vectors.ndim != 2 or len(words) != len(vectors) or vectors.dtype.name not in STORED:
        raise FormatError(
            f"{path}: has {len(words)} words and {vectors.dtype} vectors of shape "
            f"{vectors.shape}; get it anew"
        )
    return StoredVectors(words, vectors, description)


def write_stored_vectors(
    path: PathLike, words: Sequence[str], vectors: ArrayLike, description: Mapping[str, str]
) -> None:
    """Write words and their (words, size) vectors in half precision, whole or not at all."""
    from safetensors.numpy import save

    array = np.asarray(vectors)
    refused = f"{path}: not written;"
    check_vectors(refused, words, array)
    for word in words:
        if not word or not is_utf8(word) or "\n" in word:
            raise InputError(f"{refused} {word!r} would be read as something else; leave it out")
    with np.errstate(over="ignore"):
        halved = array.astype(np.float16)
    if not np.isfinite(halved).all():
        raise InputError(f"{refused} it has numbers beyond half precision; choose .txt or .bin")
    letters = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    about = {**description, "format": FORMAT, "version": VERSION}
    tensors: dict[str, NDArray[Any]] = {"vectors": np.ascontiguousarray(halved), "words": letters}
    with write_atomically(path) as temporary:
        # save_file would let only the owner read the file.
        temporary.write_bytes(save(tensors, about))


def _tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(" ".join(str(error).split())) from error
