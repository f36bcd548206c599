"""Routes of trained tasks: what is asked becomes items, answered in batches like vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from elmokit.service import schemas
from elmokit.service.batching import COST_PER_BATCH
from elmokit.service.middleware import RequestError
from elmokit.service.routes import (
    Serving,
    check_characters,
    check_count,
    check_most,
    check_values,
    check_words,
)
from elmokit.service.schemas import json_response
from elmokit.service.state import ServedTask, Service
from elmokit.tasks.examples import size_of
from elmokit.tasks.srl.propositions import WithPredicates
from elmokit.tasks.task import ParsedInput, Prediction
from elmokit.tasks.trained import TrainedTask

task_router = APIRouter(tags=["tasks"])
MOST_WORDS_OF_ROLES = 512
"""In a sentence: every word may be a predicate, and the sentence is read once for each."""
WORDS_PER_PREDICATE = 8  # about so many are there for each predicate that is to be found
OF_PAIRS = ("pair", "reading")


@dataclass(frozen=True)
class Answering:
    """Parsed texts, words or pairs to the answers of a task."""

    trained: TrainedTask

    def compute(self, items: Sequence[ParsedInput]) -> Sequence[Prediction]:
        """A prediction for each item."""
        return list(self.trained.predict_parsed(items))

    def cost(self, item: ParsedInput) -> int:
        """Its words, markers too; with roles once for each predicate, given or expected."""
        if self.trained.config.kind != "srl":
            return sum(len(words) + 2 for each in item.examples for words in each.sentences)
        return sum(
            (len(each.words) + 2)
            * max(len(each.predicates), len(each.words) // WORDS_PER_PREDICATE)
            for each in item.examples
        )


@task_router.get("/tasks", response_model=schemas.TaskList)
async def list_tasks(service: Serving) -> Response:
    """The trained tasks: their labels, and how good they were on dev and test."""
    tasks = service.model.tasks.items()
    return json_response({"tasks": [{"name": name, **task.facts} for name, task in tasks]})


@task_router.post("/tasks/{name}", response_model=schemas.TaskAnswers)
async def ask_task(service: Serving, name: str, body: schemas.TaskBody) -> Response:
    """Answers of a trained task: labels, spans with their places in the text."""
    task = task_of(service, name)
    items, field = items_of(task, body)
    check_count(service, len(items), field)
    texts = [part for item in items for part in parts_of(item)]
    raw = [text for text in texts if isinstance(text, str)]
    check_characters(service, raw, field)
    kind = Answering(task.trained)
    parsed = await service.read(partial(parse, kind, items, field))
    check_size(service, task, parsed, body.probabilities)
    found = await service.gatherer.compute(kind, parsed)
    answers = [prediction.to_answer(body.probabilities) for prediction in found]
    return json_response({"task": name, "answers": answers})


def task_of(service: Service, name: str) -> ServedTask:
    """The task of a name."""
    tasks = service.model.tasks
    if name not in tasks:
        names = ", ".join(tasks)
        problem = f"those that are: {names}" if tasks else "start with --task FOLDER"
        raise RequestError("task_not_found", f"there is no such task here; {problem}", names=names)
    return tasks[name]


def items_of(task: ServedTask, body: schemas.TaskBody) -> tuple[list[Any], str]:
    """What is asked about, as `TrainedTask.predict` takes it, and the field that has it."""
    config = task.trained.config
    wanted = ("pairs",) if config.kind in OF_PAIRS else ("texts", "sentences")
    given = [name for name in ("texts", "sentences", "pairs") if getattr(body, name) is not None]
    if len(given) != 1 or given[0] not in wanted:
        problem = f"the task {config.name} is asked about one of: {', '.join(wanted)}; send that"
        raise RequestError("wrong_fields", problem)
    items: list[Any] = list(map(tuple, body.pairs or ())) or list(getattr(body, given[0]))
    if body.predicates is None:
        return items, given[0]
    if config.kind != "srl":
        problem = f"the task {config.name} knows no predicates; leave them out"
        raise RequestError("wrong_fields", problem, parameter="predicates")
    return [WithPredicates(item, body.predicates) for item in items], given[0]


def parts_of(item: Any) -> Sequence[Any]:
    """The texts, or the lists of words, of an item."""
    if isinstance(item, WithPredicates):
        return [item.text]
    return item if isinstance(item, tuple) else [item]


def parse(kind: Answering, items: Sequence[Any], field: str) -> list[ParsedInput]:
    """Items as sentences of words; an error names the item."""
    return [kind.trained.parse(item, f"{field}.{number}") for number, item in enumerate(items)]


def check_size(
    service: Service, task: ServedTask, parsed: Sequence[ParsedInput], probabilities: bool
) -> None:
    """Raise for more words than a batch has room for, or too long an answer."""
    kind = task.trained.config.kind
    check_words(
        service, [words for one in parsed for each in one.examples for words in each.sentences]
    )
    for number, one in enumerate(parsed):
        where = f"item {number}, from 0, has "
        if kind == "srl":
            longest = max((len(each.words) for each in one.examples), default=0)
            check_most(MOST_WORDS_OF_ROLES, longest, "words", where=f"{where}a sentence of ")
        check_most(COST_PER_BATCH, sum(map(size_of, one.examples)), "words")
    if probabilities:
        rows = sum(size_of(each) for one in parsed for each in one.examples)
        rows = rows if kind == "tags" else len(parsed)
        check_values(service, rows * len(task.trained.labels))
