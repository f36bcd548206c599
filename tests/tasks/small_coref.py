"""Small documents of coreference that a network can learn in a moment."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tasks.small_tasks import FAST

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


def write_documents(folder: Path, part: str, count: int) -> Path:
    path = folder / f"{part}.conll"
    numbers = random.Random(part)
    path.write_text("".join(made_up(numbers) for _ in range(count)), encoding="utf-8")
    return path
