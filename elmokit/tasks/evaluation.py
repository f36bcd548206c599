"""Examples through a trained model, batch by batch; how good its answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from elmokit.formats.fetch import Progress
from elmokit.tasks.batches import ordered_batches, size_of
from elmokit.tasks.examples import AnyExample
from elmokit.tasks.scores import Accuracy, Score
from elmokit.tasks.task import AnyTask, TaskModel

TOKENS, EXAMPLES = 8192, 256
"""The most in a batch that is only read."""

AnExample = TypeVar("AnExample", bound=AnyExample)
Answer = TypeVar("Answer")


class Evaluation(NamedTuple):
    """How good a model is on some examples."""

    score: Score
    confusion: Accuracy | None  # None for a task without labels


def evaluate(
    task: AnyTask,
    model: TaskModel[Any],
    examples: Sequence[AnyExample],
    progress: Progress | None = None,
) -> Evaluation:
    """Score prepared examples; `progress` is told how many of their words are read."""
    guesses = answers(model, examples, task.guess, progress)
    return Evaluation(task.score(examples, guesses), task.confusion(examples, guesses))


def score(task: AnyTask, model: TaskModel[Any], examples: Sequence[AnyExample]) -> Score:
    """How good the guesses for prepared examples are."""
    return task.score(examples, answers(model, examples, task.guess))


@torch.no_grad()
def answers(
    model: TaskModel[Any],
    examples: Sequence[AnExample],
    answer: Callable[[TaskModel[Any], Sequence[AnExample]], list[Answer]],
    progress: Progress | None = None,
) -> list[Answer]:
    """The answer to each example, in their order; the model is in evaluation mode for it.

    `progress` is told how many words of the examples are read: 0 when it begins.
    """
    was_training = model.training
    model.eval()
    found: dict[int, Answer] = {}
    sizes = [size_of(example) for example in examples]
    done, total = 0, sum(sizes)
    if progress is not None:
        progress(0, total)
    for batch in ordered_batches(sizes, tokens=TOKENS, most=EXAMPLES):
        found |= zip(batch, answer(model, [examples[n] for n in batch]), strict=True)
        done += sum(sizes[number] for number in batch)
        if progress is not None:
            progress(done, total)
    model.train(was_training)
    return [found[number] for number in range(len(examples))]
