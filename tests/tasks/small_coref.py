"""Small documents of coreference that a network can learn in a moment."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.small_tasks import FAST, train_on

from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.run import TaskResult

SMALL: dict[str, Any] = FAST | {
    "coref.longest_span": 2,
    "coref.spans_per_word": 0.6,
    "coref.span_size": 12,
    "coref.scorer_size": 12,
    "coref.feature_size": 4,
    "coref.mention_loss": 1.0,
    "training.epochs": 8,
    "training.patience": 8,
}
NAMES, FILLING = ["Zoë Ek", "QQQ", "Bo 77"], ["sees", "it", ".", "and", "the"]
PRONOUN = {"Zoë Ek": "she", "QQQ": "XX", "Bo 77": "$$"}


def made_up(numbers: random.Random) -> str:
    """A document in which every name has a pronoun of its own."""
    lines = ["#begin document (made); part 000"]
    for chain, name in enumerate(numbers.sample(NAMES, 2)):
        for mention in (name, PRONOUN[name]):
            words = [(word, "-") for word in numbers.choices(FILLING, k=numbers.randint(0, 2))]
            first, *rest = mention.split()
            words.append((first, f"({chain}" if rest else f"({chain})"))
            words += [(word, f"{chain})") for word in rest]
            lines += [f"made\t0\t0\t{word}\tNN\t{column}" for word, column in words]
            lines.append("")
    return "\n".join([*lines, "#end document"]) + "\n"


def write_documents(folder: Path, part: str, count: int | None = None) -> Path:
    path = folder / f"{part}.conll"
    numbers = random.Random(part)
    count = count or {"train": 40}.get(part, 12)
    path.write_text("".join(made_up(numbers) for _ in range(count)), encoding="utf-8")
    return path


def coref_config(settings: Mapping[str, Any] | None = None) -> TaskConfig:
    return task_config("coref", settings=SMALL | dict(settings or {}))


def train_coref(folder: Path, settings: Mapping[str, Any] | None = None, **more: Any) -> TaskResult:
    return train_on(write_documents, coref_config(settings), folder, **more)
