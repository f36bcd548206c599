"""Occurrences and sentences as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.text.tokenizer import LONE_SURROGATE

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

Halves = NDArray[np.float16]

LAYER = "layer_"
"""Begins the name of a column of vectors."""


class Occurrences(NamedTuple):
    """Words at places of sentences, with their vectors."""

    words: Sequence[str]
    sentences: NDArray[np.int64]  # (occurrences,): the number of the sentence of each
    positions: NDArray[np.int32]  # (occurrences,)
    vectors: Mapping[str, Halves]  # (occurrences, size) for each layer by name


def occurrence_schema(sizes: Mapping[str, int]) -> pa.Schema:
    """The columns of the table of occurrences."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("word", pa.string()),
            pa.field("form", pa.string()),
            pa.field("sentence", pa.int64()),
            pa.field("position", pa.int32()),
            *(
                pa.field(LAYER + layer, pa.list_(pa.float16(), size))
                for layer, size in sizes.items()
            ),
        ]
    )


def sentence_schema() -> pa.Schema:
    """The columns of the table of sentences."""
    import pyarrow as pa

    return pa.schema([("sentence", pa.int64()), ("words", pa.list_(pa.string()))])


def sentence_rows(first: int, sentences: Sequence[Sequence[str]]) -> pa.Table:
    """Rows for the table of sentences."""
    import pyarrow as pa

    numbers = np.arange(first, first + len(sentences), dtype=np.int64)
    words = [list(sentence) for sentence in sentences]
    return pa.table({"sentence": numbers, "words": words}, schema=sentence_schema())


def occurrence_rows(occurrences: Occurrences, sizes: Mapping[str, int]) -> pa.Table:
    """Rows for the table of occurrences."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "word": list(occurrences.words),
        "form": [form_of(word) for word in occurrences.words],
        "sentence": occurrences.sentences,
        "position": occurrences.positions,
    }
    for layer, size in sizes.items():
        values = pa.array(np.ascontiguousarray(occurrences.vectors[layer]).ravel())
        columns[LAYER + layer] = pa.FixedSizeListArray.from_arrays(values, size)
    return pa.table(columns, schema=occurrence_schema(sizes))


def matrix_of(column: Any, size: int) -> NDArray[np.float32]:
    """A column of vectors as (rows, size)."""
    chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    values = np.concatenate(chunks) if chunks else np.empty(0, np.float16)
    return values.reshape(-1, size).astype(np.float32)


def storable(words: Sequence[str]) -> list[str]:
    """Words as UTF-8 can hold them."""
    return [LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", word) for word in words]


def form_of(word: str) -> str:
    """The form by which a word is found in any case.

    >>> form_of("Play")
    'play'
    """
    return word.lower()
