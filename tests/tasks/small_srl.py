"""Sentences with semantic roles that a network can learn in a moment."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.small_tasks import BAD, FAST, PLAIN, train_on

from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.run import TaskResult
from elmokit.tasks.srl.propositions import Proposition, RoleSentence
from elmokit.tasks.tags import spans

LEARNING = FAST | {
    "network.layers": 2,
    "training.batch_tokens": 20,
    "training.epochs": 6,
    "training.patience": 6,
    "training.learning_rate": 0.02,
}
SUMS = {"1000": "ARG1", "777": "ARG2"}
"""Predicates, and the role of the word that stands after them."""


def sentence(words: str, *columns: tuple[int, str], place: str = "here, line 1") -> RoleSentence:
    """A sentence; of each predicate its number, and the BIO tags of all words."""
    propositions = (Proposition(word, tuple(spans(tags.split()))) for word, tags in columns)
    return RoleSentence(tuple(words.split()), tuple(propositions), place)


def propbank(words: Sequence[str], columns: Sequence[tuple[int, Sequence[str]]]) -> str:
    """A sentence as a PropBank file has it; of each predicate its number and its brackets."""
    predicates = {word for word, _ in columns}
    rows = []
    for number, word in enumerate(words):
        roleset = f"{word.lower()}.01" if number in predicates else "-"
        brackets = (column[number] for _, column in columns)
        rows.append("\t".join([str(number), word, "X", "-", roleset, *brackets]))
    return "\n".join(rows) + "\n\n"


def write_roles(folder: Path, part: str) -> Path:
    numbers = random.Random(f"srl {part}")
    count = {"train": 60}.get(part, 15)
    path = folder / f"srl.{part}.tsv"
    text = "".join(f"# sent_id = {n}\n{small_sentence(numbers)}" for n in range(count))
    path.write_text(text, encoding="utf-8")
    return path


def small_sentence(numbers: random.Random) -> str:
    """Whoever stands before a sum has it, another stands after it; some sentences have no sum."""
    before = numbers.choices(PLAIN, k=numbers.randint(1, 2))
    after = numbers.choices(PLAIN, k=numbers.randint(0, 2))
    if numbers.random() < 0.2:
        return propbank([*before, *after], [])
    money = numbers.choice(list(SUMS))
    words = [*before, money, numbers.choice(BAD), *after]
    at = len(before)
    owner = ["(ARG0*)"] if at == 1 else ["(ARG0*", "*)"]
    brackets = [*owner, "(V*)", f"({SUMS[money]}*)", *["*"] * len(after)]
    return propbank(words, [(at, brackets)])


def srl_config(settings: Mapping[str, Any] | None = None) -> TaskConfig:
    return task_config("srl", settings=LEARNING | dict(settings or {}))


def train_srl(folder: Path, settings: Mapping[str, Any] | None = None, **more: Any) -> TaskResult:
    return train_on(write_roles, srl_config(settings), folder, **more)
