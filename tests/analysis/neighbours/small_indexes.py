"""Small corpora and indexes of their occurrences, for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from small_models import small_embedder

from elmokit import Embedder
from elmokit.analysis.neighbours.build import BuildSummary, IndexSettings, build_index
from elmokit.bulk.inputs import open_input
from elmokit.io.text_files import TextSettings

WORDS = ["the", "a", "bank", "river", "play", "of", "light", "spring", "Crane", "한국어", "o'clock"]
EVERY_LAYER = IndexSettings(layers="all")


class Row(NamedTuple):
    """An occurrence as the tables have it."""

    sentence: tuple[str, ...]
    position: int
    word: str
    form: str


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    """Different sentences of two to nine words; the last word of each is its number."""
    draw = random.Random(seed)
    return [[*draw.choices(WORDS, k=draw.randint(1, 8)), f"n{number}"] for number in range(count)]


def write_corpus(path: Path, lines: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join(f"{' '.join(line)}\n" for line in lines), encoding="utf-8")
    return path


def built(
    folder: Path,
    lines: Sequence[Sequence[str]],
    settings: IndexSettings = EVERY_LAYER,
    embedder: Embedder | None = None,
    **changes: Any,
) -> BuildSummary:
    """Build `folder/index` of `folder/corpus.txt`, which is written if it is not there."""
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_corpus(corpus, lines)
    source = open_input([str(corpus)], TextSettings())
    return build_index(embedder or small_embedder(), source, folder / "index", settings, **changes)


def rows_of(index: Path) -> list[Row]:
    """All occurrences of an index, in order of their sentences."""
    import lancedb

    database = lancedb.connect(index)
    texts = database.open_table("sentences").to_arrow().to_pylist()
    words = {row["sentence"]: tuple(row["words"]) for row in texts}
    assert len(words) == len(texts)
    occurrences = database.open_table("occurrences").to_arrow()
    columns = occurrences.select(["sentence", "position", "word", "form"]).to_pylist()
    return sorted(
        Row(words[row["sentence"]], row["position"], row["word"], row["form"]) for row in columns
    )


def rows_expected(lines: Sequence[Sequence[str]]) -> list[Row]:
    """What an index of all words of these sentences holds."""
    distinct = dict.fromkeys(map(tuple, lines))
    return sorted(
        Row(line, position, word, word.lower())
        for line in distinct
        for position, word in enumerate(line)
    )


def vectors_of(index: Path, layer: str) -> dict[tuple[tuple[str, ...], int], np.ndarray]:
    """The vector of each occurrence, by its sentence and position."""
    import lancedb

    database = lancedb.connect(index)
    texts = database.open_table("sentences").to_arrow().to_pylist()
    words = {row["sentence"]: tuple(row["words"]) for row in texts}
    rows = database.open_table("occurrences").to_arrow().to_pylist()
    return {
        (words[row["sentence"]], row["position"]): np.array(row[f"layer_{layer}"], np.float32)
        for row in rows
    }
