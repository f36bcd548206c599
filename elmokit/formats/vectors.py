"""Vectors of sentences as files: HDF5 as `allennlp elmo` wrote it, NPZ, JSON lines.

An item is a sentence, as words or as text, and its array: (words, size), or (layers, words, size).
Item n is the input's line n: a blank line is kept, as an array of no words.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from elmokit.errors import FormatError, InputError
from elmokit.formats.files import write_atomically
from elmokit.formats.hdf5 import open_hdf5, read_floats

PathLike = str | Path
Array = NDArray[np.float32]
Item = tuple[Sequence[str] | str, Array]

SENTENCE_TO_INDEX = "sentence_to_index"
SENTENCES = "sentences"


class SentenceVectors(NamedTuple):
    """One line of the input, as it is read back."""

    sentence: str | None  # words joined by spaces; None where the file does not tell
    vectors: Array  # (words, size) or (layers, words, size)


def write_vectors(path: PathLike, items: Iterable[Item]) -> None:
    """Write items in the format that the name's suffix says; the file appears whole or not."""
    WRITERS[check_suffix(path)](path, items)


def read_vectors(path: PathLike) -> list[SentenceVectors]:
    """Read a file that `write_vectors` or `allennlp elmo` wrote, in the order of its lines.

    Where the keys of an HDF5 file are sentences, the order is that of the sentences.
    """
    return READERS[check_suffix(path)](path)


def check_suffix(path: PathLike) -> str:
    """Refuse a name whose suffix is not one of a format here; give the suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        found = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise InputError(f"{path}: {found}; use one of {', '.join(sorted(WRITERS))}")
    return suffix


def write_hdf5(
    path: PathLike,
    items: Iterable[Item],
    *,
    keep_sentences: bool = True,
    sentence_keys: bool = False,
) -> None:
    """Write the layout of `allennlp elmo`: a dataset "0", "1", … for each line.

    Args:
        path: The file.
        items: Sentences and their arrays.
        keep_sentences: Also write `sentence_to_index`, a JSON object from sentence to key. Where a
            sentence occurs twice, its last line is the one kept.
        sentence_keys: Name each dataset by its sentence instead; all sentences must differ.
    """
    keys = SentenceKeys(path)
    sentence_to_index: dict[str, str] = {}
    with write_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        for number, (sentence, array) in numbered(path, items):
            if sentence_keys:
                keys.add(sentence)
            else:
                sentence_to_index[sentence] = str(number)
            file.create_dataset(sentence if sentence_keys else str(number), data=array)
        if keep_sentences and not sentence_keys:
            text = json.dumps(sentence_to_index)
            file.create_dataset(SENTENCE_TO_INDEX, data=[text], dtype=h5py.string_dtype())


def read_hdf5(path: PathLike) -> list[SentenceVectors]:
    """Read the layout of `allennlp elmo`, whatever its keys are."""
    with open_hdf5(path) as file:
        names = _dataset_names(file)
        sentences: dict[str, str] = dict(zip(names, names, strict=True))
        if all(name.isdecimal() for name in names):
            names.sort(key=int)
            sentences = _sentences_of_keys(file, path)
        return [
            SentenceVectors(sentences.get(name), read_floats(file, name).numpy()) for name in names
        ]


def write_npz(path: PathLike, items: Iterable[Item]) -> None:
    """Write arrays "0", "1", … for NumPy, and `sentences`, a text that holds them as JSON."""
    sentences = []
    with write_atomically(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for number, (sentence, array) in numbered(path, items):
            sentences.append(sentence)
            _add_array(archive, str(number), array)
        # A NumPy array of texts gives each the room of the longest; one JSON text does not.
        _add_array(archive, SENTENCES, np.array(json.dumps(sentences)))


def read_npz(path: PathLike) -> list[SentenceVectors]:
    """Read arrays "0", "1", … and their sentences."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            names = [name for name in archive.files if name != SENTENCES]
            arrays = {int(name): archive[name].astype(np.float32) for name in names}
            sentences = json.loads(str(archive[SENTENCES])) if SENTENCES in archive else []
        known = dict(enumerate(sentences))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        why = " ".join(str(error).split())
        raise FormatError(f"{path}: is not a file of vectors, or is damaged ({why})") from error
    return [SentenceVectors(known.get(number), arrays[number]) for number in sorted(arrays)]


