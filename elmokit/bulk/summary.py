"""What bulk embedding tells: how far it is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elmokit.plurals import counted

UNUSUAL = "unusual: "
"""Begins the names of totals that count unusual words, by kind."""


@dataclass(frozen=True)
class Progress:
    """How far the work is."""

    sentences: int
    words: int
    words_here: int  # without those of the run that this one resumes
    seconds: float
    first_position: int  # bytes of the input that were done before
    position: int  # bytes of the input that are done
    size: int | None  # bytes of the input in all, where they are known
    known_words: float  # share of words whose token vectors were remembered
    written: int = 0  # sentences in the output, once all are computed

    @property
    def words_per_second(self) -> float:
        """Since the start of this process."""
        return self.words_here / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """As the bytes of the input tell; None where they do not."""
        done = self.position - self.first_position
        if self.size is None or done <= 0:
            return None
        return self.seconds * max(0, self.size - self.position) / done


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Summary:
    """What was read and written."""

    output: str
    sentences: int = 0
    words: int = 0
    blank: int = 0
    duplicates: int = 0
    long_sentences: int = 0  # too long to be read whole, each as often as the text has it
    longest_whole: int | None = None  # words of the longest sentence that is read whole
    out_of_memory: int = 0  # how often a batch had to be halved, or computed on the processor
    unusual_words: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    words_per_second: float = 0.0
    peak_memory_bytes: int | None = None
    already_finished: bool = False  # by an earlier run; only its sentences are counted here

    @classmethod
    def of(
        cls,
        output: str | Path,
        totals: Mapping[str, int],
        words_here: int,
        seconds: float,
        memory: int | None,
        *,
        longest_whole: int | None = None,
    ) -> Summary:
        """From the totals of a run, and the time and the words of its last process."""
        unusual = {
            name.removeprefix(UNUSUAL): count
            for name, count in totals.items()
            if name.startswith(UNUSUAL) and count
        }
        counts: dict[str, Any] = {
            name: totals.get(name, 0)
            for name in (
                "sentences",
                "words",
                "blank",
                "duplicates",
                "long_sentences",
                "out_of_memory",
            )
        }
        rate = words_here / seconds if seconds else 0.0
        return cls(
            str(output),
            **counts,
            longest_whole=longest_whole,
            unusual_words=unusual,
            seconds=seconds,
            words_per_second=rate,
            peak_memory_bytes=memory,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """One line."""
        if self.already_finished:
            sentences = counted(self.sentences, "sentence")
            return f"{self.output}: already finished, with {sentences}; nothing is left to do"
        phrases = [
            counted(self.sentences, "sentence")
            + (f" ({self.blank:,} blank)" if self.blank else ""),
            counted(self.words, "word"),
            *(f"{count:,} {kind}" for kind, count in self.unusual_words.items()),
        ]
        if self.duplicates:
            phrases.append(f"{self.duplicates:,} repeated and computed once")
        if self.long_sentences:
            limit = f" (over {self.longest_whole:,} words)" if self.longest_whole else ""
            phrases.append(f"{counted(self.long_sentences, 'long sentence')}{limit} read in pieces")
        if self.out_of_memory:
            phrases.append(f"{counted(self.out_of_memory, 'time')} out of memory, and tried again")
        phrases.append(f"{self.seconds:.1f} s, {self.words_per_second:,.0f} words/s")
        return f"{self.output}: {', '.join(phrases)}"
