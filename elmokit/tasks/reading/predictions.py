"""What a reader answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The answer to a question: text[start:end] of what was asked about."""

    answer: str
    start: int
    end: int
    probability: float
    """Among all spans of words that could be answers."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "answer": self.answer,
            "start": self.start,
            "end": self.end,
            "probability": self.probability,
        }
