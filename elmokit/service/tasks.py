"""Routes of trained tasks: what is asked becomes items, answered in batches like vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from fastapi import APIRouter, Response

from elmokit.service import schemas
from elmokit.service.batching import COST_PER_BATCH
from elmokit.service.errors import RequestError
from elmokit.service.reading import (
    LEAST_BYTES,
    check_count,
    check_most,
    check_values,
    check_words,
    find_all,
)
from elmokit.service.schemas import json_response
from elmokit.service.state import ServedTask, Service, Serving
from elmokit.tasks.examples import AnyExample, size_of
from elmokit.tasks.srl.propositions import RoleSentence, WithPredicates
from elmokit.tasks.task import ParsedInput
from elmokit.tasks.trained import TrainedTask

task_router = APIRouter(tags=["tasks"])
MOST_WORDS_OF_ROLES = 512  # in a sentence, which is read once for each predicate
MOST_WORDS_TO_FIND = 128  # where any of them may be found to be one
VALUES_OF_SPAN = 16  # numbers that would take as many bytes as a span in an answer
OF_PAIRS = ("pair", "reading")


@dataclass(frozen=True)
class Answering:
    """Sentences, pairs or documents to what a task says of them."""

    trained: TrainedTask

    def compute(self, items: Sequence[AnyExample]) -> Sequence[Any]:
        """What is said of each example."""
        return self.trained.predict_examples(items)

    def cost(self, item: AnyExample) -> int:
        """Its words, markers too; with roles once for each word that may be a predicate."""
        return most_reads(item) * sum(len(words) + 2 for words in item.sentences)


def most_reads(example: AnyExample) -> int:
    """How often its `sentences` are read at most: for each predicate that may be found."""
    found = isinstance(example, RoleSentence) and example.propositions is None
    return size_of(example) if found else 1


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
    split = [part for part in texts if not isinstance(part, str)]
    finds = [partial(task.trained.parse, each, f"{field}.{n}") for n, each in enumerate(items)]
    parsed = await find_all(service, raw, field, finds, task.trained.tokenizer, split)
    values = check_size(service, task, parsed, body.probabilities)
    examples = [example for one in parsed for example in one.examples]
    found = iter(await service.gatherer.compute(Answering(task.trained), examples, values))
    merge = task.trained.task.merge_predictions
    merged = (merge(one, list(islice(found, len(one.examples)))) for one in parsed)
    made = (prediction.to_answer(body.probabilities) for prediction in merged)
    answers = [answer async for answer in service.read_all(made)]
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
    check_most(MOST_WORDS_OF_ROLES, len(body.predicates), "words", field="predicates")
    return [WithPredicates(item, body.predicates) for item in items], given[0]


def parts_of(item: Any) -> Sequence[Any]:
    """The texts, or the lists of words, of an item."""
    if isinstance(item, WithPredicates):
        return [item.text]
    return item if isinstance(item, tuple) else [item]


def check_size(
    service: Service, task: ServedTask, parsed: Sequence[ParsedInput], probabilities: bool
) -> int:
    """Raise for more words than a batch has room for, or too long an answer; its numbers."""
    kind, labels, values = task.trained.config.kind, len(task.trained.labels), 0
    depth = {"srl": 1, "coref": task.trained.config.coref.longest_span}.get(kind)
    check_words(
        service, [words for one in parsed for each in one.examples for words in each.sentences]
    )
    for number, one in enumerate(parsed):
        where, size = f"item {number}, from 0, has ", sum(map(size_of, one.examples))
        if kind == "srl":
            longest = max((len(each.words) for each in one.examples), default=0)
            to_find = any(most_reads(each) > 1 for each in one.examples)
            most = MOST_WORDS_TO_FIND if to_find else MOST_WORDS_OF_ROLES
            check_most(most, longest, "words", where=f"{where}a sentence of ")
        check_most(COST_PER_BATCH, size, "words")
        values += most_values(one, depth) if depth else 0
        values += probabilities * labels * (size if kind == "tags" else 1)
    check_values(service, values)
    return values


def most_values(parsed: ParsedInput, depth: int) -> int:
    """How many numbers take as many bytes as spans in one another, so many at a word."""
    sizes = [
        (most_reads(each), size_of(each), sum(len(w) for words in each.sentences for w in words))
        for each in parsed.examples
    ]
    blank = max(0, len(parsed.text or "") - sum(w + c for _, w, c in sizes))
    letters = depth / LEAST_BYTES
    return round(sum(n * (VALUES_OF_SPAN * w + letters * (c + blank)) for n, w, c in sizes))
