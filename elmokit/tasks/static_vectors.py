"""Words and their static vectors, GloVe's for example, as a table that a task reads."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import ElmoWarning, InputError
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors
from elmokit.static.files import VECTORS_FILE, read_word_vectors
from elmokit.static.vectors import forms_of

UNKNOWN = -1
"""The row of a word without a vector."""


class VectorsSource(NamedTuple):
    """The file that vectors were read from, and how to tell it from another of the same name."""

    path: str
    bytes: int


class StaticLookup(nn.Module):
    """Looks up the vector of a word: of its exact form, or else of its lower case.

    All words without a vector share one. It is learnt even where the table is frozen, since a word
    that a large file lacks is a name or a misspelling, which tells a task something; it starts at
    zeros, so that one that was never trained says nothing.

    A saved task has the rows of this table and no others: it must run without the file, which may
    have gigabytes. So read with the words of all the data, and with those of a
    vocabulary of frequent words besides, if other text is to be read later. Where the file is
    still in its place, `look_up` adds the words of new text; where it is not, a warning says so
    and they count as unknown. Nothing is looked up unasked: the vectors of a word never depend on
    what happens to be on the disk.

    The words, which are different, have a vector each, (words, size). With `lowercase` a word
    without one takes that of its lower case. The words that the file lacks are `absent`: nobody has
    to look for them again.
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: ArrayLike,
        *,
        lowercase: bool = True,
        trainable: bool = False,
        source: VectorsSource | None = None,
        absent: Iterable[str] = (),
    ) -> None:
        super().__init__()
        table = torch.tensor(np.asarray(vectors, dtype=np.float32))
        self._rows = {word: row for row, word in enumerate(words)}
        self.vectors = nn.Parameter(table, requires_grad=trainable)
        self.unknown = nn.Parameter(torch.zeros(table.shape[1]))
        self.lowercase = lowercase
        self.trainable = trainable
        self.source = source
        self._absent = set(absent)
        self._warned = False

    @classmethod
    def read(
        cls,
        path: str | Path,
        words: Iterable[str],
        *,
        lowercase: bool = True,
        trainable: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Read the vectors of some words, and of no others, from a file that `elmo static` reads.

        `progress` is called with the bytes that are read so far, and with all of the file's.
        """
        wanted = {form for word in words for form in forms_of(word, lowercase)}
        found = read_word_vectors(path, wanted, progress)
        if not found.words:
            raise InputError(
                f"{path}: has a vector for none of {len(wanted)} words; "
                "choose vectors of the language of the data"
            )
        return cls(
            found.words,
            found.vectors,
            lowercase=lowercase,
            trainable=trainable,
            source=source_of(path),
            absent=wanted.difference(found.words),
        )

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """A table like the one described, all zeros: `load_state_dict` gives it its numbers."""
        source = description["source"]
        return cls(
            description["words"],
            np.zeros((len(description["words"]), description["size"]), dtype=np.float32),
            lowercase=description["lowercase"],
            trainable=description["trainable"],
            source=None if source is None else VectorsSource(**source),
            absent=description.get("absent", ()),
        )

    def description(self) -> dict[str, Any]:
        """All but the numbers, as JSON has it: with the state_dict it makes the same table."""
        return {
            "words": self.words,
            "size": self.size,
            "lowercase": self.lowercase,
            "trainable": self.trainable,
            "source": None if self.source is None else self.source._asdict(),
            "absent": sorted(self._absent),
        }

    @property
    def size(self) -> int:
        """Size of a word's vector."""
        return self.vectors.shape[1]

    @property
    def words(self) -> list[str]:
        """The words that have a vector, in the order of the table's rows."""
        return list(self._rows)

    def fingerprint(self, words: Iterable[str] | None = None) -> str:
        """SHA-256 of the vectors that some words have, or all in the table, as they are now."""
        known = set(self.words)
        if words is not None:
            known &= {form for word in words for form in forms_of(word, self.lowercase)}
        sha256 = hashlib.sha256(f"{self.size} {self.lowercase} {sorted(known)}".encode())
        rows = torch.tensor([self._rows[word] for word in sorted(known)], dtype=torch.long)
        sha256.update(self.vectors.detach().cpu()[rows].numpy().tobytes())
        return sha256.hexdigest()

    def __contains__(self, word: str) -> bool:
        return self._row_of(word) != UNKNOWN

    def forward(self, words: Sequence[str]) -> Tensor:
        """Look up words as vectors (words, size)."""
        numbers = [self._row_of(word) for word in words]
        rows = torch.tensor(numbers, dtype=torch.long, device=self.vectors.device)
        found = functional.embedding(rows.clamp(min=0), self.vectors)
        return torch.where(rows[:, None] == UNKNOWN, self.unknown, found)

    def look_up(self, words: Iterable[str], progress: Progress | None = None) -> int:
        """Read the vectors of new words from the file that the others came from; how many it had.

        For a trained task that reads new text. Not while an optimiser holds the table: it becomes
        a larger one. The file is read only for words that were never looked for.
        """
        asked = set(words)
        new = {form for word in asked for form in forms_of(word, self.lowercase)}
        new = new.difference(self._rows, self._absent)
        if not new or self.source is None:
            return 0
        if not Path(self.source.path).is_file() or source_of(self.source.path) != self.source:
            self._warn_once(self.source, sum(word not in self for word in asked))
            return 0
        found = read_word_vectors(self.source.path, new, progress)
        self._absent |= new.difference(found.words)
        if found.words:
            self._append(found.words, found.vectors)
        return len(found.words)

    def _row_of(self, word: str) -> int:
        for form in forms_of(word, self.lowercase):
            row = self._rows.get(form)
            if row is not None:
                return row
        return UNKNOWN

    def _append(self, words: Sequence[str], vectors: ArrayLike) -> None:
        added = torch.tensor(np.asarray(vectors)).to(self.vectors)
        table = torch.cat([self.vectors.detach(), added])
        self.vectors = nn.Parameter(table, requires_grad=self.trainable)
        self._rows |= {word: row for row, word in enumerate(words, start=len(self._rows))}

    def _warn_once(self, source: VectorsSource, words: int) -> None:
        if words and not self._warned:
            self._warned = True
            warnings.warn(
                f"{source.path}: is gone, or is another file than the task was trained with; "
                f"words that the task does not have count as unknown, {words:,} of them here",
                ElmoWarning,
                stacklevel=3,
            )


def source_of(path: str | Path) -> VectorsSource:
    """What a file, or a folder that holds our own vectors, is remembered by."""
    file = Path(path)
    file = file / VECTORS_FILE if file.is_dir() else file
    with disk_errors(file, "read"):
        return VectorsSource(str(file.absolute()), file.stat().st_size)
