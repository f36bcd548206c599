"""Sentences to arrays, many at a time: what is done between reading and writing."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.bulk.parts import Array, Part
from elmokit.errors import ElmoWarning, InputError
from elmokit.inference.embedder import (
    LONGEST_WHOLE,
    Embedder,
    unless_out_of_memory,
)
from elmokit.inference.layers import Mix, Pool, Vectors
from elmokit.inference.token_vectors import WordCache
from elmokit.jobs.progress import Observer
from elmokit.model.bilm import BiLMState
from elmokit.model.lstm import LSTMState
from elmokit.system import counted, peak_memory
from elmokit.text.characters import Sentence
from elmokit.vectors.items import DType, as_finite

UNUSUAL = "unusual: "  # begins the names of totals that count unusual words, by kind


class Tally:
    """Counts what is done of an input, on top of what was before; tells an observer, hits too."""

    def __init__(
        self,
        totals: Mapping[str, int],
        position: int,
        observer: Observer,
        cache: WordCache | None = None,
    ) -> None:
        self.totals = Counter(totals)
        self.words_here = 0
        self.position = position
        self.started = time.perf_counter()
        self._observer = observer
        self._cache = cache
        self.part: Part | None = None  # that is computed now, and here
        self._in_part: Counter[str] = Counter()

    def end_batch(self, sentences: int, words: int) -> None:
        """Some more sentences of the part are computed."""
        self._in_part.update(sentences=sentences, words=words)
        self.tell()

    def end_part(self, totals: Mapping[str, int], size: int) -> None:
        """A part is done."""
        self._in_part.clear()
        self.totals.update(totals)
        self.words_here += totals["words"]
        self.position += size
        self.part = None
        self.tell()

    def tell(self) -> None:
        """Tell the observer how far the work is."""
        done = 0
        if self.part is not None:
            share = min(1, self._in_part["words"] / max(1, self.part.words))
            done = int(self.part.bytes * share)
        seconds = time.perf_counter() - self.started
        self._observer.metrics(
            sentences=self.totals["sentences"] + self._in_part["sentences"],
            words=self.totals["words"] + self._in_part["words"],
            words_per_second=(self.words_here + self._in_part["words"]) / seconds,
            **({} if self._cache is None else {"cached_words": self._cache.hit_rate}),
        )
        self._observer.advance(self.position + done)


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
    out_of_memory: int = 0  # how often a batch had to be halved, or computed on the CPU
    unusual_words: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    words_per_second: float = 0.0
    peak_memory_bytes: int | None = None
    already_finished: bool = False  # by an earlier run; only its sentences are counted here

    @classmethod
    def of(cls, output: str | Path, tally: Tally, longest_whole: int) -> Summary:
        """From what a run has counted; time and rate are of its last process."""
        seconds = time.perf_counter() - tally.started
        totals = tally.totals
        names = ("sentences", "words", "blank", "duplicates", "long_sentences", "out_of_memory")
        counts: dict[str, Any] = {name: totals[name] for name in names}
        return cls(
            str(output),
            **counts,
            longest_whole=longest_whole,
            unusual_words={
                name.removeprefix(UNUSUAL): count
                for name, count in totals.items()
                if name.startswith(UNUSUAL) and count
            },
            seconds=seconds,
            words_per_second=tally.words_here / seconds,
            peak_memory_bytes=peak_memory(),
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


STATE_PARTS = ("forward_cells", "forward_outputs", "backward_cells", "backward_outputs")
NEXT_ROW = "next_row"  # name of the row of the next sentence, among the arrays of a state


class Computer:
    """Computes arrays of sentences, each distinct sentence of a call once.

    In state `carry` every sentence is computed, in the embedder's batches: sentence i of all calls
    continues sentence i - `batch_size`, however many a call has.

    `layers` and `pool` are those of `LayerChoice`; a mix is moved to the model's device. Sentences
    of more words than `longest` are read in pieces, with the same result. A mix with layer norm, or
    one that adds the directions, needs them whole. `progress` is told how many sentences and words
    each batch has that is done.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        layers: str | int | Mix = "average",
        pool: Pool = None,
        dtype: DType = "float32",
        longest: int = LONGEST_WHOLE,
    ) -> None:
        self.embedder = embedder
        self.choice = embedder.choose(layers, pool)
        self._move_mix()
        self.dtype = dtype
        self.longest = longest
        self.progress: Callable[[int, int], None] | None = None
        self._next_row = 0
        self._counts: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self.take_counts()  # what the embedder has counted for others

    def take_counts(self) -> dict[str, int]:
        """What happened since this was last asked, without what did not.

        `duplicates`: sentences, blank ones apart, not computed since they had been before.
        `long_sentences`: those read in pieces, each as often as it occurs. `out_of_memory`: how
        often there was no memory for a batch. Unusual words by kind.
        """
        unusual = {UNUSUAL + kind: n for kind, n in self.embedder.unusual.counts.items()}
        retries = {"out_of_memory": self.embedder.memory_retries}
        counts = self._counts + Counter(unusual) + Counter(retries)
        taken, self._taken = self._taken, counts
        return dict(counts - taken)

    def compute(self, sentences: Sequence[Sentence], known: Collection[int] = ()) -> list[Array]:
        """An array for each sentence, in their order: (…, words, size), or (…, size) if pooled.

        Equal sentences share one array. The sentences whose numbers are `known` are only counted:
        their arrays are there from earlier calls.
        """
        self.embedder.unusual.note_all(sentences)
        if self.choice.by_halves:
            long = sum(len(sentence) > self.longest for sentence in sentences)
            self._counts["long_sentences"] += long
        if self.embedder.state == "carry":
            return self._converted(sentences, self._continue_rows(sentences))
        new = [tuple(sentence) for n, sentence in enumerate(sentences) if n not in known]
        distinct = list(dict.fromkeys(new))
        self._counts["duplicates"] += sum(map(bool, sentences)) - sum(map(bool, distinct))
        arrays = self._converted(distinct, self._embed(distinct))
        array_of = dict(zip(distinct, arrays, strict=True))
        return [array_of[sentence] for sentence in new]

    def state(self) -> dict[str, Array] | None:
        """What `restore` needs to continue after the sentences so far; None without a state."""
        if self.embedder.carried is None:
            return None
        parts = [part.cpu() for direction in self.embedder.carried for part in direction]
        # NumPy has no bfloat16: widening it loses nothing.
        widened = [part.float() if part.dtype == torch.bfloat16 else part for part in parts]
        arrays = [*(part.numpy().copy() for part in widened), np.array(self._next_row)]
        return dict(zip((*STATE_PARTS, NEXT_ROW), arrays, strict=True))

    def restore(self, state: Mapping[str, Array] | None) -> None:
        """Resume, in state `carry`, after the sentences that another Computer has computed."""
        self.embedder.reset_state()
        self._next_row = 0
        if state is not None:
            parts = [torch.tensor(state[name]) for name in STATE_PARTS]
            self.embedder.carried = BiLMState(LSTMState(*parts[:2]), LSTMState(*parts[2:]))
            self._next_row = int(state[NEXT_ROW])

    def _continue_rows(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """Embed sentences in rows that begin where those of the last call ended."""
        vectors: list[Vectors] = []
        while len(vectors) < len(sentences):
            start = len(vectors)
            room = self.embedder.batch_size - self._next_row
            vectors += self._embed(sentences[start : start + room], self._next_row)
            self._next_row += len(vectors) - start
            self._next_row %= self.embedder.batch_size
        return vectors

    def _embed(self, sentences: Sequence[Sentence], first_row: int = 0) -> list[Vectors]:
        """Embed sentences; on the CPU if another device has no memory for a single one."""
        settings = self.choice, self.longest, first_row, self.progress
        embed = partial(self.embedder.embed_as, sentences, *settings)
        device = self.embedder.device
        vectors = unless_out_of_memory(embed, device)
        if vectors is None and device.type != "cpu":
            self._move_to_cpu(device)
            vectors = unless_out_of_memory(embed, self.embedder.device)
        if vectors is None:
            raise InputError(
                "there is not enough memory for a single sentence; pool its words, "
                "split long sentences, or close other programs"
            )
        return vectors

    def _move_to_cpu(self, device: torch.device) -> None:
        warnings.warn(
            f"out of memory on {device} even for a single sentence; "
            "the rest is computed on the CPU",
            ElmoWarning,
            stacklevel=2,
        )
        self._counts["out_of_memory"] += 1
        self.embedder.bilm.to("cpu")
        self._move_mix()

    def _move_mix(self) -> None:
        if self.choice.mix is not None:
            self.choice.mix.to(self.embedder.device)

    def _converted(self, sentences: Sequence[Sentence], arrays: list[Any]) -> list[Array]:
        if self.dtype == "float16":
            for number, sentence in enumerate(sentences):  # in place: each is freed at once
                place = f"sentence {' '.join(sentence[:8])[:60]!r}"
                arrays[number] = as_finite(arrays[number], "float16", place)
        return arrays
