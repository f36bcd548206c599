"""What came of building an index."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from elmokit.plurals import counted


@dataclass(frozen=True)
class BuildSummary:
    """What was read and kept."""

    output: str
    sentences: int  # different ones that are kept
    occurrences: int
    forms: int
    words_read: int = 0
    duplicates: int = 0  # sentences that were there before
    vector_index: bool = False
    seconds: float = 0.0
    words_per_second: float = 0.0
    already_finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """One line."""
        kept = (
            f"{counted(self.occurrences, 'occurrence')} of {counted(self.forms, 'word')} in "
            f"{counted(self.sentences, 'sentence')}"
        )
        if self.already_finished:
            return f"{self.output}: already finished, with {kept}; nothing is left to do"
        repeated = f", {self.duplicates:,} repeated and kept once" if self.duplicates else ""
        rate = f"{self.seconds:.1f} s, {self.words_per_second:,.0f} words/s"
        return f"{self.output}: {kept}{repeated}, {rate}"
