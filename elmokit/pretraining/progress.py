"""How far a run is, as its checkpoints and its metrics tell it."""

from __future__ import annotations

import math
from typing import NamedTuple


class Progress(NamedTuple):
    """What a run has come to; saved with every checkpoint."""

    step: int = 0
    words: int = 0
    seconds: float = 0.0  # of training alone: validation and saving are not counted
    best: float = math.inf  # held-out perplexity, the mean of both directions
    validations_since_best: int = 0
    validated_step: int = 0
    averaged_steps: int = 0

    def after(self, seconds: float) -> Progress:
        """The same, so many seconds later."""
        return self._replace(seconds=self.seconds + seconds)

    def words_per_second(self, since: Progress) -> float:
        """How fast training was since an earlier point."""
        seconds = self.seconds - since.seconds
        return (self.words - since.words) / seconds if seconds else 0.0


class Sums(NamedTuple):
    """Losses since the last line of metrics, over all processes once they are joined."""

    forward: float = 0.0
    backward: float = 0.0
    targets: float = 0.0

    def add(self, forward: float, backward: float, targets: float) -> Sums:
        """With another batch."""
        return Sums(self.forward + forward, self.backward + backward, self.targets + targets)
