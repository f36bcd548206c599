"""Multinomial logistic regression: as little as can be learnt on top of a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from elmokit.analysis.probes.stages import Progress
from elmokit.config import check_size
from elmokit.errors import ConfigError

Labels = NDArray[np.int64]
AnyVectors = NDArray[np.floating[Any]]

UNKNOWN = -1
"""The number of a label that was not learnt: no answer equals it."""
LEAST_DEVIATION = 1e-6
ROWS_AT_ONCE = 1 << 13
"""Vectors that are in single precision at a time."""


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is trained; the same for every layer.

    Attributes:
        l2: The penalty is so much times half the squares of the weights.
        learning_rate: Of Adam; halved after an epoch that is no better on the dev set.
        words_per_batch: Words of a step.
        epochs: The most readings of the training set.
        patience: Epochs in a row that may be no better, before it ends.
        seed: Of the order of the words.
    """

    l2: float = 1e-5
    learning_rate: float = 5e-3
    words_per_batch: int = 256
    epochs: int = 50
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("words_per_batch", "epochs", "patience"):
            check_size(name, getattr(self, name))
        if not self.l2 >= 0:
            raise ConfigError(f"l2 is {self.l2}; give a number from 0 on")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}; give a number above 0")


class Scale:
    """Brings each value of vectors to mean 0 and deviation 1, as it is in some of them.

    Layers differ in scale: made alike, the same settings are fair to each.
    """

    def __init__(self, vectors: AnyVectors) -> None:
        count = len(vectors)
        blocks = [vectors[at : at + ROWS_AT_ONCE] for at in range(0, count, ROWS_AT_ONCE)]
        mean = sum(block.sum(0, dtype=np.float64) for block in blocks) / count
        squares = sum(((block - mean) ** 2).sum(0) for block in blocks) / count
        self.mean = torch.tensor(mean, dtype=torch.float32)
        self.deviation = torch.tensor(np.sqrt(squares), dtype=torch.float32)
        self.deviation.clamp_(min=LEAST_DEVIATION)

    def __call__(self, vectors: Tensor) -> Tensor:
        """Bring vectors (words, size) to the scale."""
        return (vectors.float() - self.mean) / self.deviation


@dataclass(frozen=True)
class LinearClassifier:
    """Weights (size, classes) and biases (classes,) above scaled vectors."""

    scale: Scale
    weights: Tensor
    biases: Tensor
    epochs: int
    """How many readings it was trained for, up to the one that was best."""

    @torch.inference_mode()
    def classify(self, vectors: AnyVectors) -> Labels:
        """The most likely class of each vector (words, size)."""
        blocks = torch.split(torch.from_numpy(vectors), ROWS_AT_ONCE)
        found = [(self.scale(one) @ self.weights + self.biases).argmax(1) for one in blocks]
        return torch.cat(found).numpy()

    @torch.inference_mode()
    def loss(self, vectors: AnyVectors, labels: Labels) -> float:
        """The mean of -log p over vectors (words, size) whose class was learnt."""
        total = 0.0
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            logits = self.scale(torch.from_numpy(vectors[block])) @ self.weights + self.biases
            wanted = torch.from_numpy(labels[block])
            total += float(cross_entropy(logits, wanted, ignore_index=UNKNOWN, reduction="sum"))
        return total / max(int((labels != UNKNOWN).sum()), 1)

    def accuracy(self, vectors: AnyVectors, labels: Labels) -> float:
        """The share of vectors (words, size) whose class is right."""
        return float((self.classify(vectors) == labels).mean())


class _Trainee:
    """A classifier that is being trained; it begins with zeros."""

    def __init__(self, scale: Scale, classes: int, settings: ClassifierSettings) -> None:
        self.scale = scale
        self.settings = settings
        self.weights = torch.zeros(len(scale.mean), classes, requires_grad=True)
        self.biases = torch.zeros(classes, requires_grad=True)
        groups: list[dict[str, Any]] = [
            {"params": [self.weights], "weight_decay": settings.l2},
            {"params": [self.biases]},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=settings.learning_rate)

    def read(self, vectors: Tensor, labels: Tensor, order: Tensor) -> None:
        """Learn from vectors (words, size) and labels (words,), in an order (words,)."""
        for batch in torch.split(order, self.settings.words_per_batch):
            logits = self.scale(vectors[batch]) @ self.weights + self.biases
            self.optimizer.zero_grad()
            cross_entropy(logits, labels[batch]).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def slow_down(self) -> None:
        """Halve the learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] /= 2

    def as_it_is(self, epochs: int) -> LinearClassifier:
        """The classifier after so many epochs."""
        weights, biases = (one.detach().clone() for one in (self.weights, self.biases))
        return LinearClassifier(self.scale, weights, biases, epochs)


def train_classifier(
    train: tuple[AnyVectors, Labels],
    dev: tuple[AnyVectors, Labels],
    classes: int,
    settings: ClassifierSettings,
    progress: Progress | None = None,
) -> LinearClassifier:
    """Train on vectors (words, size) and labels (words,); keep what has the lowest loss on `dev`.

    Trained twice, it is the same.
    """
    vectors, labels = map(torch.from_numpy, train)
    trainee = _Trainee(Scale(train[0]), classes, settings)
    generator = torch.Generator().manual_seed(settings.seed)
    best = trainee.as_it_is(0)
    lowest, worse = best.loss(*dev), 0
    for epoch in range(1, settings.epochs + 1):
        trainee.read(vectors, labels, torch.randperm(len(vectors), generator=generator))
        found = trainee.as_it_is(epoch)
        loss = found.loss(*dev)
        if loss < lowest:
            best, lowest, worse = found, loss, 0
        else:
            worse += 1
            trainee.slow_down()
        if progress is not None:
            progress(epoch, settings.epochs)
        if worse == settings.patience:
            break
    return best
