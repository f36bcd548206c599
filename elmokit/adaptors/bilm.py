"""The original code, bilm-tf: `from elmokit.adaptors.bilm import Batcher, dump_bilm_embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from elmokit.adaptors.allennlp_embedder import ElmoEmbedder
from elmokit.config import Within, checked
from elmokit.formats.find import Location
from elmokit.io.fetch import local_path
from elmokit.io.files import disk_errors
from elmokit.text.characters import MAX_CHARACTERS, Sentence, character_ids, check_sentences
from elmokit.text.vocabulary import BEGIN, END, read_vocabulary

Ids = NDArray[np.int64]


class Batcher:
    """Spells sentences as ids of so many characters a word; a vocabulary changes nothing."""

    def __init__(
        self, lm_vocab_file: Location | None = None, max_token_length: int = MAX_CHARACTERS
    ) -> None:
        checked("max_token_length", max_token_length, Annotated[int, Within(least=3)])
        self._length = max_token_length

    def batch_sentences(self, sentences: Sequence[Sentence]) -> Ids:
        """Ids (sentences, words + 2, characters), markers included, 0 behind a sentence's end."""
        return padded([character_ids(words, self._length) for words in marked(sentences)])


class TokenBatcher:
    """Numbers words by a vocabulary: 0 is padding, word i of the file i + 1."""

    def __init__(self, lm_vocab_file: Location) -> None:
        self._vocabulary = read_vocabulary(local_path(lm_vocab_file))

    def batch_sentences(self, sentences: Sequence[Sentence]) -> Ids:
        """Ids (sentences, words + 2), markers included; unknown words have that of `<UNK>`."""
        id_of = self._vocabulary.id_of
        return padded([np.array([id_of(w) + 1 for w in words]) for words in marked(sentences)])


def marked(sentences: Sequence[Sentence]) -> list[list[str]]:
    """The sentences between their markers."""
    return [[BEGIN, *words, END] for words in check_sentences(sentences)]


def padded(rows: Sequence[NDArray[np.integer]]) -> Ids:
    """Rows of ids as one array, 0 where a row has ended."""
    longest = max(map(len, rows), default=0)
    shape = rows[0].shape[1:] if rows else ()
    ids = np.zeros((len(rows), longest, *shape), np.int64)
    for row, found in zip(ids, rows, strict=True):
        row[: len(found)] = found
    return ids


def dump_bilm_embeddings(
    vocab_file: Location | None,
    dataset_file: str | Path,
    options_file: Location,
    weight_file: Location | None,
    outfile: str | Path,
) -> None:
    """Write all layers of each line of a file into HDF5, under the line's number.

    Lines are read one by one, each continuing the one before. `vocab_file` changes nothing.
    """
    with disk_errors(Path(dataset_file), "read"), open(dataset_file, encoding="utf-8") as lines:
        embedder = ElmoEmbedder(options_file, weight_file)
        embedder.embed_file(lines, outfile, batch_size=1, forget_sentences=True)
