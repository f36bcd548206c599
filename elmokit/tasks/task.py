"""What a kind of task is: how it reads examples, what network learns it, how it is scored.

The training loop, saved tasks and the command line know of `Task` alone: another kind is another
class of it, and a line in `kinds.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.system import counted
from elmokit.tasks.config import FilesConfig, Kind, TaskConfig
from elmokit.tasks.examples import AnyExample, Labels, Offsets, Words, is_word
from elmokit.tasks.files.examples import after_training, format_of, read_examples
from elmokit.tasks.inputs import Sizes, TaskInputs
from elmokit.tasks.predictions import Prediction
from elmokit.tasks.scores import Accuracy, Score
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

Network = TypeVar("Network", bound=nn.Module)
AnExample = TypeVar("AnExample", bound=AnyExample)
Guess = TypeVar("Guess")


class TaskModel(nn.Module, Generic[Network]):
    """All that a task learns: its inputs, mixes included, and its network."""

    def __init__(self, inputs: TaskInputs, network: Network) -> None:
        super().__init__()
        self.inputs = inputs
        self.network = network


class Given(NamedTuple):
    """What somebody wants a prediction for, as examples."""

    examples: list[Any]
    text: str | None = None  # the raw text, where it was one
    offsets: tuple[Offsets, ...] = ()  # of the words in the raw text


class Task(ABC, Generic[AnExample, Network, Guess]):
    """A task with its settings and its labels.

    Args:
        config: Its settings.
        labels: Its classes or tags, as the network knows them; empty for a task without.
    """

    kind: ClassVar[Kind]

    def __init__(self, config: TaskConfig, labels: Labels) -> None:
        self.config = config
        self.labels = labels

    def labels_said(self) -> str:
        """How many labels there are, for people."""
        return counted(len(self.labels), "label")

    @classmethod
    def read(cls, path: str | Path, files: FilesConfig, tokenizer: Tokenizer) -> list[AnExample]:
        """The examples of a file, as they are there."""
        examples: Sequence[Any] = read_examples(
            cls.kind,
            path,
            files,
            tokenize=lambda text: [token.text for token in tokenizer.words(text)],
        )
        return list(examples)

    def read_after_training(
        self, path: str | Path, files: FilesConfig, tokenizer: Tokenizer
    ) -> list[AnExample]:
        """What `read` gives, of a file that may have another format than the training files."""
        reading = after_training(self.kind, path, files, self.config.files)
        return self.read(path, reading, tokenizer)

    @classmethod
    def reads_phrases(cls, path: str | Path, files: FilesConfig) -> bool:
        """Whether a file is one whose phrases are examples, if they are asked for."""
        return files.phrases and format_of(cls.kind, path, files.format) == "trees"

    @classmethod
    @abstractmethod
    def labels_of(cls, examples: Sequence[AnExample]) -> Labels:
        """The labels that a network trained on examples knows."""

    @classmethod
    def group_of(cls, example: AnExample) -> Hashable | None:
        """What examples share that are held out together or not at all; None for one by itself."""
        del example
        return None

    @abstractmethod
    def prepare(self, examples: Sequence[AnExample]) -> list[AnExample]:
        """Labelled examples as the network knows them; unknown labels are refused."""

    def for_training(self, examples: Sequence[AnExample]) -> list[AnExample]:
        """Prepared examples as they are trained on: long ones may be cut."""
        return list(examples)

    @abstractmethod
    def make_network(self, sizes: Sizes) -> Network:
        """A new network, random by torch's generator."""

    @abstractmethod
    def loss(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> Tensor:
        """What is minimised, of a batch of prepared examples: a scalar."""

    @abstractmethod
    def guess(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> list[Guess]:
        """The best answer to each example, for scoring."""

    @abstractmethod
    def predict(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> list[Any]:
        """The answer to each example, with probabilities."""

    def answered(
        self, examples: Sequence[AnExample], answers: Callable[[Sequence[AnExample]], list[Any]]
    ) -> list[Any]:
        """What `answers` gives for examples; a task may have it read less than all of them."""
        return answers(examples)

    @abstractmethod
    def score(self, examples: Sequence[AnExample], guesses: Sequence[Guess]) -> Score:
        """How good guesses are."""

    def confusion(self, examples: Sequence[AnExample], guesses: Sequence[Guess]) -> Accuracy | None:
        """What was taken for what; None for a task without labels."""
        del examples, guesses
        return None

    @abstractmethod
    def given(self, item: Any, tokenizer: Tokenizer, place: str) -> Given:
        """Examples of what somebody wants a prediction for; `place` names it in errors."""

    def joined(self, given: Given, predictions: Sequence[Any]) -> Prediction:
        """The prediction for what was given, out of those of its examples."""
        del given
        [prediction] = predictions
        return prediction


AnyTask = Task[Any, Any, Any]


def words_of(item: Any, tokenizer: Tokenizer, place: str) -> Words:
    """The words of a text, or those given."""
    if isinstance(item, str):
        return tuple(token.text for token in tokenizer.words(item))
    if not isinstance(item, Sequence) or not all(isinstance(word, str) for word in item):
        raise InputError(f"{place}: is {short(item)}; give a text, or a list of words")
    check_words(item, place)
    return tuple(item)


def check_words(words: Sequence[str], place: str) -> None:
    """Refuse words that are blank, as readers of examples do."""
    for number, word in enumerate(words):
        if not is_word(word):
            raise InputError(f"{place}: word {number}, from 0, is blank ({word!r}); leave it out")


def check_has_words(words: Words, place: str) -> None:
    """Refuse what no class can be told of."""
    if not words:
        raise InputError(f"{place}: has no words, so nothing can be said of it; leave it out")
