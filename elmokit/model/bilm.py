"""The bidirectional language model: token encoder, forward stack, backward stack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from elmokit.config import (
    EncoderConfig,
    LexiconEncoderConfig,
    ModelConfig,
    Precision,
    WordEncoderConfig,
)
from elmokit.errors import InputError
from elmokit.model.both_directions import computes_plainly, run_each
from elmokit.model.character_encoder import CharacterEncoder
from elmokit.model.lexicon_encoder import LexiconEncoder
from elmokit.model.lstm import LSTMStack, LSTMState, Packing, pack
from elmokit.model.one_sentence import LockStep, pays_in_lock_step
from elmokit.model.softmax import AdaptiveSoftmax, Softmax
from elmokit.model.weights import track_writes, version_of, without_values
from elmokit.model.word_encoder import WordEncoder

DirectionName = Literal["forward", "backward"]
BOTH: tuple[DirectionName, ...] = ("forward", "backward")


class Layers(NamedTuple):
    """What the biLM knows of each word, layer by layer."""

    vectors: Tensor  # (layers, batch, words, size), zero on padding
    mask: Tensor  # (batch, words), False on padding


class BiLMState(NamedTuple):
    """The state of both directions, row by row."""

    forward: LSTMState
    backward: LSTMState

    def detach(self) -> BiLMState:
        """The same state without its history: gradients stop at the border of a batch."""
        return BiLMState(*(LSTMState(*(part.detach() for part in half)) for half in self))

    def of_rows(self, rows: Sequence[int]) -> BiLMState:
        """The state of some rows, in the order given."""
        chosen = torch.tensor(rows, device=self.forward.cells.device)
        return BiLMState(*(LSTMState(*(part[:, chosen] for part in half)) for half in self))

    def with_rows(self, rows: Sequence[int], state: BiLMState) -> BiLMState:
        """The same state but for some rows, which have another."""
        chosen = torch.tensor(rows, device=self.forward.cells.device)
        return join_states(self, state, lambda old, new: old.index_copy(1, chosen, new))


class BiLMOutput(NamedTuple):
    """Layers, sentence markers included, and the state after the last word."""

    layers: Layers
    state: BiLMState


class BiLM(nn.Module):
    """Two LSTM stacks over one token encoder; they never see each other."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = make_encoder(config.encoder, config.token_size)
        self.forward_lstm = LSTMStack(config)
        self.backward_lstm = LSTMStack(config)
        self.softmax = make_softmax(config)
        self._lock_step: LockStep | None = None

    @classmethod
    def from_weights(cls, config: ModelConfig, weights: Mapping[str, Tensor]) -> BiLM:
        """A model that takes the given tensors as its own, without making random ones first.

        Without tensors of a softmax it has none, whatever the config says.
        """
        with without_values():
            bilm = cls(config)
        if not any(name.startswith("softmax.") for name in weights):
            bilm.softmax = None
        bilm.load_state_dict(weights, assign=True)
        track_writes(bilm)
        return bilm

    def forward(
        self, ids: Tensor, state: BiLMState | None = None, precision: Precision = "exact"
    ) -> BiLMOutput:
        """Read sentences of ids (batch, words[, characters]), 0 for padding, without markers.

        The result has two positions more than the input: each sentence is wrapped in its begin and
        end marker. `state` continues earlier sentences row by row; None starts from zeros.
        """
        ids, mask = self.add_markers(ids, self.mask(ids))
        return self.contextualize(self.encode(ids, mask), mask.sum(1), state, precision)

    def weights_changed(self) -> None:
        """Tell that weights were written to behind autograd's back, through `.data` for example.

        Other changes are noticed: optimiser steps, `load_state_dict`, `.to()`; of a fused
        optimiser, steps after gradients were recorded through the model.
        """
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(0)  # counts as a write

    def mask(self, ids: Tensor) -> Tensor:
        """Which of (batch, words[, characters]) are words: (batch, words), False on padding."""
        check_ids(ids)
        dimensions = 2 if isinstance(self.encoder, WordEncoder) else 3
        if ids.dim() != dimensions:
            names = "(batch, words, characters)" if dimensions == 3 else "(batch, words)"
            raise InputError(f"ids have shape {tuple(ids.shape)}; this model reads {names}")
        if ids.shape[2:] != self.encoder.begin_marker.shape:
            raise InputError(
                f"words have {ids.shape[-1]} characters; this model reads "
                f"{len(self.encoder.begin_marker)}, padding included"
            )
        mask = (ids != 0).any(-1) if dimensions == 3 else ids != 0
        if not bool((mask[:, 1:] <= mask[:, :-1]).all()):
            raise InputError("ids have padding before a word; padding must follow the sentence")
        return mask

    def add_markers(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Wrap each sentence of (batch, words, …) in its markers: (batch, words + 2, …)."""
        lengths = mask.sum(1)
        rows = torch.arange(len(ids), device=ids.device)
        marked = ids.new_zeros(ids.shape[0], ids.shape[1] + 2, *ids.shape[2:])
        marked[:, 1:-1] = ids
        marked[:, 0] = self.encoder.begin_marker.to(ids)
        marked[rows, lengths + 1] = self.encoder.end_marker.to(ids)
        positions = torch.arange(marked.shape[1], device=ids.device)
        return marked, positions < (lengths + 2)[:, None]

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token vectors (batch, words, token_size) of ids, zero on padding; each word once."""
        words = ids[mask]
        if not isinstance(self.encoder, WordEncoder):
            distinct, occurrences = distinct_rows(words)
            vectors = self.encoder(distinct)[occurrences]
        else:
            vectors = self.encoder(words)
        token_vectors = vectors.new_zeros(*mask.shape, self.config.token_size)
        return token_vectors.masked_scatter(mask[:, :, None], vectors)

    def contextualize(
        self,
        token_vectors: Tensor,
        lengths: Tensor,
        state: BiLMState | None = None,
        precision: Precision = "exact",
        directions: Collection[DirectionName] = BOTH,
    ) -> BiLMOutput:
        """Run both stacks over token vectors (batch, words, token_size), markers included.

        A direction that is not to read leaves zeros in its half, and its state as it was; layer 0
        is there without any.
        """
        batch, words, size = token_vectors.shape
        before = self.state_of_rows(state, batch, token_vectors)
        positions = torch.arange(words, device=token_vectors.device)
        mask = positions < lengths.to(token_vectors.device)[:, None]
        flat = (token_vectors * mask[:, :, None]).flatten(0, 1)
        vectors = flat.new_zeros(self.config.layer_count, batch * words, 2 * size)
        vectors[0] = torch.cat([flat, flat], dim=-1)
        lock_step = self.lock_step(flat, mask, precision, directions)
        if lock_step is not None:
            after = BiLMState(*lock_step.run(flat, before, vectors[1:]))
        else:
            packing = pack(lengths, words, flat.device)
            after = self.read_packed(flat, packing, before, vectors[1:], precision, directions)
        layers = Layers(vectors.view(self.config.layer_count, batch, words, 2 * size), mask)
        return BiLMOutput(layers, keep_other_rows(after, state))

    def read_packed(
        self,
        tokens: Tensor,
        packing: Packing,
        before: BiLMState,
        result: Tensor,
        precision: Precision,
        directions: Collection[DirectionName],
    ) -> BiLMState:
        """Run stacks over flat tokens into `result` (layers, tokens, 2 * token_size)."""
        size = tokens.shape[1]
        runs = {
            name: partial(run_direction, lstm, tokens, positions, packing, old, half, precision)
            for name, lstm, positions, old, half in zip(
                BOTH,
                (self.forward_lstm, self.backward_lstm),
                (packing.forward, packing.backward),
                before,
                (result[..., :size], result[..., size:]),
                strict=True,
            )
            if name in directions
        }
        weight = self.config.recurrent_numbers
        states = run_each(list(runs.values()), len(packing.rows), tokens.device, weight)
        return before._replace(**dict(zip(runs, states, strict=True)))

    def lock_step(
        self,
        tokens: Tensor,
        mask: Tensor,
        precision: Precision,
        directions: Collection[DirectionName],
    ) -> LockStep | None:
        """Both stacks laid out for one sentence; None where another way is right or faster."""
        stacks = self.forward_lstm, self.backward_lstm
        if not (
            len(mask) == 1
            and len(tokens) > 0
            and len(directions) == 2
            and computes_plainly(tokens.device)
            and bool(mask.all())
            and pays_in_lock_step(tokens, stacks, precision)
        ):
            return None
        version = version_of(w for stack in stacks for w in stack.weights())
        if self._lock_step is None or self._lock_step.version != version:
            self._lock_step = LockStep(stacks, version)
        return self._lock_step

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock_step": None}  # derived from the weights

    def state_of_rows(self, state: BiLMState | None, rows: int, like: Tensor) -> BiLMState:
        """The state of the first `rows` rows; rows that are new start from zeros."""
        zero = BiLMState(
            self.forward_lstm.zero_state(rows, like), self.backward_lstm.zero_state(rows, like)
        )
        if state is None:
            return zero
        return join_states(
            state,
            zero,
            lambda old, new: torch.cat([old[:, :rows].to(new), new[:, old.shape[1] :]], dim=1),
        )


def make_encoder(
    config: EncoderConfig, token_size: int
) -> CharacterEncoder | WordEncoder | LexiconEncoder:
    """The token encoder that the config describes."""
    if isinstance(config, WordEncoderConfig):
        return WordEncoder(config, token_size)
    if isinstance(config, LexiconEncoderConfig):
        return LexiconEncoder(config, token_size)
    return CharacterEncoder(config, token_size)


def make_softmax(config: ModelConfig) -> Softmax | AdaptiveSoftmax | None:
    """The output layer that the config describes, if any."""
    words, cutoffs = config.softmax_words, config.softmax_cutoffs
    if words is None:
        return None
    if not cutoffs:
        return Softmax(words, config.token_size)
    return AdaptiveSoftmax(words, config.token_size, cutoffs, config.softmax_division)


def check_ids(ids: object) -> None:
    """Raise an error for words where their ids belong."""
    if not isinstance(ids, Tensor):
        raise InputError(
            f"expected a tensor of ids, got a {type(ids).__name__}; "
            "turn sentences into ids with batch_to_ids"
        )


def remove_markers(vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Cut the markers from (…, batch, words + 2, size) and its mask; padding becomes zero."""
    mask = mask[:, 2:]
    return vectors[..., 1:-1, :] * mask[:, :, None], mask


def run_direction(
    lstm: LSTMStack,
    tokens: Tensor,
    positions: Tensor,
    packing: Packing,
    state: LSTMState,
    result: Tensor,
    precision: Precision,
) -> LSTMState:
    """Run one stack over flat tokens in the order of `positions`, into `result`; give its state."""
    sorted_state = LSTMState(*(part[:, packing.rows] for part in state))
    outputs, after = lstm(tokens[positions], packing.step_sizes, sorted_state, precision)
    for depth, output in enumerate(outputs):
        result[depth, positions] = output
    unsort = packing.rows.argsort()
    return LSTMState(*(part[:, unsort] for part in after))


def keep_other_rows(state: BiLMState, before: BiLMState | None) -> BiLMState:
    """Rows that the batch did not have keep the state they had."""
    if before is None:
        return state
    return join_states(
        state, before, lambda new, old: torch.cat([new, old[:, new.shape[1] :].to(new)], dim=1)
    )


def join_states(
    first: BiLMState, second: BiLMState, join: Callable[[Tensor, Tensor], Tensor]
) -> BiLMState:
    """Combine two states part by part."""
    return BiLMState(
        *(LSTMState(*map(join, one, other)) for one, other in zip(first, second, strict=True))
    )


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of (words, characters), and for each word the index of its row.

    Rows are told apart by a 64-bit hash, many times faster than comparing them; a collision would
    be noticed and the rows compared after all.
    """
    multipliers = torch.randint(
        -(2**62), 2**62, rows.shape[1:], generator=torch.Generator().manual_seed(0)
    ).to(rows.device)
    hashes = (rows.long() * multipliers).sum(1)
    distinct_hashes, occurrences = torch.unique(hashes, return_inverse=True)
    indices = torch.arange(len(rows), device=rows.device)
    representatives = indices.new_empty(len(distinct_hashes)).scatter_(0, occurrences, indices)
    distinct = rows[representatives]
    if torch.equal(distinct[occurrences], rows):
        return distinct, occurrences
    return torch.unique(rows, dim=0, return_inverse=True)
