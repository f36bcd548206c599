"""How alike two sentences in Korean are, without training: cosine of mean vectors, beside people.

    python -m runs.korean_sts
    python -m runs.korean_sts --model checkpoints/korean-small/model --static vectors.safetensors

Spearman's correlation with what people say, times 100, of the mean vectors of each layer, and of
static vectors. Nothing is chosen by these scores, so the dev parts are shown too; of KLUE there is
no other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.analysis.comparison import layers_of, static_row
from elmokit.bundled import KOREAN_SMALL
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.tables import table_rows
from elmokit.io.text_files import read_lines, read_text
from elmokit.static.vectors import StaticVectors, unit
from elmokit.system import import_extra
from runs.task_rows import DATA, KOREAN

Encode = Callable[[Sequence[str]], Vectors]
"""Texts to vectors (texts, size)."""


class Pairs(NamedTuple):
    """Pairs of sentences, and how alike people find them."""

    first: list[str]
    second: list[str]
    scores: list[float]


def read_sets() -> dict[str, Pairs]:
    """All sets by their names."""
    klue = json.loads(read_text(DATA / "ko-klue/klue-sts-v1.1_dev.json.gz"))
    return {
        "KorSTS dev": korsts("dev"),
        "KorSTS test": korsts("test"),
        "KLUE-STS dev": Pairs(
            [pair["sentence1"] for pair in klue],
            [pair["sentence2"] for pair in klue],
            [pair["labels"]["real-label"] for pair in klue],
        ),
    }


def korsts(part: str) -> Pairs:
    """A part of KorSTS."""
    rows = list(table_rows(read_lines(DATA / f"ko-kornlu/sts-{part}.tsv.gz"), "tsv"))
    first, second, scores = (
        [row.value(name) for row in rows] for name in ("sentence1", "sentence2", "score")
    )
    return Pairs(first, second, [float(score) for score in scores])


def correlation(encode: Encode, pairs: Pairs) -> float:
    """Spearman's correlation of cosines with people's scores, times 100."""
    first, second = (unit(encode(texts)) for texts in (pairs.first, pairs.second))
    stats = import_extra("scipy.stats", "static")
    return 100 * float(stats.spearmanr((first * second).sum(-1), pairs.scores).statistic)


def encoders(embedder: Embedder, static: StaticVectors) -> dict[str, Encode]:
    """What makes the vectors of each row of the table."""
    layers = [*range(embedder.config.layer_count), "average"]
    names = (name for name, _ in layers_of(embedder))
    ways = (partial(embedder.encode, layers=layer) for layer in layers)
    return {static_row(static): static.encode, **dict(zip(names, ways, strict=True))}


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=KOREAN_SMALL)
    parser.add_argument("--static", default=KOREAN.static, help="a file of static vectors")
    parsed = parser.parse_args(arguments)
    sets = read_sets()
    found = encoders(Embedder.load(parsed.model), StaticVectors.load(parsed.static))
    header = [f"{name} ({len(pairs.scores):,} pairs)" for name, pairs in sets.items()]
    rows = [
        [name, *(f"{correlation(encode, pairs):.1f}" for pairs in sets.values())]
        for name, encode in found.items()
    ]
    print(table(["mean of", *header], rows))
    print("\n" + command_line("runs.korean_sts", arguments))


if __name__ == "__main__":
    main()
