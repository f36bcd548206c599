"""Questions about small texts that a reader can learn in a moment."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.small_tasks import BAD, FAST, GOOD, PLAIN, train_on

from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.reading.questions import Answer, Passage, Question
from elmokit.tasks.run import TaskResult

QUICK = FAST | {"training.batch_tokens": 200, "training.epochs": 2}
LEARNING = QUICK | {
    "files.tokenizer": "whitespace",
    "training.epochs": 12,
    "network.window": 5,  # of each question one window is drawn by chance
    "network.overlap": 2,
    "network.longest_answer": 3,
}
LONG = "the a we MOTHER you it is was see 1000 go at on"


def paragraph(context: str, *questions: tuple[str, str], name: str = "q") -> dict[str, Any]:
    """A paragraph whose answers stand where they are found first."""
    return {
        "context": context,
        "qas": [
            {
                "id": f"{name}{number}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for number, (question, answer) in enumerate(questions, start=1)
        ],
    }


def write_squad(path: Path, *paragraphs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": list(paragraphs)}]}))
    return path


def write_questions(folder: Path, part: str) -> Path:
    """Texts with a sum and a person in them, and questions after both."""
    numbers = random.Random(f"squad {part}")
    made = [small_paragraph(numbers, f"{part} {n} ") for n in range({"train": 60}.get(part, 15))]
    return write_squad(folder / f"squad.{part}.json", *made)


def small_paragraph(numbers: random.Random, name: str) -> dict[str, Any]:
    money, person = numbers.choice(GOOD), numbers.choice(BAD)
    words = numbers.choices(PLAIN, k=numbers.randint(3, 9))
    for special in (money, person):
        words.insert(numbers.randint(0, len(words)), special)
    text = " ".join(words)
    return paragraph(text, ("HOW MUCH", money), ("who", person), name=name)


def reading_config(settings: Mapping[str, Any] | None = None) -> TaskConfig:
    return task_config("squad", settings=LEARNING | dict(settings or {}))


def train_reader(
    folder: Path, settings: Mapping[str, Any] | None = None, **more: Any
) -> TaskResult:
    return train_on(write_questions, reading_config(settings), folder, **more)


def passage(
    *sentences: str, answers: Sequence[tuple[int, int]] = ((0, 1),), place: str = "here"
) -> Passage:
    """A text of sentences with one question, whose answers are spans of words."""
    context = tuple(tuple(sentence.split()) for sentence in sentences)
    words = [word for sentence in context for word in sentence]
    starts = [len(" ".join([*words[:n], ""])) for n in range(len(words))]
    offsets = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True))
    right = tuple(Answer(" ".join(words[first:end]), first, end) for first, end in answers)
    question = Question("q1", ("who", "?"), right)
    return Passage(" ".join(words), context, offsets, (question,), place)
