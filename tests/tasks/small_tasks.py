"""Small tasks in a folder: files that a network can learn in a moment, and a random biLM."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from closeness import assert_close
from helpers import Heard
from safetensors.torch import load_file
from small_models import small_bilm

from elmokit import BiLM, Embedder
from elmokit.config import CharacterEncoderConfig
from elmokit.formats.native import SavedModel, write_model
from elmokit.tasks.catalogue import task_config
from elmokit.tasks.config import InputConfig, TaskConfig
from elmokit.tasks.inputs import CharacterFeatures, StaticLookup, TaskInputs
from elmokit.tasks.run import TaskResult, train_task
from elmokit.tasks.task import AnyTask, Prediction, TaskModel

NAMES = {"spam": "csv", "sst": "txt", "ner": "conll", "pos": "conllu", "nli": "tsv"}
"""The tasks, and the suffix of the files that they learn from here."""
FAST: dict[str, Any] = {
    "network.hidden": 12,
    "network.dropout": 0.0,
    "inputs.elmo_dropout": 0.1,
    "inputs.dropout": 0.0,
    "inputs.characters": False,
    "training.batch_tokens": 40,
    "training.learning_rate": 0.01,
    "training.rate_factor": 1.0,
    "training.epochs": 10,
    "training.patience": 10,
}
PLAIN = ["the", "a", "we", "you", "it", "is", "was", "see", "go", "at", "on"]
# Far apart in their characters, since a random model knows of nothing else.
ONE_EPOCH = {"training.epochs": 1}
GOOD, BAD = ["$$$", "1000", "!!!!", "777$"], ["MOTHER", "WWW", "BOO", "MOOD"]
PEOPLE, PLACES = ["Jim Lee", "Ann", "Bo Ek"], ["Oslo", "New York", "Rome"]
VERBS, NOUNS = ["runs", "eats", "sits"], ["dog", "cat", "boy"]


ENCODER = CharacterEncoderConfig(filters=((1, 8), (2, 16), (3, 16)), character_size=8, highways=0)


def lively_bilm(seed: int = 0) -> BiLM:
    """A random model whose words differ as much as those of a trained one."""
    bilm = small_bilm(seed, scale=3.0, encoder=ENCODER, token_size=24, cell_size=24)
    with torch.no_grad():
        for weight in bilm.encoder.parameters():
            weight.mul_(3.0)
    return bilm


def embedder(seed: int = 0) -> Embedder:
    return Embedder(lively_bilm(seed), tokenizer="default")


def write_bilm(folder: Path, seed: int = 0) -> Path:
    bilm = lively_bilm(seed)
    write_model(folder, SavedModel(bilm.config, bilm.state_dict(), "default"))
    return folder


def config(name: str, settings: Mapping[str, Any] | None = None) -> TaskConfig:
    return task_config(name, settings=FAST | dict(settings or {}))


def train(
    folder: Path, name: str, settings: Mapping[str, Any] | None = None, **arguments: Any
) -> TaskResult:
    """Train a task in `folder`, into `folder/name`, on files that are made there first."""

    def write_part(folder: Path, part: str) -> Path:
        return write_examples(folder, name, part)

    return train_on(write_part, config(name, settings), folder, **arguments)


def train_on(
    write_part: Callable[[Path, str], Path], config: TaskConfig, folder: Path, **arguments: Any
) -> TaskResult:
    """Train in `folder`, into a folder of the task's name, on files that are written there."""
    files = {part: write_part(folder, part) for part in ("train", "dev")}
    if "bilm" not in arguments:  # to make one is to draw random numbers
        arguments["bilm"] = embedder()
    arguments = files | arguments
    return train_task(config, arguments.pop("output", folder / config.name), **arguments)


