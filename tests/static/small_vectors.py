"""Small static vectors in memory: words of a few kinds, with a direction for each kind."""

from __future__ import annotations

import random

import numpy as np

from elmokit.static.vectors import StaticVectors

WORDS = ["king", "queen", "man", "woman", "King", "bank", "river"]
TABLE = np.array(
    [
        [1.0, 0.0, 1.0],
        [0.0, 1.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.9, 0.1, 1.0],
        [0.5, -1.0, 0.2],
        [-0.5, -1.0, 0.1],
    ],
    np.float32,
)


def small_vectors(**settings: object) -> StaticVectors:
    return StaticVectors(WORDS, TABLE, **({"tokenizer": "whitespace"} | settings))  # type: ignore[arg-type]


def random_vectors(words: int = 300, size: int = 8, seed: int = 0) -> StaticVectors:
    """Words that differ in capitals too."""
    names = [f"w{number}" if number % 3 else f"W{number + 1}" for number in range(words)]
    table = np.random.default_rng(seed).standard_normal((words, size)).astype(np.float32)
    return StaticVectors(names, table)


def random_sentences(count: int = 200, seed: int = 1) -> list[list[str]]:
    chosen = random.Random(seed)
    return [[f"w{chosen.randrange(30)}" for _ in range(10)] for _ in range(count)]
