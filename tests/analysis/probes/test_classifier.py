from __future__ import annotations

import numpy as np
import pytest

from elmokit.analysis.probes.classifier import UNKNOWN, ClassifierSettings, Scale, train_classifier
from elmokit.errors import ElmoError

Labelled = tuple[np.ndarray, np.ndarray]


def problem(words: int, seed: int, scale: float = 1.0) -> Labelled:
    """Three classes that are linear in the vectors, whatever their scale."""
    vectors = np.random.default_rng(seed).standard_normal((words, 5))
    return (scale * vectors + 3).astype(np.float16), vectors[:, :3].argmax(1)


@pytest.mark.parametrize("scale", [0.05, 50.0])
def test_what_is_linear_is_learnt_whatever_its_scale(scale):
    train, dev, test = (problem(800, seed, scale) for seed in range(3))
    classifier = train_classifier(train, dev, 3, ClassifierSettings(learning_rate=0.05))
    assert classifier.accuracy(*test) > 0.95


def test_trained_twice_it_is_the_same():
    train, dev = problem(300, 0), problem(100, 1)
    first, second = (train_classifier(train, dev, 3, ClassifierSettings()) for _ in range(2))
    assert (first.weights == second.weights).all()


def test_it_ends_when_the_dev_set_gets_no_better():
    train, (vectors, labels) = problem(300, 0), problem(100, 1)
    told = []
    unlearnt = (vectors, np.full_like(labels, UNKNOWN))
    settings = ClassifierSettings(patience=2)
    classifier = train_classifier(train, unlearnt, 3, settings, lambda *one: told.append(one))
    assert told == [(1, 50), (2, 50)]
    assert classifier.epochs == 0


def test_the_penalty_keeps_weights_small():
    train, dev = problem(300, 0), problem(100, 1)
    sizes = [
        float(train_classifier(train, dev, 3, ClassifierSettings(l2=l2)).weights.norm())
        for l2 in (0.0, 1.0)
    ]
    assert sizes[1] < sizes[0] / 2


def test_a_value_that_never_changes_is_no_division_by_zero():
    vectors = np.ones((4, 2), np.float16)
    assert Scale(vectors)(Scale(vectors).mean[None]).tolist() == [[0, 0]]


@pytest.mark.parametrize("bad", [{"l2": -1}, {"learning_rate": 0}, {"epochs": 0}])
def test_settings_that_cannot_work_are_refused(bad):
    with pytest.raises(ElmoError, match=next(iter(bad))):
        ClassifierSettings(**bad)
