from __future__ import annotations

import numpy as np
import pytest
from analysis.probes.small_texts import no_step

from elmokit.analysis.probes import probes
from elmokit.analysis.probes.probes import PENALTIES, UNKNOWN, train_classifier

Labelled = tuple[np.ndarray, np.ndarray]


def problem(words: int, seed: int, scale: float = 1.0) -> Labelled:
    """Three classes that are linear in the vectors, whatever their scale."""
    vectors = np.random.default_rng(seed).standard_normal((words, 5))
    vectors[:, 4] = 1  # a value that never changes is no division by zero
    return (scale * vectors + 3).astype(np.float16), vectors[:, :3].argmax(1)


@pytest.mark.parametrize("scale", [0.05, 50.0])
def test_what_is_linear_is_learnt_whatever_its_scale_and_twice_the_same(scale):
    parts = [problem(800, seed, scale) for seed in range(3)]
    found = train_classifier(*parts, no_step)
    assert found.test > 0.95
    assert train_classifier(*parts, no_step) == found


def test_the_penalty_that_is_best_on_the_dev_set_is_taken(monkeypatch):
    monkeypatch.setattr(probes, "PENALTIES", (1e3, 1e-4, 10.0))
    told = []
    parts = [problem(300, seed) for seed in range(3)]
    found = train_classifier(*parts, lambda: told.append(1))
    assert len(told) == 3
    assert found.penalty == 1e-4
    assert found.test > 0.9


def test_of_equal_penalties_the_first_is_taken():
    train, (vectors, labels) = problem(300, 0), problem(100, 1)
    unknown = vectors, np.full_like(labels, UNKNOWN)
    assert train_classifier(train, unknown, unknown, no_step) == (PENALTIES[0], 0, 0)
