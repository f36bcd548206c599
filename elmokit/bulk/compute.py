"""Sentences to arrays, many at a time: what is done between reading and writing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.bulk.summary import UNUSUAL
from elmokit.carried_state import StateArrays
from elmokit.config import ModelConfig, check_choice, check_size
from elmokit.device_memory import is_out_of_memory, unless_out_of_memory
from elmokit.embedder import LONGEST_WHOLE, SENTENCES_PER_CARRIED_BATCH, Embedder
from elmokit.errors import ElmoWarning, InputError
from elmokit.formats.vector_settings import DType
from elmokit.reductions import (
    Layer,
    Mix,
    Pool,
    Reduction,
    Vectors,
    every_layer,
    mixture_of_each,
    reduced_size,
    reduction_of,
)
from elmokit.text.characters import Sentence, check_sentences

Array = NDArray[Any]

NEXT_ROW = "next_row"
"""Name of the row of the next sentence, among the arrays of a state."""


class Computer:
    """Computes arrays of sentences, each distinct sentence of a call once.

    In state `carry` every sentence is computed, in AllenNLP's batches: sentence i of all calls
    continues sentence i - 64, however many a call has.

    Args:
        embedder: The model.
        layers: "average", "top", "all", the number of a layer ("0" is the token layer), or a mix
            as `formats.mixes.read_mix` gives it. A mix with layer norm is of each sentence by
            itself, so that its vectors do not depend on the sentences around it.
        pool: "mean" or "max" over the words of a sentence, zeros where it has none; "none" keeps
            the words.
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
        layers: str | Mix = "average",
        pool: Pool = "none",
        dtype: DType = "float32",
        longest: int = LONGEST_WHOLE,
    ) -> None:
        check_choice("dtype", dtype, get_args(DType))
        check_size("longest", longest)
        self.embedder = embedder
        self.layers = layers
        self.pool = pool
        self.dtype = dtype
        self.longest = longest
        self.progress: Callable[[int, int], None] | None = None
        self._next_row = 0
        self._counts: Counter[str] = Counter()
        self._taken = self._all_counts()
        self._reduction()  # refuses layers that the model does not have

    @property
    def bytes_per_word(self) -> int:
        """The most bytes that results take for each word, a sentence's two markers counted too."""
        config = self.embedder.config
        if isinstance(self.layers, str):
            layers = config.layer_count if self.layers == "all" else 1
            size = layers * config.vector_size
        else:
            size = reduced_size(self.layers, config)
        vector = size * np.dtype(self.dtype).itemsize
        return vector if self.pool == "none" else vector // 2

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
        """What `restore` needs to go on after the sentences so far; None if nothing is carried."""
        carried = self.embedder.carried_state()
        return None if carried is None else {**carried, NEXT_ROW: np.array(self._next_row)}

    def restore(self, state: Mapping[str, Array] | None) -> None:
        """Go on, in state `carry`, after the sentences that another Computer has computed."""
        self.embedder.restore_state(state)
        self._next_row = 0 if state is None else int(state[NEXT_ROW])

    def _note(self, sentences: Sequence[Sentence]) -> None:
        """Count what is unusual about sentences, each as often as it occurs."""
        self.embedder.note_words(sentences)
        if self._reduction().by_halves:
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
        """Embed sentences; on the processor if another device has no memory for a single one."""
        reduction = self._reduction()

        def embed() -> list[Vectors]:
            return self.embedder.embed_as(
                sentences, reduction, self.longest, first_row, self.progress
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
            "the rest is computed on the processor",
            ElmoWarning,
            stacklevel=2,
        )
        self._counts["out_of_memory"] += 1
        self.embedder.bilm.to("cpu")
        if not isinstance(self.layers, str):
            self.layers.to("cpu")

    def _reduction(self) -> Reduction:
        """What the settings keep of a sentence, where the model is."""
        layers, config = self.layers, self.embedder.config
        if not isinstance(layers, str):
            mixed = reduction_of(layers.to(self.embedder.device), config, self.pool)
            return mixed if mixed.by_halves else replace(mixed, reduce=mixture_of_each(layers))
        if layers == "all":
            return every_layer(self.pool)
        return reduction_of(named_layer(layers, config), config, self.pool)

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


def named_layer(name: str, config: ModelConfig) -> Layer:
    """The layer, or the average of all, that a flag names."""
    named: dict[str, Layer] = {"average": "average", "top": "top"}
    named |= {str(number): number for number in range(config.layer_count)}
    if name not in named:
        raise InputError(f"layers is {name!r}; use one of all, {', '.join(named)}, or a mix")
    return named[name]


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
