"""CachedEmbedder: vectors from a file, where an `Embedder` would compute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.errors import InputError
from elmokit.inference.layers import LayerChoice, Mix, Piece, Pool
from elmokit.model.bilm import Layers
from elmokit.text.characters import Sentence, check_sentences, word_bytes
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import Array, PathLike

ALL = "all"


class CachedEmbedder:
    """Looks up the vectors of sentences, by their words, in a file that `elmo embed` wrote.

    For training a network of your own on vectors computed once: `embed`, `embed_layers`,
    `embed_stream` and `vector_size` are those of `Embedder`. It has no model, so it embeds nothing
    that the file does not hold, and splits no raw text. In memory are 16 bytes for each sentence of
    the file. Calls from several threads and from forked or spawned workers are safe.

    Args:
        path: A file of vectors for words, with its sentences, or a folder of such files that the
            engine ray wrote. Of a sentence that it has more than once, the last vectors are used.
        holds: Which layer the file holds, as in `embed(layers=…)`, where the file itself does not
            tell: those that `allennlp elmo` wrote do not.
    """

    def __init__(self, path: PathLike, holds: str | int | None = None) -> None:
        self.path = path
        self._file = open_vectors(path)
        shape = self._file[0].vectors.shape if len(self._file) else ()
        about = self._file.description
        if not shape:
            raise InputError(f"{path}: holds no vectors; write it from a text that has some")
        if len(shape) == 1 or about.get("pool") not in (None, "none"):
            raise InputError(
                f"{path}: holds a vector for each sentence, not for each word; "
                "write it with --pool none"
            )
        self.vector_size: int = shape[-1]
        self._layers: tuple[int, ...] = shape[:-2]  # without a dimension for them where it is one
        self._holds = about.get("layers", holds)
        if holds is not None and str(self._holds) != str(holds):
            raise InputError(f"{path}: holds {self._holds!r} by its own account, not {holds!r}")
        self._index = SentenceIndex(self._file.sentences())
        if not len(self._index):
            raise InputError(f"{path}: has no sentences to look up; write it with its sentences")

    def __repr__(self) -> str:
        return f"CachedEmbedder({str(self.path)!r}: {len(self._index)} sentences)"

    if not TYPE_CHECKING:  # which would then let any name pass

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"CachedEmbedder has no {name!r}: it looks vectors up in a file, by the words of "
                "sentences, and has no model; take an Embedder for that"
            )

    def embed(
        self, sentences: Sequence[Sentence], layers: str | int | Mix = "average", pool: Pool = None
    ) -> list[Array]:
        """The vectors of each sentence of words: the arrays that `Embedder.embed` gives.

        From a file of all layers, `layers` is any that it has. From a file of one layer it must be
        that one.
        """
        sentences = check_sentences(sentences)
        if not self._layers:
            self._check_layer(layers)
        choice = LayerChoice(layers if self._layers else ALL, sum(self._layers) or 1, pool)
        found = [self._find(sentence, number) for number, sentence in enumerate(sentences)]
        if choice.name == ALL and not choice.pool:
            return found
        return [reduced(array, choice) for array in found]

    def embed_layers(self, sentences: Sequence[Sentence]) -> list[Array]:
        """The same as `embed(sentences, layers="all")`: arrays (layers, words, size)."""
        return self.embed(sentences, ALL)

    def embed_stream(
        self, sentences: Iterable[Sentence], layers: str | int | Mix = "average", pool: Pool = None
    ) -> Iterator[Array]:
        """The vectors of any number of sentences, one after the other."""
        return (self.embed([sentence], layers, pool)[0] for sentence in sentences)

    def close(self) -> None:
        """Free the file."""
        self._file.close()

    def _check_layer(self, layer: str | int | Mix) -> None:
        """Raise for any layer but the one that the file is known to hold."""
        name = str(layer) if isinstance(layer, str | int) else "mix"
        if self._holds is None:
            raise InputError(
                f"{self.path}: does not tell which layer it holds; if it is this one, say so: "
                f"CachedEmbedder(…, holds={name!r})"
            )
        if name != str(self._holds):
            raise InputError(
                f"{self.path}: holds layer {str(self._holds)!r}, not {name!r}; ask for that one, "
                "or write a file of all layers: --layers all"
            )

    def _find(self, sentence: Sentence, number: int) -> Array:
        """The vectors of a sentence, as the file has them."""
        if not sentence:
            return np.zeros((*self._layers, 0, self.vector_size), dtype=np.float32)
        text = " ".join(sentence)
        spelling = word_bytes(text)
        for candidate in self._index.find(spelling):
            item = self._file[candidate]
            # Another sentence may have the same hash, or other words with the same text.
            same = item.sentence is not None and word_bytes(item.sentence) == spelling
            if same and item.vectors.shape[-2] == len(sentence):
                return item.vectors
        raise InputError(
            f"{self.path}: has no vectors for sentence {number}, {text[:60]!r}; "
            "embed the text that it is in: elmo embed"
        )


@torch.inference_mode()
def reduced(array: Array, choice: LayerChoice) -> Array:
    """What a choice keeps of the layers of a sentence, (layers, words, size)."""
    words = array.shape[-2]
    mask = torch.ones(1, words, dtype=torch.bool)
    collection = choice.collection([words])
    batch_of_one = Layers(torch.from_numpy(array).unsqueeze(-3), mask)
    collection.add(Piece([1], [words + 1]), choice.reduce(batch_of_one))
    return collection.arrays()[0]


class SentenceIndex:
    """Finds the numbers of sentences by a hash of 8 bytes; whoever asks must compare the sentence.

    >>> index = SentenceIndex([(0, "a b"), (1, "c"), (2, "a b")])
    >>> index.find(b"a b"), index.find(b"d")
    ([2, 0], [])
    """

    def __init__(self, sentences: Iterable[tuple[int, str]]) -> None:
        pairs = ((hash_of(word_bytes(sentence)), number) for number, sentence in sentences)
        rows = np.fromiter(pairs, dtype=[("hash", np.uint64), ("number", np.int64)])
        rows.sort(order=("hash", "number"))
        self._hashes: NDArray[np.uint64] = np.ascontiguousarray(rows["hash"])
        self._numbers: NDArray[np.int64] = np.ascontiguousarray(rows["number"])

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, spelling: bytes) -> list[int]:
        """Numbers of all sentences that may be this one, the last first."""
        wanted = np.uint64(hash_of(spelling))
        begin, end = (
            int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right")
        )
        return self._numbers[begin:end][::-1].tolist()


def hash_of(spelling: bytes) -> int:
    """64 bits that are the same in every process."""
    return int.from_bytes(blake2b(spelling, digest_size=8).digest(), "little")
