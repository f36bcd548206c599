"""The SMS Spam Collection, split as in a well-known Keras tutorial, and the table of results."""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from benchmarks.machine import command_line, heading, mean_and_deviation
from elmokit.config import Within, checked
from elmokit.errors import FormatError

DATA = Path("../shared/data/sms-spam/spam.csv")
COLUMNS = ["v1", "v2"]
LABELS = {"ham": 0, "spam": 1}
TRAIN_SHARE = 0.8

TUTORIAL_ACCURACY = 0.9803
TUTORIAL_SECONDS = 1508


class Messages(NamedTuple):
    """Texts, and for each whether it is spam: 1 or 0."""

    texts: list[str]
    labels: list[int]


class Result(NamedTuple):
    """What one seed came to."""

    accuracy: float
    first_epoch: float  # seconds, with reading the texts
    training: float  # seconds, with loading the model


class Row(NamedTuple):
    """A line of the table."""

    name: str
    sizes: tuple[int, int]  # messages to train on and to test
    epochs: str
    results: list[Result]


def read_messages(path: Path) -> Messages:
    """The first two columns of the file, in its order; what spills over is left out."""
    with open(path, encoding="latin-1", newline="") as file:
        header, *rows = csv.reader(file)
    if header[:2] != COLUMNS:
        raise FormatError(f"{path}: has the columns {header[:2]}, not {COLUMNS}; give spam.csv")
    return Messages([row[1] for row in rows], [LABELS[row[0]] for row in rows])


def without_duplicates(messages: Messages) -> Messages:
    """The first message of each text."""
    first = dict(zip(reversed(messages.texts), reversed(messages.labels), strict=True))
    texts = list(dict.fromkeys(messages.texts))
    return Messages(texts, [first[text] for text in texts])


def split(messages: Messages) -> tuple[Messages, Messages]:
    """The first four fifths to train on, the rest to test."""
    count = len(messages.texts)
    train = int(TRAIN_SHARE * count)
    return choose(messages, range(train)), choose(messages, range(train, count))


def folds_of(train: Messages, count: int) -> list[tuple[Messages, Messages]]:
    """Each of `count` parts of the training messages once to test on, the others to train on."""
    numbers = range(len(train.texts))
    return [
        (
            choose(train, [number for number in numbers if number % count != fold]),
            choose(train, [number for number in numbers if number % count == fold]),
        )
        for fold in range(count)
    ]


def choose(messages: Messages, numbers: Sequence[int]) -> Messages:
    """Some of the messages."""
    texts, labels = messages
    return Messages([texts[number] for number in numbers], [labels[number] for number in numbers])


def parts_of(arguments: argparse.Namespace) -> list[tuple[Messages, Messages]]:
    """What to train on and what to test: the one split, or a part of the training for each fold."""
    messages = read_messages(arguments.data)
    if arguments.deduplicate:
        messages = without_duplicates(messages)
    train, test = split(messages)
    if arguments.folds is None:
        return [(train, test)]
    checked("folds", arguments.folds, Annotated[int, Within(least=2)])
    return folds_of(train, arguments.folds)


def sizes_of(parts: Sequence[tuple[Messages, Messages]]) -> tuple[int, int]:
    """How many messages are trained on and tested, in the first of the parts."""
    train, test = parts[0]
    return len(train.texts), len(test.texts)


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options that both scripts have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", type=Path, nargs="?", default=DATA, help="spam.csv")
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument(
        "--folds", type=int, help="score parts of the training messages, not the test: to choose by"
    )
    parser.add_argument(
        "--deduplicate", action="store_true", help="remove duplicates before splitting"
    )
    return parser


def print_table(script: str, arguments: Sequence[str] | None, rows: Sequence[Row]) -> None:
    """The tutorial's numbers and ours, with where they come from."""
    tutorial = Result(TUTORIAL_ACCURACY, TUTORIAL_SECONDS, TUTORIAL_SECONDS)
    names = ("train + test", "epochs", "accuracy, %", "mean ± deviation", "first epoch", "training")
    print(heading("", *names))
    for row in [Row("the tutorial, TF-Hub", (4457, 1115), "1", [tutorial]), *rows]:
        print(line_of(row))
    print("\n" + command_line(f"runs.{script}", arguments))


def line_of(row: Row) -> str:
    """A line of the table; times are means over seeds.

    >>> line_of(Row("a", (4457, 1115), "1", [Result(0.98, 20, 30), Result(0.99, 22, 32)]))
    '| a | 4,457 + 1,115 | 1 | 98.00, 99.00 | 98.50 ± 0.71 | 21.0 s | 31.0 s |'
    """
    scores = [100 * result.accuracy for result in row.results]
    first, training = (
        statistics.mean(seconds)
        for seconds in zip(*(result[1:] for result in row.results), strict=True)
    )
    return (
        f"| {row.name} | {row.sizes[0]:,} + {row.sizes[1]:,} | {row.epochs} "
        f"| {', '.join(f'{score:.2f}' for score in scores)} "
        f"| {mean_and_deviation(scores)} | {first:,.1f} s | {training:,.1f} s |"
    )
