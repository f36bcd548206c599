"""Classification tasks: the class of a text, or of a pair of sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.tasks.examples import Labels, PairExample, TextExample
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.networks.texts import BiattentiveClassifier, PairNetwork, PooledClassifier
from elmokit.tasks.scores import Accuracy, score_labels
from elmokit.tasks.task import (
    Network,
    ParsedInput,
    Prediction,
    Task,
    TaskModel,
    check_has_words,
    words_of,
)
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer

Labelled = TypeVar("Labelled", TextExample, PairExample)


@dataclass(frozen=True, slots=True)
class LabelPrediction(Prediction):
    """The class of a text or of a pair."""

    label: str
    probabilities: Mapping[str, float]
    """Of every class."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"label": self.label, "probabilities": dict(self.probabilities)}


class LabelTask(Task[Labelled, Network, str]):
    """Tasks with one label an example: logits, cross-entropy, accuracy."""

    unit: ClassVar[str]

    @abstractmethod
    def logits(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> Tensor:
        """Scores of all classes, (examples, classes)."""

    @classmethod
    def labels_of(cls, examples: Sequence[Labelled]) -> Labels:
        """Those that occur."""
        return Labels.from_examples(examples)

    def prepare(self, examples: Sequence[Labelled]) -> list[Labelled]:
        """The same, every label being known."""
        for example in examples:
            self.labels.numbers(example.labels, example.place)
        return list(examples)

    def loss(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> Tensor:
        """Cross-entropy, the mean over examples."""
        logits = self.logits(model, examples)
        numbers = self.labels.numbers(_expected(examples))
        return functional.cross_entropy(logits, torch.tensor(numbers, device=logits.device))

    def guess(self, model: TaskModel[Network], examples: Sequence[Labelled]) -> list[str]:
        """The class of the highest score."""
        return [self.labels.names[n] for n in self.logits(model, examples).argmax(-1).tolist()]

    def predict(
        self, model: TaskModel[Network], examples: Sequence[Labelled]
    ) -> list[LabelPrediction]:
        """The most probable class, and the probabilities of all."""
        probabilities = self.logits(model, examples).cpu().double().softmax(-1)
        return [
            LabelPrediction(self.labels.names[best], dict(zip(self.labels.names, row, strict=True)))
            for best, row in zip(
                probabilities.argmax(-1).tolist(), probabilities.tolist(), strict=True
            )
        ]

    def score(self, examples: Sequence[Labelled], guesses: Sequence[str]) -> Accuracy:
        """Accuracy."""
        return score_labels(self.labels, _expected(examples), guesses, unit=self.unit)

    def confusion(self, examples: Sequence[Labelled], guesses: Sequence[str]) -> Accuracy:
        """The same: an accuracy knows what was taken for what."""
        return self.score(examples, guesses)


def _expected(examples: Iterable[TextExample | PairExample]) -> list[str]:
    return [label for example in examples for label in example.labels]


class TextTask(LabelTask[TextExample, PooledClassifier | BiattentiveClassifier]):
    """A class for each text."""

    kind = "text"
    unit = "texts"

    def make_network(self, sizes: Sizes) -> PooledClassifier | BiattentiveClassifier:
        """A dense layer over pooled words, or biattention."""
        network = self.config.network
        kind = BiattentiveClassifier if network.name == "biattentive" else PooledClassifier
        return kind(sizes, len(self.labels), network)

    def logits(
        self,
        model: TaskModel[PooledClassifier | BiattentiveClassifier],
        examples: Sequence[TextExample],
    ) -> Tensor:
        """Scores of all classes, (texts, classes)."""
        return model.network(model.inputs([example.words for example in examples]))

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """A text, or its words."""
        words = words_of(item, tokenizer, place)
        check_has_words(words, place)
        return ParsedInput([TextExample(words, None, place)])


class PairTask(LabelTask[PairExample, PairNetwork]):
    """A class for each pair of sentences."""

    kind = "pair"
    unit = "pairs"

    @classmethod
    def group_of(cls, example: PairExample) -> Hashable:
        """Its first sentence: pairs that share it are seldom of one label, so it gives one away."""
        return example.first

    def make_network(self, sizes: Sizes) -> PairNetwork:
        """ESIM."""
        return PairNetwork(sizes, len(self.labels), self.config.network)

    def logits(self, model: TaskModel[PairNetwork], examples: Sequence[PairExample]) -> Tensor:
        """Scores of all classes, (pairs, classes)."""
        first = model.inputs([example.first for example in examples])
        second = model.inputs([example.second for example in examples])
        return model.network(first, second)

    def parse_input(self, item: Any, tokenizer: Tokenizer, place: str) -> ParsedInput:
        """Two texts, or the words of two."""
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise InputError(f"{place}: is {short(item)}, not a pair; write (first, second)")
        first, second = (words_of(part, tokenizer, place) for part in item)
        check_has_words(first, place)
        check_has_words(second, place)
        return ParsedInput([PairExample(first, second, None, place)])
