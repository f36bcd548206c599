"""The biLM that a task reads words with: where it is, and how to tell it from another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from elmokit.config import Precision, State, make
from elmokit.embedder import Embedder
from elmokit.formats.fetch import Progress


@dataclass(frozen=True)
class BilmReference:
    """What `Embedder.load` takes."""

    model: str | None = None
    """A model folder, the name of one, or options; None for the bundled model."""
    weights: str | None = None
    vocabulary: str | None = None

    def load(
        self,
        device: str | torch.device | None = None,
        progress: Progress | None = None,
        *,
        state: State = "zero",
        warm_runs: int = 1,
        precision: Precision = "exact",
    ) -> Embedder:
        """Load the model."""
        return Embedder.load(
            self.model,
            self.weights,
            vocabulary=self.vocabulary,
            device=device,
            progress=progress,
            state=state,
            warm_runs=warm_runs,
            precision=precision,
        )

    def is_gone(self) -> bool:
        """Whether it names a place in which nothing is any more."""
        place = self.model or ""
        return os.path.isabs(place) and not Path(place).exists()

    def absolute(self) -> BilmReference:
        """The same, found from any folder; names and addresses stay as they are."""
        return BilmReference(*map(_absolute, (self.model, self.weights, self.vocabulary)))

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; `from_dict` is its inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BilmReference:
        """From plain values."""
        return make(cls, values)


def _absolute(location: str | None) -> str | None:
    if location is None or not Path(location).exists():
        return location
    return os.path.abspath(location)