def write_jsonl(path: PathLike, items: Iterable[Item]) -> None:
    """Write a JSON object for each line: its index, sentence, shape and vectors."""
    with (
        write_atomically(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        for number, (sentence, array) in numbered(path, items):
            start = json.dumps(
                {"index": number, "sentence": sentence, "shape": array.shape}
            ).removesuffix("}")
            file.write(f'{start}, "vectors": {as_json(array)}}}\n')


def read_jsonl(path: PathLike) -> list[SentenceVectors]:
    """Read a JSON object from each line."""
    found: list[SentenceVectors] = []
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                item = json.loads(line)
                # Nested lists do not tell the size of a vector where there are no words.
                array = np.array(item["vectors"], dtype=np.float32).reshape(item["shape"])
                found.append(SentenceVectors(item["sentence"], array))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError) as error:
        line_number = len(found) + 1
        raise FormatError(f"{path}, line {line_number}: is no line of vectors ({error})") from error
    return found


WRITERS: dict[str, Callable[[PathLike, Iterable[Item]], None]] = {
    ".h5": write_hdf5,
    ".hdf5": write_hdf5,
    ".npz": write_npz,
    ".jsonl": write_jsonl,
}
READERS: dict[str, Callable[[PathLike], list[SentenceVectors]]] = {
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".npz": read_npz,
    ".jsonl": read_jsonl,
}


class SentenceKeys:
    """Sentences that name datasets of an HDF5 file, where "/" makes folders."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self._lines: dict[str, int] = {}
        self._folders: dict[str, int] = {}

    def add(self, sentence: str) -> None:
        """Take the next line's sentence; refuse one that cannot be a name, or is one already."""
        line = len(self._lines) + 1
        place = f"{self.path}: line {line}, {sentence[:40]!r},"
        parts = sentence.split("/")
        if not {"", "."}.isdisjoint(parts) or "\0" in sentence or not encodable(sentence):
            raise InputError(f"{place} cannot be a key of an HDF5 file; use line numbers as keys")
        *folders, _ = accumulate(parts, "{}/{}".format)
        earlier = next((self._lines[name] for name in folders if name in self._lines), None)
        earlier = earlier or self._lines.get(sentence) or self._folders.get(sentence)
        if earlier is not None:
            raise InputError(f"{place} has the key of line {earlier}; use line numbers as keys")
        self._lines[sentence] = line
        self._folders.update(dict.fromkeys(folders, line))


def numbered(path: PathLike, items: Iterable[Item]) -> Iterator[tuple[int, tuple[str, Array]]]:
    """Number items from 0, their sentences as text and their arrays as finite float32."""
    for number, (sentence, array) in enumerate(items):
        array = np.asarray(array, dtype=np.float32)
        if not np.isfinite(array).all():
            raise InputError(f"{path}: not written; line {number + 1} has NaN or infinite vectors")
        text = sentence if isinstance(sentence, str) else " ".join(sentence)
        yield number, (text, array)


def as_json(array: Array) -> str:
    """Nested lists, each number with the fewest digits that give the same float32.

    >>> as_json(np.array([[0.1, 1.0]], dtype=np.float32))
    '[[0.1, 1.0]]'
    """
    parts = map(str, array) if array.ndim == 1 else map(as_json, array)
    return f"[{', '.join(parts)}]"


def encodable(text: str) -> bool:
    """Whether UTF-8 has bytes for every character: it has none for a lone surrogate."""
    return text.encode("utf-8", "ignore").decode("utf-8") == text


def _dataset_names(file: h5py.File) -> list[str]:
    """The keys of all arrays, those in folders too."""
    names: list[str] = []

    def keep(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset) and name != SENTENCE_TO_INDEX:
            names.append(name)

    file.visititems(keep)
    return names


def _sentences_of_keys(file: h5py.File, path: PathLike) -> dict[str, str]:
    """From key to sentence, where the file keeps sentences."""
    if SENTENCE_TO_INDEX not in file:
        return {}
    try:
        pairs = json.loads(file[SENTENCE_TO_INDEX][0])
        return {str(key): sentence for sentence, key in pairs.items()}
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise FormatError(f"{path}: its {SENTENCE_TO_INDEX} cannot be read ({error})") from error


def _add_array(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
