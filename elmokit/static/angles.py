"""Vectors by the angles between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def largest(values: Vectors, count: int) -> list[int]:
    """The places of the largest of (values,), the largest first; the first of equal ones first."""
    if count < len(values):
        least = np.partition(values, len(values) - count)[len(values) - count]
        candidates = np.flatnonzero(values >= least)
    else:
        candidates = np.arange(len(values))
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order][:count].tolist()


def cosine(first: Vectors, second: Vectors) -> float:
    """Cosine of the angle between two vectors (size,); 0 where one of them is zero."""
    # Rounding may lead a little above 1.
    return min(1.0, max(-1.0, float(unit(first) @ unit(second))))


def unit(vectors: Vectors) -> Vectors:
    """Bring vectors (…, size) to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1
    return vectors / lengths
