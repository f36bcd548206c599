"""Sentences to arrays, many at a time: what is done between reading and writing."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import check_choice, check_size
from elmokit.errors import ElmoWarning, InputError
from elmokit.inference.embedder import (
    LONGEST_WHOLE,
    SENTENCES_PER_CARRIED_BATCH,
    Embedder,
    StateArrays,
    is_out_of_memory,
    unless_out_of_memory,
)
from elmokit.inference.layers import Mix, Pool, Vectors
from elmokit.system import counted
from elmokit.text.characters import Sentence, check_sentences
from elmokit.vectors.items import DType

UNUSUAL = "unusual: "
"""Begins the names of totals that count unusual words, by kind."""


@dataclass(frozen=True)
class BulkProgress:
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


Report = Callable[[BulkProgress], None]


class Tally:
    """Counts what is done of an input, and reports it.

    Args:
        size: Bytes of the input, where they are known.
        totals: What was counted before.
        position: Bytes of the input that were done before.
        report: Told how far the work is.
        known_words: Gives the share of words whose token vectors were remembered.
    """

    def __init__(
        self,
        size: int | None,
        totals: Mapping[str, int],
        position: int,
        report: Report | None,
        known_words: Callable[[], float],
    ) -> None:
        self.totals = Counter(totals)
        self.words_here = 0
        self.position = self._first_position = position
        self.started = time.perf_counter()
        self._size = size
        self._report = report
        self._known_words = known_words
        self._part = (0, 0)  # words and bytes of the one that is computed
        self._in_part: Counter[str] = Counter()

    def add_before(self, totals: Mapping[str, int], size: int) -> None:
        """Count a part that was done before."""
        self.totals.update(totals)
        self.position += size
        self._first_position = self.position

    def begin_part(self, words: int, size: int) -> None:
        """A part of so many words and bytes is begun."""
        self._part = (words, size)
        self._in_part.clear()

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

    def tell(self, written: int = 0) -> None:
        """Report how far the work is."""
        if self._report is None:
            return
        words, size = self._part
        share = min(1, self._in_part["words"] / max(1, words))
        self._report(
            BulkProgress(
                sentences=self.totals["sentences"] + self._in_part["sentences"],
                words=self.totals["words"] + self._in_part["words"],
                words_here=self.words_here + self._in_part["words"],
                seconds=time.perf_counter() - self.started,
                first_position=self._first_position,
                position=self.position + int(size * share),
                size=self._size,
                known_words=self._known_words(),
                written=written,
            )
        )


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
    def of(
        cls, output: str | Path, tally: Tally, memory: int | None, *, longest_whole: int
    ) -> Summary:
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


Array = NDArray[Any]

NEXT_ROW = "next_row"
"""Name of the row of the next sentence, among the arrays of a state."""


class Computer:
    """Computes arrays of sentences, each distinct sentence of a call once.

    In state `carry` every sentence is computed, in AllenNLP's batches: sentence i of all calls
    continues sentence i - 64, however many a call has.

    Args:
        embedder: The model.
        layers, pool: Those of `LayerChoice`; a mix is moved to the model's device.
        dtype: "float32", or "float16" as the last step.
        longest: Sentences of more words are read in pieces, with the same result. A mix with layer
            norm, or one that adds the directions, needs them whole.

    Attributes:
        progress: Told how many sentences and words each batch has that is done.
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
        check_choice("dtype", dtype, get_args(DType))
        check_size("longest", longest)
        self.embedder = embedder
        self.choice = embedder.choose(layers, pool)
        self._move_mix()
        self.dtype = dtype
        self.longest = longest
        self.progress: Callable[[int, int], None] | None = None
        self._next_row = 0
        self._counts: Counter[str] = Counter()
        self._taken = self._all_counts()

    @property
    def bytes_per_word(self) -> int:
        """The most bytes that results take for each word, a sentence's two markers counted too."""
        values = self.choice.values(self.embedder.config)
        vector = values * np.dtype(self.dtype).itemsize
        return vector if self.choice.pool is None else vector // 2

    def take_counts(self) -> dict[str, int]:
        """What happened since this was last asked, without what did not.

        `duplicates`: sentences, blank ones apart, not computed since they had been before.
        `long_sentences`: those read in pieces, each as often as it occurs. `out_of_memory`: how
        often there was no memory for a batch. Unusual words by kind.
        """
        counts = self._all_counts()
        taken, self._taken = self._taken, counts
        return dict(counts - taken)

    def compute(self, sentences: Sequence[Sentence]) -> list[Array]:
        """An array for each sentence, in their order: (…, words, size), or (…, size) if pooled.

        Equal sentences share one array.
        """
        check_sentences(sentences)
        self._note(sentences)
        if self.embedder.state == "carry":
            return self._converted(sentences, self._continue_rows(sentences))
        places: dict[tuple[str, ...], int] = {}
        place_of = [places.setdefault(tuple(sentence), len(places)) for sentence in sentences]
        self._counts["duplicates"] += sum(map(bool, sentences)) - sum(map(bool, places))
        distinct = list(places)
        arrays = self._converted(distinct, self._embed(distinct))
        return [arrays[place] for place in place_of]

    def skip(self, sentences: Sequence[Sentence]) -> None:
        """Count sentences that need not be computed: their arrays are known from earlier calls."""
        self._note(sentences)
        self._counts["duplicates"] += sum(map(bool, sentences))

    def state(self) -> StateArrays | None:
        """What `restore` needs to continue after the sentences so far; None without a state."""
        carried = self.embedder.carried_state()
        return None if carried is None else {**carried, NEXT_ROW: np.array(self._next_row)}

    def restore(self, state: Mapping[str, Array] | None) -> None:
        """Go on, in state `carry`, after the sentences that another Computer has computed."""
        self.embedder.restore_state(state)
        self._next_row = 0 if state is None else int(state[NEXT_ROW])

    def _note(self, sentences: Sequence[Sentence]) -> None:
        """Count what is unusual about sentences, each as often as it occurs."""
        self.embedder.note_words(sentences)
        if self.choice.by_halves:
            long = sum(len(sentence) > self.longest for sentence in sentences)
            self._counts["long_sentences"] += long

    def _continue_rows(self, sentences: Sequence[Sentence]) -> list[Vectors]:
        """Embed sentences in rows that begin where those of the last call ended."""
        vectors: list[Vectors] = []
        while len(vectors) < len(sentences):
            start = len(vectors)
            room = SENTENCES_PER_CARRIED_BATCH - self._next_row
            vectors += self._embed(sentences[start : start + room], self._next_row)
            self._next_row += len(vectors) - start
            self._next_row %= SENTENCES_PER_CARRIED_BATCH
        return vectors

    def _embed(self, sentences: Sequence[Sentence], first_row: int = 0) -> list[Vectors]:
        """Embed sentences; on the CPU if another device has no memory for a single one."""

        def embed() -> list[Vectors]:
            return self.embedder.embed_as(
                sentences, self.choice, self.longest, first_row, self.progress
            )

        device = self.embedder.device
        if device.type != "cpu":
            vectors = unless_out_of_memory(embed, device)
            if vectors is not None:
                return vectors
            self._move_to_processor(device)
        try:
            return embed()
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise InputError(
                    "there is not enough memory for a single sentence; pool its words, "
                    "split long sentences, or close other programs"
                ) from error
            raise

    def _move_to_processor(self, device: torch.device) -> None:
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

    def _all_counts(self) -> Counter[str]:
        """What has happened so far, in the embedder's other calls too."""
        unusual = {UNUSUAL + kind: n for kind, n in self.embedder.unusual_words.items()}
        retries = {"out_of_memory": self.embedder.memory_retries}
        return self._counts + Counter(unusual) + Counter(retries)

    def _converted(self, sentences: Sequence[Sentence], vectors: list[Vectors]) -> list[Array]:
        arrays: list[Array] = [*vectors]
        if self.dtype == "float16":
            vectors.clear()  # so that each array is let go when it is converted
            for number, sentence in enumerate(sentences):
                arrays[number] = as_float16(sentence, arrays[number])
        return arrays


def as_float16(sentence: Sentence, vectors: Vectors) -> NDArray[np.float16]:
    """The same values with three digits each, if float16 has room for them."""
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    if np.isinf(half).any():
        words = " ".join(sentence[:8])
        raise InputError(
            f"sentence {words[:60]!r}: has the value {np.abs(vectors).max():.6g}, "
            "beyond float16's range; use float32"
        )
    return half
