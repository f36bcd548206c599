"""One direction of a biLM over words: what it expects after those it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.model.lstm import LSTMStack, LSTMState
from elmokit.model.packing import pack
from elmokit.model.softmax import AdaptiveSoftmax, Softmax
from elmokit.prediction import LogProbabilities
from elmokit.text.characters import Sentence
from elmokit.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from elmokit.token_vectors import encode_words


class Words(NamedTuple):
    """The distinct words of some sentences, markers among them."""

    rows: dict[str, int]
    vectors: Tensor  # (distinct words, token_size)


@dataclass(frozen=True)
class Direction:
    """One half of a biLM that has a softmax, and the words it predicts.

    Forward it reads `<S> w1 … wn` and predicts `w1 … wn </S>`, backward it reads `</S> wn … w1` and
    predicts `wn … w1 <S>`: it never reads the marker that it predicts last.
    """

    bilm: BiLM
    vocabulary: Vocabulary
    name: Literal["forward", "backward"]

    @property
    def opening(self) -> str:
        """The marker that it reads first."""
        return BEGIN if self.name == "forward" else END

    @property
    def closing(self) -> str:
        """The marker that it predicts last."""
        return END if self.name == "forward" else BEGIN

    @property
    def lstm(self) -> LSTMStack:
        """Its stack."""
        return self.bilm.forward_lstm if self.name == "forward" else self.bilm.backward_lstm

    @property
    def softmax(self) -> Softmax | AdaptiveSoftmax:
        """What both directions share."""
        assert self.bilm.softmax is not None  # a LanguageModel refuses a model without
        return self.bilm.softmax

    def ordered(self, words: Sentence) -> list[str]:
        """The words of a sentence in the order of this direction; the order back, too."""
        return list(words) if self.name == "forward" else list(words)[::-1]

    @torch.inference_mode()
    def log_likelihoods(
        self,
        streams: Sequence[Sequence[Sentence]],
        words: Words,
        state: LSTMState | None = None,
    ) -> tuple[list[NDArray[np.float32]], LSTMState]:
        """Log probability of each target of some streams of sentences, and the state after them.

        For each stream an array (steps,): for each sentence in turn its words, in the order of
        this direction, and the closing marker.
        """
        inputs = [self._inputs(stream, words) for stream in streams]
        targets = [self._targets(stream) for stream in streams]
        lengths = [len(stream) for stream in inputs]
        device = words.vectors.device
        packing = pack(torch.tensor(lengths), max(lengths), device)

        def packed(ids: list[Tensor]) -> Tensor:
            return pad_sequence(ids, batch_first=True).to(device).flatten()[packing.forward]

        outputs, after = self._outputs(words.vectors[packed(inputs)], packing.step_sizes, state)
        values = self.softmax.log_likelihood(outputs, packed(targets))
        padded = values.new_zeros(len(streams) * max(lengths))
        padded[packing.forward] = values
        rows = padded.view(len(streams), -1).float().cpu().numpy()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)], after

    def after(self, words: Sentence) -> LogProbabilities:
        """Every word's log probability (words,) once a sentence has been read so far."""
        return self.read_on([self.opening, *self.ordered(words)])[0]

    @torch.inference_mode()
    def read_on(
        self, words: Sequence[str], state: LSTMState | None = None
    ) -> tuple[LogProbabilities, LSTMState]:
        """Read words one after the other: every word's log probability (words,), and the state."""
        vectors = encode_words(self.bilm, self.vocabulary, words)
        outputs, after = self._outputs(vectors, [1] * len(words), state)
        values = self.softmax(outputs[-1:])[0].float().cpu().numpy().astype(np.float64)
        if np.isnan(values).any():
            raise InputError("the model gives NaN for probabilities; its weights are damaged")
        return values, after

    def _outputs(
        self, token_vectors: Tensor, step_sizes: list[int], state: LSTMState | None
    ) -> tuple[Tensor, LSTMState]:
        """The top layer (tokens, token_size) over packed tokens, and the state after them."""
        if state is None:
            state = self.lstm.zero_state(step_sizes[0], token_vectors)
        layers, after = self.lstm(token_vectors, step_sizes, state)
        return layers[-1], after

    def _inputs(self, stream: Sequence[Sentence], words: Words) -> Tensor:
        """Which row of `words` each step of a stream reads: (steps,)."""
        read = ((self.opening, *self.ordered(sentence)) for sentence in stream)
        return torch.tensor([words.rows[word] for sentence in read for word in sentence])

    def _targets(self, stream: Sequence[Sentence]) -> Tensor:
        """The id of what each step of a stream predicts: (steps,)."""
        closing = self.vocabulary.id_of(self.closing)
        ids: list[int] = []
        for sentence in stream:
            ids += [target_id(self.vocabulary, word) for word in self.ordered(sentence)]
            ids.append(closing)
        return torch.tensor(ids)


def target_id(vocabulary: Vocabulary, word: str) -> int:
    """The softmax's id for a word of a sentence; a marker there is a word like any unknown."""
    return vocabulary.id_of(UNKNOWN if word in (BEGIN, END) else word)


@torch.inference_mode()
def encode_distinct(bilm: BiLM, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Words:
    """Encode each distinct word of some sentences once."""
    # In the order of the text, since a set's order changes from run to run.
    words = dict.fromkeys((BEGIN, END, *(word for sentence in sentences for word in sentence)))
    rows = {word: row for row, word in enumerate(words)}
    return Words(rows, encode_words(bilm, vocabulary, list(rows)))
