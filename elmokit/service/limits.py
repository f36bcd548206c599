"""What one request, and all of them together, may cost."""

from __future__ import annotations

from dataclasses import dataclass, fields

from elmokit.config import check_number, check_size

SECONDS = ("gather_seconds", "request_seconds", "header_seconds", "drain_seconds")


@dataclass(frozen=True)
class Limits:
    """Bounds that hold whatever clients send; more than one of them is refused, never cut."""

    body_bytes: int = 4 * 2**20
    """Of one request."""
    sentences: int = 2048
    """Texts or sentences of one request."""
    words_per_sentence: int = 2048
    words: int = 65536
    """Of all sentences of one request."""
    characters: int = 400_000
    """Of all texts of one request: they are split into words before these can be counted."""
    answer_values: int = 4 * 2**20
    """Numbers of one answer."""
    requests: int = 1024
    """Answered at the same time."""
    buffered_bytes: int = 64 * 2**20
    """Bodies of all requests together."""
    answering_bytes: int = 256 * 2**20
    """Answers that clients have not taken yet."""
    waiting_words: int = 262_144
    """Of all requests that the model has not come to."""
    waiting_values: int = 64 * 2**20
    """Numbers of all answers together."""
    searches: int = 32
    """Questions to the index that wait or are answered."""
    gather_seconds: float = 0.004
    """How long the first request waits for others to be computed with."""
    request_seconds: float = 60.0
    """Until a request is answered, or told that it will not be."""
    header_seconds: float = 20.0
    """Until a connection has said what it wants."""
    header_bytes: int = 65536
    drain_seconds: float = 30.0
    """For what is being answered when the service is told to stop."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check = check_number if field.name in SECONDS else check_size
            check(field.name, getattr(self, field.name))
