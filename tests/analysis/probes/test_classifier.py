from __future__ import annotations

import sys

import numpy as np
import pytest

from elmokit.analysis.probes.probes import PENALTIES, UNKNOWN, train_classifier
from elmokit.errors import InputError

Labelled = tuple[np.ndarray, np.ndarray]


def problem(words: int, seed: int, scale: float = 1.0) -> Labelled:
    """Three classes that are linear in the vectors, whatever their scale."""
    vectors = np.random.default_rng(seed).standard_normal((words, 5))
    return (scale * vectors + 3).astype(np.float16), vectors[:, :3].argmax(1)


@pytest.mark.parametrize("scale", [0.05, 50.0])
def test_what_is_linear_is_learnt_whatever_its_scale(scale):
    train, dev, test = (problem(800, seed, scale) for seed in range(3))
    classifier = train_classifier(train, dev)
    assert classifier.accuracy(*test) > 0.95


def test_trained_twice_it_is_the_same():
    train, dev = problem(300, 0), problem(100, 1)
    first, second = (train_classifier(train, dev) for _ in range(2))
    assert (first.regression.coef_ == second.regression.coef_).all()


def test_the_penalty_that_is_best_on_the_dev_set_is_taken():
    train, dev, test = (problem(300, seed) for seed in range(3))
    told = []
    penalties = (1e3, 1e-4, 10.0)
    classifier = train_classifier(train, dev, lambda *one: told.append(one), penalties)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert classifier.penalty == 1e-4
    assert classifier.accuracy(*test) > 0.9


def test_of_equal_penalties_the_first_is_taken():
    train, (vectors, labels) = problem(300, 0), problem(100, 1)
    classifier = train_classifier(train, (vectors, np.full_like(labels, UNKNOWN)))
    assert classifier.penalty == PENALTIES[0]


def test_a_value_that_never_changes_is_no_division_by_zero():
    vectors, labels = problem(300, 0)
    vectors[:, 4] = 1
    assert train_classifier((vectors, labels), (vectors, labels)).accuracy(vectors, labels) > 0.95


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(InputError, match=r'scikit-learn is .* pip install "elmokit\[analysis\]"'):
        train_classifier(problem(20, 0), problem(20, 1))