def write_examples(folder: Path, name: str, part: str, count: int | None = None) -> Path:
    path = folder / f"{name}.{part}.{NAMES[name]}"
    numbers = random.Random(f"{name} {part}")
    count = count or {"train": 60, "dev": 30, "test": 20}[part]
    rows = [WRITERS[name](numbers) for _ in range(count)]
    if name == "spam":
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("label", "text"), *rows])
    elif name == "nli":
        lines = ["label\tpremise\thypothesis", *map("\t".join, rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        path.write_text("".join(rows), encoding="utf-8")
    return path


def spam(numbers: random.Random) -> tuple[str, str]:
    label = numbers.choice(["ham", "spam", "ham"])
    words = numbers.choices(PLAIN, k=numbers.randint(1, 5))
    words.insert(numbers.randint(0, len(words)), numbers.choice(GOOD if label == "spam" else BAD))
    return label, " ".join(words) + "."


def sst(numbers: random.Random) -> str:
    label = numbers.randint(0, 2)
    word = numbers.choice([BAD, PLAIN, GOOD][label])
    filling = numbers.choice(PLAIN)
    return f"({label} (1 {filling}) ({label} ({label} {word}) (1 .)))\n"


def ner(numbers: random.Random) -> str:
    """In IOB1, as the files of CoNLL-2003."""
    lines = []
    for kind, names in numbers.sample([("PER", PEOPLE), ("LOC", PLACES)], k=numbers.randint(1, 2)):
        lines += [f"{word} O" for word in numbers.choices(PLAIN, k=numbers.randint(1, 3))]
        lines += [f"{word} I-{kind}" for word in numbers.choice(names).split()]
    return "\n".join([*lines, ". O"]) + "\n\n"


def pos(numbers: random.Random) -> str:
    words = [("the", "DET"), (numbers.choice(NOUNS), "NOUN"), (numbers.choice(VERBS), "VERB")]
    if numbers.random() < 0.5:
        words += [("a", "DET"), (numbers.choice(NOUNS), "NOUN")]
    rest = "\t_" * 6
    rows = (f"{n}\t{word}\t_\t{tag}{rest}" for n, (word, tag) in enumerate(words, start=1))
    return "\n".join(rows) + "\n\n"


def nli(numbers: random.Random) -> tuple[str, str, str]:
    noun, verb = numbers.choice(NOUNS), numbers.choice(VERBS)
    label = numbers.choice(["entailment", "contradiction"])
    denied = "!NOT! " if label == "contradiction" else ""
    return label, f"the {noun} {verb} now", f"a {noun} {denied}{verb}"


WRITERS: dict[str, Any] = {"spam": spam, "sst": sst, "ner": ner, "pos": pos, "nli": nli}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Those of a trained task."""
    return load_file(folder / "weights.safetensors")


def plain_values(value: Any) -> Iterator[Any]:
    """The keys and values in nested dictionaries and lists, one after another."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from plain_values(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from plain_values(each)
    else:
        yield value


def assert_same_predictions(found: Sequence[Prediction], expected: Sequence[Prediction]) -> None:
    """The same words and places, and probabilities that are close."""
    one, other = (
        list(plain_values([each.to_dict() for each in some])) for some in (found, expected)
    )
    assert [v for v in one if type(v) is not float] == [v for v in other if type(v) is not float]
    assert_close([v for v in one if type(v) is float], [v for v in other if type(v) is float])


class Interrupting(Heard):
    """Does something in an epoch, after a batch, as a signal or a crash would."""

    def __init__(self, epoch: int, batch: int, action: Callable[[], object]) -> None:
        super().__init__(self._act)
        self.when = epoch, batch
        self.action = action

    def _act(self, heard: Heard) -> None:
        epochs = [math.ceil(values["epoch"]) for values in self.measured]
        if epochs and (epochs[-1], epochs.count(epochs[-1])) == self.when:
            self.action()


def untrained(task: AnyTask) -> TaskModel[Any]:
    """A task's network on features of characters alone, with the same random weights each time."""
    torch.manual_seed(0)
    inputs = of_characters()
    return TaskModel(inputs, task.make_network(inputs.sizes)).eval()


def of_characters(filters: int = 6, static: StaticLookup | None = None) -> TaskInputs:
    """Inputs of a network that knows few features of characters, and maybe static vectors."""
    config = InputConfig(elmo="none", characters=True)
    return TaskInputs(config, static=static, characters=CharacterFeatures(filters=filters))
