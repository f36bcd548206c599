"""Tasks with one label an example: the class of a text, or of a pair of sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.tasks.examples import Labels, PairExample, TextExample
from elmokit.tasks.inputs import Sizes
from elmokit.tasks.networks.texts import BiattentiveClassifier, PairNetwork, PooledClassifier
from elmokit.tasks.predictions import LabelPrediction
from elmokit.tasks.scores import Accuracy, score_labels
from elmokit.tasks.task import (
    AnExample,
    Given,
    Network,
    Task,
    TaskModel,
    check_has_words,
    words_of,
)
from elmokit.text.characters import short
from elmokit.text.tokenizer import Tokenizer


class LabelTask(Task[AnExample, Network, str]):
    """Tasks with one label an example: logits, cross-entropy, accuracy."""

    unit: ClassVar[str]

    @abstractmethod
    def logits(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> Tensor:
        """Scores of all classes, (examples, classes)."""

    @staticmethod
    @abstractmethod
    def label_of(example: AnExample) -> str | None:
        """The right answer, if it is known."""

    @classmethod
    def labels_of(cls, examples: Sequence[AnExample]) -> Labels:
        """Those that occur."""
        return Labels.from_examples(examples)  # type: ignore[arg-type]

    def prepare(self, examples: Sequence[AnExample]) -> list[AnExample]:
        """The same, every label being known."""
        self.expected(examples)
        return list(examples)

    def loss(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> Tensor:
        """Cross-entropy, the mean over examples."""
        logits = self.logits(model, examples)
        numbers = self.labels.numbers(self.expected(examples), "a batch")
        return functional.cross_entropy(logits, torch.tensor(numbers, device=logits.device))

    def guess(self, model: TaskModel[Network], examples: Sequence[AnExample]) -> list[str]:
        """The class of the highest score."""
        return [self.labels.names[n] for n in self.logits(model, examples).argmax(-1).tolist()]

    def predict(
        self, model: TaskModel[Network], examples: Sequence[AnExample]
    ) -> list[LabelPrediction]:
        """The most probable class, and the probabilities of all."""
        probabilities = self.logits(model, examples).cpu().double().softmax(-1)
        return [
            LabelPrediction(self.labels.names[best], dict(zip(self.labels.names, row, strict=True)))
            for best, row in zip(
                probabilities.argmax(-1).tolist(), probabilities.tolist(), strict=True
            )
        ]

    def score(self, examples: Sequence[AnExample], guesses: Sequence[str]) -> Accuracy:
        """Accuracy."""
        return score_labels(self.labels, self.expected(examples), guesses, unit=self.unit)

    def confusion(self, examples: Sequence[AnExample], guesses: Sequence[str]) -> Accuracy:
        """The same: an accuracy knows what was taken for what."""
        return self.score(examples, guesses)

    def expected(self, examples: Sequence[AnExample]) -> list[str]:
        """The right answers; an example without one, or with an unknown one, is refused."""
        names = []
        for example in examples:
            name = self.label_of(example)
            if name is None:
                raise InputError(f"{example.place}: has no label; give a file of labelled examples")
            self.labels.number(name, example.place)
            names.append(name)
        return names


class TextTask(LabelTask[TextExample, PooledClassifier | BiattentiveClassifier]):
    """A class for each text."""

    kind = "text"
    unit = "texts"

    @classmethod
    def group_of(cls, example: TextExample) -> Hashable:
        """Its words: a text that comes again would give its label away."""
        return example.words

    @staticmethod
    def label_of(example: TextExample) -> str | None:
        """Its label."""
        return example.label

    def make_network(self, sizes: Sizes) -> PooledClassifier | BiattentiveClassifier:
        """A dense layer over pooled words, or biattention."""
        network, classes = self.config.network, len(self.labels)
        if network.name == "biattentive":
            return BiattentiveClassifier(
                sizes,
                classes,
                hidden=network.hidden,
                dropout=network.dropout,
                dense=network.dense,
            )
        return PooledClassifier(
            sizes, classes, hidden=network.hidden, dropout=network.dropout, pool=network.pool
        )

    def logits(
        self,
        model: TaskModel[PooledClassifier | BiattentiveClassifier],
        examples: Sequence[TextExample],
    ) -> Tensor:
        """Scores of all classes, (texts, classes)."""
        return model.network(model.inputs([example.words for example in examples]))

    def given(self, item: Any, tokenizer: Tokenizer, place: str) -> Given:
        """A text, or its words."""
        words = words_of(item, tokenizer, place)
        check_has_words(words, place)
        return Given([TextExample(words, None, place)])


class PairTask(LabelTask[PairExample, PairNetwork]):
    """A class for each pair of sentences."""

    kind = "pair"
    unit = "pairs"

    @classmethod
    def group_of(cls, example: PairExample) -> Hashable:
        """Its first sentence: pairs that share it are seldom of one label, so it gives one away."""
        return example.first

    @staticmethod
    def label_of(example: PairExample) -> str | None:
        """Its label."""
        return example.label

    def make_network(self, sizes: Sizes) -> PairNetwork:
        """ESIM."""
        network = self.config.network
        return PairNetwork(sizes, len(self.labels), hidden=network.hidden, dropout=network.dropout)

    def logits(self, model: TaskModel[PairNetwork], examples: Sequence[PairExample]) -> Tensor:
        """Scores of all classes, (pairs, classes)."""
        first = model.inputs([example.first for example in examples])
        second = model.inputs([example.second for example in examples])
        return model.network(first, second)

    def given(self, item: Any, tokenizer: Tokenizer, place: str) -> Given:
        """Two texts, or the words of two."""
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2:
            raise InputError(f"{place}: is {short(item)}, not a pair; write (first, second)")
        first, second = (words_of(part, tokenizer, place) for part in item)
        check_has_words(first, place)
        check_has_words(second, place)
        return Given([PairExample(first, second, None, place)])
