"""Small inputs of bulk embedding, and runs of them that may crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from helpers import read_vectors, write
from small_models import small_embedder

from elmokit.bulk.compute import Summary
from elmokit.bulk.inputs import open_input
from elmokit.bulk.parts import Part, PartStore
from elmokit.bulk.pipeline import VectorSettings, embed_files
from elmokit.io.text_files import TextSettings
from elmokit.jobs.run_folder import RunFolder

FORMATS = [".h5", ".npz", ".jsonl", ".parquet"]
WORDS = ["the", "a", "bank", "river", "play", "of", "light", "spring", "crane", "한국어", "naïve"]


def some_lines(count: int, blank: float = 0.1) -> list[str]:
    """Sentences of up to nine words, some of them blank, some twice."""
    draw = random.Random(0)
    lines: list[str] = []
    for _ in range(count):
        if lines and draw.random() < 0.2:
            lines.append(draw.choice(lines))
        else:
            length = 0 if draw.random() < blank else draw.randint(1, 9)
            lines.append(" ".join(draw.choices(WORDS, k=length)))
    return lines


def write_text(folder: Path, lines: list[str]) -> Path:
    return write(folder / "text.txt", lines)


def sentences_of(text: Path) -> list[list[str]]:
    return [line.split() for line in text.read_text(encoding="utf-8").split("\n")[:-1]]


def embed(
    text: Path,
    output: Path,
    settings: VectorSettings | None = None,
    *,
    seed: int = 0,
    state: Any = "zero",
    inputs: TextSettings | None = None,
    **arguments: Any,
) -> Summary:
    embedder, source = (
        small_embedder(seed, state=state),
        open_input([text], inputs or TextSettings()),
    )
    return embed_files(embedder, source, output, settings, **arguments)


class Crash(Exception):
    """Stands for a power cut."""


def crash(text: Path, output: Path, number: int = 1, after: bool = True, **arguments: Any) -> None:
    """Embed, and fail at a part, before or after it is written."""
    add = PartStore.add

    def failing(self: PartStore, part: Part, *others: Any) -> None:
        if part.number == number and not after:
            raise Crash
        add(self, part, *others)
        if part.number == number:
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartStore, "add", failing)
        with pytest.raises(Crash):
            embed(text, output, **arguments)


def contents(path: Path) -> list[tuple[str | None, bytes]]:
    return [(item.sentence, item.vectors.tobytes()) for item in read_vectors(path)]


def parts_of(output: Path) -> Path:
    return RunFolder.beside(output).folder
