"""Sentences as names of datasets in an HDF5 file."""

from __future__ import annotations

from itertools import accumulate

from elmokit.errors import InputError
from elmokit.formats.vector_items import PathLike


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
        names = sentence.split("/")
        if not {"", "."}.isdisjoint(names) or "\0" in sentence or not encodable(sentence):
            raise InputError(f"{place} cannot be a key of an HDF5 file; use line numbers as keys")
        *folders, _ = accumulate(names, "{}/{}".format)
        earlier = next((self._lines[name] for name in folders if name in self._lines), None)
        earlier = earlier or self._lines.get(sentence) or self._folders.get(sentence)
        if earlier is not None:
            raise InputError(f"{place} has the key of line {earlier}; use line numbers as keys")
        self._lines[sentence] = line
        self._folders.update(dict.fromkeys(folders, line))


def encodable(text: str) -> bool:
    """Whether UTF-8 has bytes for every character: it has none for a lone surrogate."""
    return text.encode("utf-8", "ignore").decode("utf-8") == text
